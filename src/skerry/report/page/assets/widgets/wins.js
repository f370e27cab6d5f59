/** Wins, ties and losses of each primitive by the value of a field. */
Skerry.widgets.wins = (root, data, page) => {
  const { make, select, controls, table } = Skerry.dom;
  const { model, grid } = page;
  const view = { axis: 0 };
  const shown = make("div");
  root.append(controls(
    select("By the value of", model.axes.map((axis, i) => [i, axis.short]), 0, (value) => { view.axis = Number(value); update(); }),
  ), shown);

  function tally(finals, value, label) {
    const counts = [0, 0, 0, 0];
    model.groups.label.forEach((one, group) => {
      const cell = model.cells[model.groups.cell[group]];
      const verdict = finals.verdict[group];
      if (one === label && cell[view.axis] === value && verdict < 4) counts[verdict]++;
    });
    return counts;
  }

  async function update() {
    const measure = model.measures[grid.state.measure];
    if (!measure.ranked) {
      shown.replaceChildren(make("p", { class: "note" }, `No finished run has ${measure.title}.`));
      return;
    }
    const finals = await Skerry.data.finals(grid.state.measure), axis = model.axes[view.axis];
    const others = model.labels.map((_, i) => i).filter((i) => i !== measure.against);
    const rows = axis.words.flatMap((words, value) => others
      .map((label) => [words, model.labels[label].name, ...tally(finals, value, label).map(String)])
      .filter((row) => row.slice(2).some((count) => count !== "0")));
    const title = `${measure.title}: cells against ${model.labels[measure.against].name}`;
    shown.replaceChildren(table(title, [axis.short, "primitive", "win", "tie", "loss", "untested"], rows, "llrrrr"));
  }

  return { update };
};
