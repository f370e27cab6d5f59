/** Who won in the chosen cell: a table over measures, the chosen measure seed by seed, all cells. */
Skerry.widgets.winners = (root, data, page) => {
  const { make, glossed, table, figure } = Skerry.dom;
  const { number, signed, plusMinus, pValue, estimate } = Skerry.numbers;
  const { model, grid } = page;
  const summary = make("div"), differences = make("ul"), every = make("details");
  const picture = figure("", "short");
  root.append(summary, picture.element, differences, every);
  every.addEventListener("toggle", () => { if (every.open) listCells(); });

  function swatch(label) {
    const dot = make("span", { class: "swatch", "aria-hidden": "true" });
    for (const shade of ["light", "dark"]) dot.style.setProperty(`--${shade}`, model.labels[label][shade]);
    return dot;
  }

  function named(group) {
    return make("span", { class: "name" }, swatch(model.groups.label[group]), ...glossed(grid.named(group)));
  }

  async function summarise(chosen) {
    const columns = await Promise.all(data.measures.map(async (measure) => {
      const finals = await Skerry.data.finals(measure);
      return { ...model.measures[measure], found: chosen.map(({ group }) => grid.over(finals, group)) };
    }));
    for (const column of columns) {
      const means = column.found.map((one) => one.mean).filter(Number.isFinite);
      const [low, high] = [Math.min(...means), Math.max(...means)];
      column.best = low === high ? NaN : column.lowerIsBetter ? low : high;
    }
    const rows = chosen.map(({ group }, i) => [
      named(group),
      ...columns.map(({ found, style, best }) => {
        const one = found[i], words = one.count ? plusMinus(style, one) : "-";
        return make("span", { class: one.mean === best ? "best" : null }, words);
      }),
    ]);
    const where = model.axes.length ? `In the cell ${grid.cellWords()}: mean` : "Mean";
    summary.replaceChildren(table(`${where} over seeds ± half of the 95 % interval, at the end of the run. The best is bold.`,
      ["", ...columns.map((column) => column.title)], rows, `l${"r".repeat(columns.length)}`));
  }

  async function draw(chosen) {
    const measure = model.measures[grid.state.measure];
    const finals = await Skerry.data.finals(grid.state.measure);
    const traces = chosen.flatMap(({ label, group }) => {
      const colour = model.labels[label].light, values = grid.row(finals, group);
      const one = estimate(values, model.quantiles), y = Skerry.plots.brief(grid.named(group));
      const told = `${Skerry.plots.escape(grid.named(group))}<br>${plusMinus(measure.style, one)} over ${one.count} seeds`;
      return [
        {
          type: "scatter", mode: "markers", showlegend: false, hoverinfo: "text",
          x: values, y: values.map(() => y), marker: { color: Skerry.plots.faded(colour, "80"), size: 18, symbol: "line-ns-open", line: { width: 1.5 } },
          hovertext: values.map((value, i) => `seed ${model.seeds[i]}: ${number(measure.style, value)}`),
        },
        {
          type: "scatter", mode: "markers", showlegend: false, hoverinfo: "text", hovertext: [told],
          x: [one.mean], y: [y], marker: { color: colour, size: 13, symbol: model.labels[label].symbol },
          error_x: Skerry.plots.bars([one], measure, { color: colour, thickness: 2, width: 7 }),
        },
      ];
    });
    picture.tell(`${measure.title}, at the end of the run: mean with 95 % interval. Small strokes are single seeds.`);
    const ys = { type: "category", autorange: "reversed" };
    return Skerry.plots.plot(picture.plot, traces, { xaxis: {}, yaxis: ys, margin: { l: 90, r: 16, t: 8, b: 32 } });
  }

  async function tell(chosen) {
    const measure = model.measures[grid.state.measure];
    const finals = await Skerry.data.finals(grid.state.measure);
    const reference = chosen.find(({ label }) => label === measure.against);
    const others = reference ? chosen.filter((one) => one !== reference) : [];
    differences.replaceChildren(...others.map(({ group }) => {
      const theirs = grid.row(finals, reference.group);
      const apart = grid.row(finals, group).map((value, seed) => value - theirs[seed]);
      const found = estimate(apart, model.quantiles);
      return make("li", { dir: "auto" }, `${grid.named(group)} minus ${grid.named(reference.group)}, seed by seed: ` +
        `${plusMinus(measure.style, found, signed)} (${verdict(finals, group)}).`);
    }));
  }

  function verdict(finals, group) {
    const { best } = grid.state, place = best ? finals.bestVerdict[group] : finals.verdict[group];
    const p = best ? finals.bestP[group] : finals.p[group], said = ["win", "tie", "loss"][place];
    const tested = said && Number.isFinite(p) ? `p ${pValue(p)} after Holm's correction: ${said}` : said ?? "not tested";
    return best ? `${tested}; each at its own best stepsize` : tested;
  }

  async function listCells() {
    const MOST = 300;
    const finals = await Skerry.data.finals(grid.state.measure);
    const { style, title } = model.measures[grid.state.measure];
    const byLabel = (cell) => model.labels.map((_, label) => {
      const group = grid.at(cell, label);
      return group === undefined ? "-" : plusMinus(style, grid.over(finals, group));
    });
    const rows = model.cells.slice(0, MOST).map((cell) => [...cell.map((value, i) => model.axes[i].words[value]), ...byLabel(cell)]);
    const more = model.cells.length > MOST ? ` (the first ${MOST} of ${model.cells.length.toLocaleString("en-US")} cells)` : "";
    const header = [...model.axes.map((axis) => axis.short), ...model.labels.map((label) => label.name)];
    const sides = "l".repeat(model.axes.length) + "r".repeat(model.labels.length);
    every.replaceChildren(make("summary", {}, "All cells"), table(`${title}, at the end${more}`, header, rows, sides));
  }

  return {
    async update() {
      const chosen = grid.chosen();
      every.hidden = !model.axes.length;
      if (!every.hasChildNodes()) every.append(make("summary", {}, "All cells"));
      if (every.open) await listCells();
      picture.element.hidden = !chosen.length;
      differences.replaceChildren();
      if (!chosen.length) {
        summary.replaceChildren(make("p", { class: "note" }, `No run is recorded for ${grid.cellWords()}.`));
        return;
      }
      await Promise.all([summarise(chosen), draw(chosen), tell(chosen)]);
    },
  };
};
