/** The chosen measure at the end, over the stepsize, in the chosen cell. */
Skerry.widgets.stepsizes = (root, data, page) => {
  const { figure } = Skerry.dom;
  const { plusMinus } = Skerry.numbers;
  const { model, grid } = page;
  const picture = figure("");
  root.append(picture.element);

  return {
    async update() {
      const measure = model.measures[grid.state.measure], axis = model.axes[model.tuned];
      const finals = await Skerry.data.finals(grid.state.measure);
      const traces = model.labels.map((label, i) => {
        const there = axis.values
          .map((x, value) => ({ x, group: grid.at(grid.state.place.with(model.tuned, value), i) }))
          .filter(({ group }) => group !== undefined)
          .map(({ x, group }) => ({ x, found: grid.over(finals, group) }))
          .filter(({ found }) => found.count);
        const name = Skerry.plots.brief(label.name);
        return {
          type: "scatter", mode: "lines+markers", name, line: { color: label.light, width: 2 }, marker: { color: label.light, size: 8, symbol: label.symbol },
          x: there.map(({ x }) => x), y: there.map(({ found }) => found.mean), hoverinfo: "text",
          error_y: Skerry.plots.bars(there.map(({ found }) => found), measure, { color: label.light, thickness: 1.2, width: 4 }),
          hovertext: there.map(({ x, found }) => `${name}, stepsize ${x}: ${plusMinus(measure.style, found)}`),
        };
      });
      picture.tell(`${measure.title} at the end of the run against the stepsize, in the selected cell: mean with 95 % interval.`);
      return Skerry.plots.plot(picture.plot, traces, {
        xaxis: { type: "log", title: { text: "stepsize" }, tickvals: axis.values, ticktext: axis.words },
        yaxis: { title: { text: measure.title }, type: measure.log ? "log" : "linear" },
      });
    },
  };
};
