/** The selected measure against the messages or bytes sent so far. */
Skerry.widgets.cost = (root, data, page) => {
  const { select, controls, figure } = Skerry.dom;
  const { number } = Skerry.numbers;
  const { model, grid } = page;
  const WAYS = [
    ["server", "to and from the server", ["uplink", "downlink"]],
    ["up", "to the server", ["uplink"]],
    ["down", "from the server", ["downlink"]],
    ["d2d", "between devices (D2D)", ["d2d"]],
    ["all", "in total", ["uplink", "downlink", "d2d"]],
  ];
  const units = ["messages", "bytes"].filter((unit) => grid.measureNamed(`uplink_${unit}`) >= 0);
  const view = { way: "server", unit: units[0] };
  const picture = figure("");
  const set = (name) => (value) => { view[name] = value; update(); };
  root.append(controls(
    select("Count messages", WAYS.map(([name, words]) => [name, words]), view.way, set("way")),
    select("in", units.map((unit) => [unit, unit]), view.unit, set("unit")),
  ), picture.element);

  /** By round, the sum of several running totals. */
  async function spent(group) {
    const [, , links] = WAYS.find(([name]) => name === view.way);
    const totals = new Map();
    for (const link of links) {
      const measure = grid.measureNamed(`${link}_${view.unit}`);
      const curve = measure < 0 ? undefined : await grid.curve(measure, group);
      curve?.rounds.forEach((round, i) => totals.set(round, (totals.get(round) ?? 0) + curve.mean[i]));
    }
    return totals;
  }

  async function trace({ label, group }, measure) {
    const curve = await grid.curve(grid.state.measure, group), totals = await spent(group);
    if (!curve) return null;
    const both = curve.rounds.map((round, i) => ({ round, x: totals.get(round), y: curve.mean[i] })).filter(({ x }) => x !== undefined);
    const name = Skerry.plots.brief(grid.labelled(group)), colour = model.labels[label].light;
    const before = curve.hole && both.filter(({ round }) => round <= curve.rounds[curve.hole - 1]).length;
    const holed = (read) => Skerry.plots.holed({ hole: before }, both.map(read));
    return {
      type: "scatter", mode: "lines+markers", name, x: holed(({ x }) => x), y: holed(({ y }) => y),
      line: { color: colour, width: 2 }, marker: { color: colour, size: 7, symbol: model.labels[label].symbol, maxdisplayed: 15 }, hoverinfo: "text",
      hovertext: holed(({ round, x, y }) => `${name}, round ${round}: ${number(measure.style, y)}<br>${number("count", x)} ${view.unit}`),
    };
  }

  async function update() {
    const measure = model.measures[grid.state.measure];
    const chosen = grid.chosen();
    const traces = (await Promise.all(chosen.map((one) => trace(one, measure)))).filter(Boolean);
    const words = WAYS.find(([name]) => name === view.way)[1];
    picture.tell(`${measure.title} against ${view.unit} ${words}.`);
    return Skerry.plots.plot(picture.plot, traces, {
      xaxis: { title: { text: `${view.unit} ${words}` }, rangemode: "tozero", exponentformat: "SI" },
      yaxis: { title: { text: measure.title }, type: measure.log ? "log" : "linear" },
    });
  }

  return { update };
};
