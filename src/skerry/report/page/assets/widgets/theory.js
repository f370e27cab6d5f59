/** The theory explorer, which lives in assets/explorer. */
Skerry.widgets.theory = (root, data, page) => {
  const colours = Object.fromEntries(Object.entries(page.model.primitives).map(([name, shades]) => [name, shades.light]));
  const { start, advised } = data;
  if (advised) follow(start, advised);
  SkerryExplorer.mount(root, start, { plot: Skerry.plots.plot, colours, meaningOf: Skerry.dom.meaningOf });
  return {};

  /** Start at the recommended setting, as far as the theory knows it, and count at the prices of the advice. */
  function follow({ values, sources }, { question: { prices, cost_unit: unit }, recommendation }) {
    for (const name of ["sampled", "period", "beta", "selection"]) {
      const value = recommendation[name] ?? null;
      if (value === null || (name === "selection" && !["uniform", "per_component", "one_each"].includes(value))) continue;
      values[name] = value;
      sources[name] = "advice";
    }
    const paid = { uplink: 1, downlink: 1, broadcast: null, ...prices };
    if (paid.uplink !== 1 || paid.downlink !== 1 || paid.broadcast !== null) {
      Object.assign(values, { prices: paid, unit: unit === "uploads" ? unit : "message prices" });
    }
    start.prefix = "The advice follows from runs. By these bounds, for the average model: ";
    start.mode = values.selection === "uniform" ? "order" : "certified";
  }
};
