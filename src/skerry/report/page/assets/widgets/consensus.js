/** Disagreement inside and across islands; and the ratios at server rounds beside their theory. */
Skerry.widgets.consensus = (root, data, page) => {
  const { make, select, controls, figure, table } = Skerry.dom;
  const { number, plusMinus } = Skerry.numbers;
  const { model, grid } = page;
  const known = data.ratios.filter((name) => grid.measureNamed(name) >= 0);
  const view = { name: known[0] };
  const parts = figure("Disagreement per device: inside islands (solid) and between islands (dashed).");
  const ratios = figure("");
  const numbers = make("div");
  if (known.length) {
    const choices = known.map((name) => [name, model.measures[grid.measureNamed(name)].title]);
    root.append(controls(select("Ratio at server rounds", choices, view.name, (name) => { view.name = name; update(); })));
  }
  root.append(make("div", { class: "pair" }, parts.element, ...(known.length ? [ratios.element] : [])), numbers);

  async function drawParts(chosen) {
    const traces = [];
    for (const [name, dash, words] of [["disagreement_intra", "solid", "inside"], ["disagreement_inter", "dash", "between"]]) {
      const measure = grid.measureNamed(name);
      if (measure < 0) continue;
      for (const { look, group } of chosen) {
        const curve = await grid.curve(measure, group);
        if (!curve) continue;
        const told = Skerry.plots.brief(`${grid.labelled(group)}, ${words}`, 48);
        traces.push({
          type: "scatter", mode: "lines", name: told, x: curve.rounds, y: curve.mean, hole: curve.hole,
          line: { color: look.light, dash, width: 2 }, hoverinfo: "text",
          hovertext: curve.mean.map((mean, i) => `${told}, round ${curve.rounds[i]}: ${number("number", mean)}`),
        });
      }
    }
    // What is left after S2A, or inside a complete graph, is rounding; it ends at the floor.
    const highest = (trace) => trace.y.reduce((a, b) => Math.max(a, b), 0);
    const floor = 1e-4 * Math.max(0, ...traces.map(highest));
    const seen = traces.filter((trace) => highest(trace) > floor);
    for (const trace of seen) {
      trace.y = trace.y.map((value) => Math.max(value, floor));
      for (const name of ["x", "y", "hovertext"]) trace[name] = Skerry.plots.holed(trace, trace[name]);
      delete trace.hole;
    }
    const y = { type: "log", title: { text: "disagreement" } };
    return Skerry.plots.plot(parts.plot, seen, { xaxis: { title: { text: "rounds" } }, yaxis: y });
  }

  /** The expected ratio at each server round: {rounds, mean}, or null if the theory has none. Unless both
      shares are equal, it depends on the disagreement inside and between islands before the round. */
  async function expectedOf(ratio, group) {
    const shares = data.theory[group]?.[data.ratios.indexOf(ratio)];
    if (!shares) return null;
    if (shares[0] === shares[1]) {
      const rounds = [0, model.groups.rounds[group]];
      return { rounds, mean: rounds.map(() => shares[0]) };
    }
    const places = ["intra", "inter"].map((part) => grid.measureNamed(`disagreement_${part}_before`));
    if (places.some((place) => place < 0)) return null;
    const [inside, between] = await Promise.all(places.map((place) => grid.curve(place, group)));
    if (!inside || !between) return null;
    const across = new Map(between.rounds.map((round, i) => [round, between.mean[i]]));
    const found = { rounds: [], mean: [] };
    inside.rounds.forEach((round, i) => {
      const intra = inside.mean[i], inter = across.get(round);
      if (!(intra + inter > 0)) return;
      found.rounds.push(round);
      found.mean.push((shares[0] * intra + shares[1] * inter) / (intra + inter));
    });
    return found.rounds.length ? found : null;
  }

  async function drawRatio(chosen) {
    const place = grid.measureNamed(view.name), measure = model.measures[place];
    const traces = [];
    for (const { look, group } of chosen) {
      const curve = await grid.curve(place, group);
      if (!curve) continue;
      const colour = look.light, told = Skerry.plots.brief(grid.labelled(group));
      traces.push({
        type: "scatter", mode: "markers", name: told, x: curve.rounds, y: curve.mean, marker: { color: colour, size: 7, symbol: look.symbol },
        error_y: Skerry.plots.bars(curve.mean.map((mean, i) => ({ mean, half: curve.half[i] })), measure, { color: Skerry.plots.faded(colour, "66"), thickness: 1, width: 0 }),
        hoverinfo: "text", hovertext: curve.mean.map((mean, i) =>
          `${told}, round ${curve.rounds[i]}: ${plusMinus("number", { mean, half: curve.half[i] })}`),
      });
      const expected = await expectedOf(view.name, group);
      if (expected) {
        traces.push({
          type: "scatter", mode: "lines", showlegend: false, x: expected.rounds, y: expected.mean,
          line: { color: colour, dash: "dash", width: 2 }, hoverinfo: "text", hovertext: expected.mean.map((mean) => `theory, ${told}: ${number("number", mean)}`),
        });
      }
    }
    ratios.tell(`${measure.title}, at each server round. Dashed lines are the expectation of the theory.`);
    return Skerry.plots.plot(ratios.plot, traces, { xaxis: { title: { text: "rounds" } }, yaxis: { title: { text: view.name.replace("_", " ") }, rangemode: "tozero" } });
  }

  async function list(chosen) {
    const measured = await Promise.all(data.ratios.map(Skerry.data.meanRatio));
    const average = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
    const rows = await Promise.all(chosen.map(async ({ group }) => {
      const cells = await Promise.all(data.ratios.map(async (ratio, k) => {
        const found = grid.over(measured[k], group), expected = await expectedOf(ratio, group);
        return [found.count ? plusMinus("share", found) : "-", expected ? number("share", average(expected.mean)) : "-"];
      }));
      return [grid.labelled(group), ...cells.flat()];
    }));
    const header = ["", "disagreement ratio", "theory", "bias ratio", "theory"];
    numbers.replaceChildren(table("Means over all server rounds and seeds ± half of the 95 % interval over seeds.", header, rows, "lrrrr"));
  }

  async function update() {
    const chosen = grid.chosen();
    const served = chosen.filter(({ group }) => grid.serverRounds(group).length);
    await drawParts(chosen);
    if (known.length) await Promise.all([drawRatio(served), list(served)]);
  }

  return { update };
};
