/** The scores of single devices at the end, by island or against their number of samples. */
Skerry.widgets.devices = (root, data, page) => {
  const { make, select, controls, figure } = Skerry.dom;
  const { number } = Skerry.numbers;
  const { model, grid } = page;
  const VIEWS = [["island", "by island"], ["samples", "against their number of samples"]];
  const ON = [["0", "on their own data"], ["1", "on the global test set"]];
  const view = { across: "island", on: "0" };
  const picture = figure(""), told = make("p", { class: "status", role: "status" });
  const set = (name) => (value) => { view[name] = value; update(); };
  root.append(controls(
    select("Devices", VIEWS, view.across, set("across")), select("scored", ON, view.on, set("on")),
  ), told, picture.element);

  const style = model.measures[grid.measureNamed(data.own)]?.style ?? "plain";

  function trace({ label, group, look }) {
    const cell = data.cells[model.groups.cell[group]];
    if (!cell) return null;
    const scores = cell.scores[grid.labelled(group)] ?? cell.scores[model.labels[label].name];
    if (!scores) return null;
    const name = Skerry.plots.brief(grid.labelled(group)), colour = look.light;
    const y = scores[Number(view.on)];
    const hovertext = cell.device.map((device, i) =>
      `${Skerry.plots.escape(device)}, island ${Skerry.plots.escape(cell.island[i])}<br>${name}: ${number(style, y[i])}`
      + `<br>${cell.samples[i].toLocaleString("en")} samples, ${cell.tests[i] ? `${cell.tests[i]} own test samples` : "own score estimated from its mix of data"}`);
    const common = { name, y, hovertext, hoverinfo: "text", marker: { color: colour, symbol: look.symbol, size: 7, opacity: 0.75 } };
    if (view.across === "samples") return { ...common, type: "scatter", mode: "markers", x: cell.samples };
    return {
      ...common, type: "box", x: cell.island.map(Skerry.plots.escape), boxpoints: "all", jitter: 0.5, pointpos: 0,
      line: { color: colour, width: 1.5 }, fillcolor: Skerry.plots.faded(colour, "1a"), hoveron: "points",
    };
  }

  async function update() {
    const chosen = grid.chosen();
    const cell = data.cells[model.groups.cell[chosen[0]?.group]];
    picture.element.hidden = !cell;
    told.hidden = Boolean(cell);
    told.textContent = "The devices of this cell are not shown.";
    if (!cell) return;
    const traces = chosen.map(trace).filter(Boolean);
    const spans = Math.max(...cell.samples) > 20 * Math.min(...cell.samples);
    const on = ON.find(([name]) => name === view.on)[1];
    picture.tell(`Scores of ${cell.device.length.toLocaleString("en")} devices ${on}, ${VIEWS.find(([name]) => name === view.across)[1]}.`);
    await Skerry.plots.plot(picture.plot, traces, {
      boxmode: "group",
      xaxis: view.across === "samples"
        ? { title: { text: "training samples" }, type: spans ? "log" : "linear" }
        : { title: { text: "island" }, type: "category" },
      yaxis: { title: { text: data.own.endsWith("accuracy") ? "accuracy (%)" : "loss" } },
    });
  }

  return { update };
};
