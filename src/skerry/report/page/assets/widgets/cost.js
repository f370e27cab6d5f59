/** The selected measure against the messages or bytes sent so far, or their cost at the prices of the advice. */
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
  const ALL = ["uplink", "downlink", "d2d"];
  if (data.prices) WAYS.unshift(["priced", "at the prices of the advice", ALL]);
  const units = ["messages", "bytes"].filter((unit) => grid.measureNamed(`uplink_${unit}`) >= 0);
  const view = { way: WAYS[0][0], unit: units[0] };
  const picture = figure("");
  const set = (name) => (value) => { view[name] = value; update(); };
  const inUnit = select("in", units.map((unit) => [unit, unit]), view.unit, set("unit"));
  root.append(controls(select("Count messages", WAYS.map(([name, words]) => [name, words]), view.way, set("way")), inUnit), picture.element);

  /** By round, the total of a link so far. */
  async function total(link, unit, group) {
    const measure = grid.measureNamed(`${link}_${unit}`);
    const curve = measure < 0 ? undefined : await grid.curve(measure, group);
    return new Map(curve?.rounds.map((round, i) => [round, curve.mean[i]]) ?? []);
  }

  /** By round, the sum of several running totals. */
  async function spent(group) {
    const [, , links] = WAYS.find(([name]) => name === view.way), priced = view.way === "priced";
    const inMB = priced && data.cost_unit === "MB", unit = inMB ? "bytes" : priced ? "messages" : view.unit;
    const server = grid.serverRounds(group), sums = new Map();
    const sent = await total("downlink", "messages", group);
    for (const link of links) {
      for (const [round, count] of await total(link, unit, group)) {
        let cost = count * (priced ? data.prices[link] ?? 0 : 1);
        if (priced && link === "downlink" && data.prices.broadcast !== null && data.prices.broadcast !== undefined) {
          const each = count / (sent.get(round) || 1), rounds = server.filter((one) => one <= round).length;
          cost = Math.min(cost, data.prices.broadcast * rounds * each);  // one broadcast for all devices
        }
        sums.set(round, (sums.get(round) ?? 0) + cost * (inMB ? 1e-6 : 1));
      }
    }
    return sums;
  }

  const unitWords = () => (view.way === "priced" ? data.cost_unit : view.unit);

  async function trace({ look, group }, measure) {
    const curve = await grid.curve(grid.state.measure, group), totals = await spent(group);
    if (!curve) return null;
    const both = curve.rounds.map((round, i) => ({ round, x: totals.get(round), y: curve.mean[i] })).filter(({ x }) => x !== undefined);
    const name = Skerry.plots.brief(grid.labelled(group)), colour = look.light;
    const before = curve.hole && both.filter(({ round }) => round <= curve.rounds[curve.hole - 1]).length;
    const holed = (read) => Skerry.plots.holed({ hole: before }, both.map(read));
    return {
      curve, type: "scatter", mode: "lines+markers", name, x: holed(({ x }) => x), y: holed(({ y }) => y),
      line: { color: colour, width: 2 }, marker: { color: colour, size: 7, symbol: look.symbol, maxdisplayed: 15 }, hoverinfo: "text",
      hovertext: holed(({ round, x, y }) => `${name}, round ${round}: ${number(measure.style, y)}<br>${number(data.cost_unit === "MB" ? "number" : "count", x)} ${unitWords()}`),
    };
  }

  async function update() {
    const measure = model.measures[grid.state.measure];
    const chosen = grid.chosen();
    const traces = (await Promise.all(chosen.map((one) => trace(one, measure)))).filter(Boolean);
    inUnit.hidden = view.way === "priced";
    const words = view.way === "priced" ? `cost (${data.cost_unit})` : `${view.unit} ${WAYS.find(([name]) => name === view.way)[1]}`;
    const curves = traces.map(({ curve }) => curve), start = grid.startWords(curves);
    traces.forEach((one) => { delete one.curve; });
    const y = { title: { text: measure.title }, type: measure.log ? "log" : "linear" };
    if (measure.style === "percent" && curves.length) y.range = Skerry.plots.heights(curves);
    picture.tell(`${measure.title} against ${words}.${start ? ` The runs were ${start}, so the lines begin there.` : ""}`);
    return Skerry.plots.plot(picture.plot, traces, {
      xaxis: { title: { text: words }, rangemode: "tozero", exponentformat: "SI" },
      yaxis: y,
    });
  }

  return { update };
};
