/** Time and energy in the chosen cell: a table, and who computes, talks and waits, a panel for each primitive. */
Skerry.widgets.time = (root, data, page) => {
  const { make, select, controls, table, figure } = Skerry.dom;
  const { number, plusMinus } = Skerry.numbers;
  const { model, grid } = page;
  const DOES = { c: "computing", t: "talking", w: "waiting" };
  const ROW = 17, GAP = 46;  // pixels of a device, and between panels
  const view = { clock: 0 };
  const summary = make("div"), told = make("p", { class: "status", role: "status" }), picture = figure("");
  const clocks = data.clocks.map(({ name }, i) => [i, name]);
  const choice = select("Clock", clocks, 0, (value) => { view.clock = Number(value); update(); });
  root.append(...(clocks.length > 1 ? [controls(choice)] : []), summary, told, picture.element);

  async function summarise(chosen) {
    const measures = data.clocks[view.clock].measures;
    const columns = await Promise.all(measures.map((measure) => Skerry.data.finals(measure)));
    const rows = chosen.map(({ group }) => [grid.named(group), ...columns.map((finals, i) => {
      const one = grid.over(finals, group);
      return one.count ? plusMinus(model.measures[measures[i]].style, one) : "-";
    })]);
    const where = model.axes.length ? `In the cell ${grid.cellWords()}: mean` : "Mean";
    summary.replaceChildren(table(`${where} over seeds ± half of the 95 % interval, at the end of the run.`,
      ["", ...measures.map((measure) => model.measures[measure].title)], rows, `l${"r".repeat(columns.length)}`));
  }

  /** The drawn panels of the chosen groups: [{name, drawing, lane}]. */
  function panelsOf(chosen) {
    return chosen.map(({ group, label }) => {
      const drawing = data.clocks[view.clock].drawn.find(({ cells }) => cells.includes(model.groups.cell[group]));
      return { name: grid.labelled(group), drawing, lane: drawing?.lanes[label] };
    }).filter(({ lane }) => lane?.rows.some(({ ends }) => ends.length));
  }

  function shade(colour) {
    return Skerry.plots.isDark() ? colour.dark : colour.light;
  }

  /** The bars of one activity in one panel. */
  function bars({ drawing, lane }, kind, i) {
    const found = { base: [], x: [], y: [], hovertext: [] };
    lane.rows.forEach(({ start, ends, rounds, does }, row) => ends.forEach((end, at) => {
      if (does[at] !== kind) return;
      const from = at ? ends[at - 1] : start;
      found.base.push(from);
      found.x.push(end - from);
      found.y.push(row);
      found.hovertext.push(`${Skerry.plots.escape(`device ${drawing.devices[row]}, island ${drawing.islands[row]}`)}<br>` +
        `round ${rounds[at]}: ${DOES[kind]} ${number("number", end - from, 3)} s, from ${number("number", from)} s`);
    }));
    return {
      type: "bar", orientation: "h", name: DOES[kind], legendgroup: kind, showlegend: i === 0, hoverinfo: "text", width: 0.8,
      marker: { color: shade(data.colours[DOES[kind]]), line: { width: 0 } }, yaxis: axisName(i), ...found,
    };
  }

  function sampled({ lane }, i) {
    const sent = lane.server.flatMap(({ round, sent }) => sent.map(([row, at]) => ({ round, row, at })));
    return {
      type: "scatter", mode: "markers", name: "sampled", legendgroup: "sampled", showlegend: i === 0, hoverinfo: "text", yaxis: axisName(i),
      x: sent.map(({ at }) => at), y: sent.map(({ row }) => row), hovertext: sent.map(({ round }) => `sends to the server in round ${round}`),
      marker: { symbol: "triangle-right", size: 10, color: Skerry.plots.css("--ink"), line: { color: Skerry.plots.css("--paper"), width: 1 } },
    };
  }

  const axisName = (i) => `y${i ? i + 1 : ""}`;

  /** Where panels lie, from the top: one axis each, over the same time. */
  function layout(panels, height) {
    const rows = panels.map(({ drawing }) => drawing.devices.length + 0.4);
    const found = { shapes: [], annotations: [], barmode: "overlay", margin: { l: 64, r: 16, t: 40, b: 48 } };
    const inner = height - 88;
    let top = inner;
    panels.forEach(({ name, drawing, lane }, i) => {
      top -= GAP / 2;
      const bottom = top - rows[i] * ROW, domain = [Math.max(0, bottom / inner), Math.min(1, top / inner)];
      const names = drawing.devices.map((device) => Skerry.plots.brief(device, 12));
      found[`yaxis${i ? i + 1 : ""}`] = {
        domain, range: [rows[i] - 0.7, -0.7], tickvals: names.map((_, row) => row), ticktext: names, showgrid: false, zeroline: false, fixedrange: true,
      };
      found.annotations.push({ text: `<b>${Skerry.plots.brief(name)}</b>`, xref: "paper", x: 0, xanchor: "left", yref: "paper", y: domain[1], yanchor: "bottom", showarrow: false });
      for (const { start, end } of lane.server) {
        found.shapes.push({ type: "rect", x0: start, x1: end, yref: `${axisName(i)} domain`, y0: 0, y1: 1, layer: "below", line: { width: 0 }, fillcolor: Skerry.plots.css("--accent"), opacity: 0.13 });
      }
      drawing.island.forEach((island, row) => {
        if (row && island !== drawing.island[row - 1]) found.shapes.push({ type: "line", xref: "paper", x0: -0.03, x1: 1, yref: axisName(i), y0: row - 0.5, y1: row - 0.5, line: { color: Skerry.plots.css("--soft"), width: 1 } });
      });
      top = bottom - GAP / 2;
    });
    const spans = panels.flatMap(({ drawing }) => drawing.span), [first, last] = [Math.min(...spans), Math.max(...spans)];
    found.xaxis = { title: { text: "time (s)" }, range: [first - 0.005 * (last - first), last + 0.005 * (last - first)], anchor: axisName(panels.length - 1) };
    return found;
  }

  async function update() {
    const chosen = grid.chosen();
    await summarise(chosen);
    const panels = panelsOf(chosen);
    picture.element.hidden = !panels.length;
    told.textContent = panels.length ? "" : "There is no timeline of these runs.";
    if (!panels.length) return;
    const rounds = panels.flatMap(({ lane }) => lane.rows.flatMap((row) => row.rounds));
    picture.tell(`Who computes, talks and waits in rounds ${Math.min(...rounds)} to ${Math.max(...rounds)}. Bands are server rounds; a bar ends with its device's last round. A line separates islands.`);
    const height = 88 + panels.reduce((sum, { drawing }) => sum + GAP + (drawing.devices.length + 0.4) * ROW, 0);
    picture.plot.style.height = `${height}px`;
    return Skerry.plots.plot(picture.plot,
      () => panels.flatMap((panel, i) => [...Object.keys(DOES).map((kind) => bars(panel, kind, i)), sampled(panel, i)]),
      () => layout(panels, height));
  }

  return { update };
};
