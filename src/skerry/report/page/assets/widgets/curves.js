/** Learning curves: primitives side by side in the chosen cell, or one primitive along an axis; over the rounds or over a cost. */
Skerry.widgets.curves = (root, data, page) => {
  const { tick, select, controls, figure } = Skerry.dom;
  const { model, grid } = page;
  const MOST_MARKS = 200;
  const view = { marks: true, bands: data.bands ?? true, along: "primitives", label: 0, log: "auto", over: "rounds", way: "server" };
  const over = Skerry.over(page, data);
  if (data.over) view.over = over.axes.find(([name]) => name === data.over)?.[0] ?? over.axes.at(-1)[0];
  const picture = figure("");
  const set = (name, read = (value) => value) => (value) => { view[name] = read(value); draw(); };
  const axes = model.axes.map((axis, i) => [i, `values of ${axis.short}`]);
  const ofPrimitive = select("of primitive", model.labels.map((label, i) => [i, label.name]), 0, set("label", Number));
  ofPrimitive.hidden = true;
  const ofWay = select("Count messages", over.ways, view.way, set("way"));
  const marking = tick("Mark server rounds", view.marks, set("marks"));
  root.append(controls(
    ...(over.axes.length > 1 ? [select("Horizontal axis", over.axes, view.over, set("over")), ofWay] : []),
    ...(axes.length ? [
      select("Lines are", [["primitives", model.points.length ? "the points or primitives shown" : "primitives"], ...axes], "primitives", set("along")),
      ofPrimitive,
    ] : []),
    select("Vertical scale", [["auto", "automatic"], ["linear", "linear"], ["log", "logarithmic"]], "auto", set("log")),
    marking,
    tick("Show intervals", view.bands, set("bands")),
  ), picture.element);

  /** [{name, group}], each with the colour of its primitive, or how far along the axis it is. */
  function chosenLines() {
    if (view.along === "primitives") {
      return grid.chosen().map(({ group, look }) => ({ name: grid.named(group), colour: look.light, symbol: look.symbol, group }));
    }
    const axis = Number(view.along), { words, short } = model.axes[axis];
    return words.map((word, value) => {
      const place = grid.state.place.with(axis, value);
      const group = axis === model.tuned ? grid.at(place, view.label) : grid.find(place, view.label);
      return { name: `${short} ${word}`, along: value / Math.max(1, words.length - 1), group };
    }).filter(({ group }) => group !== undefined);
  }

  function band({ curve, colour }, measure, floor) {
    const { reach } = Skerry.numbers;
    const edges = curve.mean.map((mean, i) => {
      const { below, above } = reach({ mean, half: curve.half[i] }, measure);
      return { low: Math.max(floor, mean - below), high: mean + above };
    });
    const common = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    const pieces = curve.hole ? [[0, curve.hole], [curve.hole, edges.length]] : [[0, edges.length]];
    return pieces.flatMap((piece) => {
      const x = curve.at.slice(...piece), inside = edges.slice(...piece);
      return [{ ...common, x, y: inside.map(({ low }) => low) }, { ...common, x, y: inside.map(({ high }) => high), fill: "tonexty", fillcolor: Skerry.plots.faded(colour) }];
    });
  }

  /** Bands first: no line lies below the band of another. */
  function traces(lines, measure, floor) {
    const drawn = lines.map((line) => ({ ...line, colour: line.colour ?? Skerry.plots.ordered(line.along) }));
    const bands = drawn.filter(({ curve }) => view.bands && curve.half.some((half) => half > 0));
    return [
      ...bands.flatMap((one) => band(one, measure, floor)),
      ...drawn.map((one) => line(one, measure.style)),
    ];
  }

  function line({ name, colour, symbol, curve }, style) {
    const { number, plusMinus } = Skerry.numbers, { holed } = Skerry.plots;
    const where = (i) => (isOverRounds() ? "" : `<br>round ${curve.rounds[i]}, ${Skerry.plots.escape(over.told(view, curve.at[i]))}`);
    const told = curve.mean.map((mean, i) => `${Skerry.plots.brief(name)}: ${
      plusMinus(style, { mean, half: curve.half[i] }, number)}${where(i)}`);
    return {
      type: "scatter", mode: "lines+markers", name: Skerry.plots.brief(name),
      x: holed(curve, curve.at), y: holed(curve, curve.mean), line: { color: colour, width: 2 }, marker: { color: colour, symbol, size: 7, maxdisplayed: 15 },
      hovertext: holed(curve, told), hoverinfo: "text",
    };
  }

  const isOverRounds = () => view.over === "rounds";

  function serverRounds(found) {
    return [...new Set(found.flatMap(({ group }) => grid.serverRounds(group)))];
  }

  function marks(found) {
    const rounds = serverRounds(found);
    if (!view.marks || !isOverRounds() || rounds.length > MOST_MARKS) return [];
    const line = { color: Skerry.plots.css("--soft"), width: 1, dash: "dot" };
    return rounds.map((round) => ({
      type: "line", x0: round, x1: round, y0: 0, y1: 1, yref: "paper", layer: "below", opacity: 0.6, line,
    }));
  }

  async function draw() {
    ofPrimitive.hidden = view.along === "primitives";
    ofWay.hidden = !over.isCounted(view.over);
    marking.hidden = !isOverRounds();
    const measure = model.measures[grid.state.measure];
    const found = chosenLines();
    for (const line of found) line.curve = await over.placed(await grid.curve(grid.state.measure, line.group), line.group, view);
    const there = found.filter(({ curve }) => curve?.at.length);
    const log = view.log === "log" || (view.log === "auto" && measure.log);
    // The zeros of S2A are rounding errors and must not stretch the axis.
    const top = there.reduce((most, { curve }) => curve.mean.reduce((a, b) => Math.max(a, b), most), 0);
    const floor = log ? 1e-5 * (top || 1) : -Infinity;
    const shown = log ? there.map((line) => ({ ...line, curve: above(line.curve, floor) })) : there;
    const where = model.axes.length ? ` (${grid.cellWords()})` : "";
    const unmarked = view.marks && isOverRounds() && serverRounds(there).length > MOST_MARKS ? " There are too many server rounds to mark." : "";
    const start = grid.startWords(there.map(({ curve }) => curve));
    const empty = start ? ` These runs were ${start}.` : "";
    const words = over.words(view);
    picture.tell(there.length ? `${measure.title} ${isOverRounds() ? "over the rounds" : `against ${words}`}${where}.${empty}${unmarked}` : `${measure.title} was not recorded here${where}.`);
    const y = { title: { text: measure.title }, type: log ? "log" : "linear" };
    if (measure.style === "percent" && !log) y.range = Skerry.plots.heights(there.map(({ curve }) => curve));
    const last = Math.max(...there.map(({ curve }) => curve.at.at(-1)), 0) || 1;
    const lines = () => traces(shown, measure, floor);
    return Skerry.plots.plot(picture.plot, lines, () => ({
      xaxis: { title: { text: words }, range: [-0.01 * last, 1.01 * last], exponentformat: isOverRounds() ? "power" : "SI" },
      yaxis: y, hovermode: isOverRounds() ? "x unified" : "closest", showlegend: true, shapes: marks(there),
      annotations: start ? [{ text: start, showarrow: false, xref: "paper", yref: "paper", x: 0.02, xanchor: "left", y: 0.5, font: { color: Skerry.plots.css("--soft") } }] : [],
    }));
  }

  function above(curve, floor) {
    return { ...curve, mean: curve.mean.map((mean) => Math.max(mean, floor)) };
  }

  return { update: draw };
};
