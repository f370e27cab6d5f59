/** Heat maps of the difference between two primitives over any two fields. */
Skerry.widgets.gaps = (root, data, page) => {
  const { select, tick, controls, figure } = Skerry.dom;
  const { estimate, signed, plusMinus } = Skerry.numbers;
  const { model, grid } = page;
  const names = model.labels.map((label, i) => [i, label.name]);
  const axes = model.axes.map((axis, i) => [i, axis.short]);
  const free = model.axes.map((_, i) => i).filter((i) => i !== model.tuned || model.axes.length < 3);
  const against = Math.max(0, model.measures[model.headline].against);
  const view = {
    ours: names.findIndex((_, i) => i !== against), theirs: against,
    x: free[free.length - 1], y: free.length > 1 ? free[free.length - 2] : -1, hold: false,
  };
  const picture = figure("", "square");
  const set = (name) => (value) => { view[name] = typeof value === "boolean" ? value : Number(value); update(); };
  root.append(controls(
    select("Difference of", names, view.ours, set("ours")),
    select("minus", names, view.theirs, set("theirs")),
    select("Columns", axes, view.x, set("x")),
    select("Rows", [[-1, "(none)"], ...axes], view.y, set("y")),
    ...(model.axes.length > 2 ? [tick("Use the values selected above for all other fields", false, set("hold"))] : []),
  ), picture.element);

  /** By square of the map, the pairs of groups that it averages over. */
  function pairs() {
    const squares = new Map(), seen = new Set();
    for (const cell of model.cells) {
      if (view.hold && cell.some((value, i) => i !== view.x && i !== view.y && !tunedAway(i) && value !== grid.state.place[i])) continue;
      const square = `${cell[view.x]},${view.y < 0 ? 0 : cell[view.y]}`;
      const [ours, theirs] = [view.ours, view.theirs].map((label) => tuned(cell, label));
      if (ours === undefined || theirs === undefined || seen.has(`${ours}/${theirs}`)) continue;
      seen.add(`${ours}/${theirs}`);
      if (!squares.has(square)) squares.set(square, []);
      squares.get(square).push([ours, theirs]);
    }
    return squares;
  }

  /** Each primitive at its best stepsize, unless the stepsize is itself an axis of the map. */
  function tunedAway(axis) {
    return axis === model.tuned && grid.state.best && view.x !== axis && view.y !== axis;
  }

  function tuned(cell, label) {
    return tunedAway(model.tuned) ? grid.find(cell, label) : grid.at(cell, label);
  }

  /** The difference by seed, averaged over the pairs; then over seeds, as Cells.by does. */
  function difference(finals, found) {
    const bySeed = model.seeds.map((_, seed) => {
      const there = found
        .map(([ours, theirs]) => grid.row(finals, ours)[seed] - grid.row(finals, theirs)[seed])
        .filter(Number.isFinite);
      return there.length ? there.reduce((sum, value) => sum + value, 0) / there.length : NaN;
    });
    return estimate(bySeed, model.quantiles);
  }

  function words(axis, value) {
    return axis < 0 ? "" : `${model.axes[axis].short} ${model.axes[axis].words[value]}`;
  }

  async function update() {
    const measure = model.measures[grid.state.measure];
    const finals = await Skerry.data.finals(grid.state.measure), squares = pairs();
    const across = model.axes[view.x].words, down = view.y < 0 ? [""] : model.axes[view.y].words;
    const found = down.map((_, y) => across.map((_, x) => squares.get(`${x},${y}`)));
    const gaps = found.map((row) => row.map((one) => (one ? difference(finals, one) : { mean: NaN, half: NaN, count: 0 })));
    const told = gaps.map((row, y) => row.map((one, x) => Skerry.plots.escape(
      `${words(view.x, x)}  ${words(view.y, y)}`) + `<br>${plusMinus(measure.style, one, signed)} over ${one.count} seeds, ${found[y][x]?.length ?? 0} cells`));
    const most = Math.max(1e-12, ...gaps.flat().map((one) => Math.abs(one.mean)).filter(Number.isFinite));
    const sign = measure.lowerIsBetter ? -1 : 1;
    const [ours, theirs] = [model.labels[view.ours], model.labels[view.theirs]];
    const ends = sign > 0 ? [theirs.light, ours.light] : [ours.light, theirs.light];
    picture.tell(`${measure.title}: ${ours.name} minus ${theirs.name}. The colour is that of the better primitive. A * means that the 95 % interval excludes zero.`);
    const heat = () => ({
      type: "heatmap", x: across.map((word) => Skerry.plots.brief(word)), y: down.map((word) => Skerry.plots.brief(word)), z: gaps.map((row) => row.map((one) => one.mean)),
      zmin: -most, zmax: most, colorscale: [[0, ends[0]], [0.5, Skerry.plots.css("--paper")], [1, ends[1]]],
      text: gaps.map((row) => row.map((one) => (one.count ? signed(measure.style, one.mean) + (Math.abs(one.mean) > one.half ? "*" : "") : ""))),
      texttemplate: across.length * down.length <= 120 ? "%{text}" : "", hovertext: told, hoverinfo: "text", xgap: 2, ygap: 2,
      colorbar: { thickness: 12, outlinewidth: 0, title: { text: "difference", side: "right" } },
    });
    const axis = (i) => ({ type: "category", title: { text: i < 0 ? "" : Skerry.plots.escape(model.axes[i].short) } });
    return Skerry.plots.plot(picture.plot, () => [heat()], { xaxis: axis(view.x), yaxis: axis(view.y) });
  }

  return { update };
};
