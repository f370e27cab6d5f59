/** Training samples by device and class (or other kind of target). */
Skerry.widgets.labels = (root, data, page) => {
  const { make, figure } = Skerry.dom;
  const { model, grid } = page;
  const picture = figure("", "square"), told = make("p", { class: "status", role: "status" });
  root.append(told, picture.element);

  function borders(split) {
    const colour = Skerry.plots.css("--ink");
    return split.island.flatMap((island, i) => i && island !== split.island[i - 1]
      ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: i - 0.5, y1: i - 0.5, line: { color: colour, width: 1.5 } }] : []);
  }

  /** Names beside the rows and columns, where there is room for all; numbers have ticks of their own. */
  function ticks(names, most) {
    if (names.length > most) return {};
    return { tickvals: names.map((_, i) => i), ticktext: names.map((name) => Skerry.plots.brief(name, 16)) };
  }

  function draw(split) {
    const heat = () => ({
      type: "heatmap", z: split.counts, colorscale: [[0, Skerry.plots.css("--panel")], [1, Skerry.plots.css("--accent")]], xgap: split.counts[0].length < 30 ? 1 : 0, hoverinfo: "text",
      hovertext: split.counts.map((row, i) => row.map((count, label) => Skerry.plots.escape(
        `${split.by} ${split.rows[i]}${split.by === "device" ? `, island ${split.islands[i]}` : ""}`) +
        `<br>${Skerry.plots.escape(`${split.kind} ${split.classes[label]}`)}: ${count} of ${row.reduce((a, b) => a + b, 0)} samples`)),
      colorbar: { thickness: 12, outlinewidth: 0, title: { text: "samples", side: "right" } },
    });
    picture.tell(`${split.name}. Lines separate the islands.`);
    return Skerry.plots.plot(picture.plot, () => [heat()], () => ({
      xaxis: { title: { text: split.kind }, ...ticks(split.classes, 20), showgrid: false },
      yaxis: { title: { text: split.by }, ...ticks(split.rows, 40), autorange: "reversed", showgrid: false }, shapes: borders(split),
    }));
  }

  return {
    async update() {
      const [first] = grid.chosen();
      const split = data.splits[data.ofCell[model.groups.cell[first?.group]]];
      picture.element.hidden = !split;
      told.hidden = Boolean(split);
      told.textContent = "The split of this cell is not shown.";
      if (split) await draw(split);
    },
  };
};
