/** The theory explorer, which lives in assets/explorer. */
Skerry.widgets.theory = (root, data, page) => {
  const colours = Object.fromEntries(Object.entries(page.model.primitives).map(([name, shades]) => [name, shades.light]));
  SkerryExplorer.mount(root, data.start, { plot: Skerry.plots.plot, colours });
  return {};
};
