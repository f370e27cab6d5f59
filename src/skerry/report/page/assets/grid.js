/** The grid of runs: the groups of runs in each cell, and the selected measure and cell. */
Skerry.grid = (model, names) => {
  const { estimate } = Skerry.numbers;
  const { groups } = model, used = new Set();
  // The points of an advice have the colour of their primitive, or another one if that is taken.
  model.points.forEach((point, i) => {
    const own = [model.labels[groups.label[point.group]], ...model.others].find(({ light }) => !used.has(light));
    used.add(own.light);
    Object.assign(point, { name: names.get(point.label), light: own.light, dark: own.dark, symbol: ["circle", "square", "diamond"][i] });
  });
  const byPlace = new Map(groups.cell.map((_, group) => [key(placeOf(group), groups.label[group]), group]));
  const bestByPlace = new Map(model.best.map((group) => [key(anyStepsize(placeOf(group)), groups.label[group]), group]));
  const state = {
    measure: model.headline,
    place: [...(model.cells[model.start] ?? [])],
    /** Whether each primitive is shown with its own best stepsize. */
    best: model.best.length > 0,
    /** Whether the named points of the advice are shown, in the place of a cell. */
    points: model.points.length > 0,
  };

  function placeOf(group) {
    return model.cells[groups.cell[group]];
  }

  function anyStepsize(place) {
    return place.with(model.tuned, 0);
  }

  function key(place, label) {
    return `${place.join(",")}/${label}`;
  }

  function at(place, label) {
    return byPlace.get(key(place, label));
  }

  /** The group of a label in a cell, at its best stepsize if that is selected. */
  function find(place, label) {
    return state.best ? bestByPlace.get(key(anyStepsize(place), label)) : at(place, label);
  }

  /** The groups of all labels in the chosen cell, or the named points: [{label, group, look}]. The
      look has the colours and the symbol. */
  function chosen() {
    if (state.points) return model.points.map((look) => ({ label: groups.label[look.group], group: look.group, look }));
    return model.labels
      .map((look, label) => ({ label, group: find(state.place, label), look }))
      .filter(({ group }) => group !== undefined);
  }

  /** The last values of a group, seed by seed. */
  function row(finals, group) {
    const width = model.seeds.length;
    return Array.from(finals.values.subarray(group * width, (group + 1) * width));
  }

  function over(finals, group) {
    return estimate(row(finals, group), model.quantiles);
  }

  /** The name of a group within its cell. */
  function labelled(group) {
    const point = state.points && model.points.find((one) => one.group === group);
    return `${(point || model.labels[groups.label[group]]).name}${groups.unfinished[group] ? " (unfinished)" : ""}`;
  }

  /** The name with the stepsize, if it is the best one for this group. */
  function named(group) {
    if (!state.best || state.points) return labelled(group);
    return `${labelled(group)}, stepsize ${model.axes[model.tuned].words[placeOf(group)[model.tuned]]}`;
  }

  /** The chosen cell in words. */
  function cellWords() {
    if (state.points) return "the points of the advice";
    return model.axes
      .map((axis, i) => i === model.tuned && state.best
        ? `${axis.short} best for each primitive` : `${axis.short} ${axis.words[state.place[i]]}`)
      .join(", ");
  }

  /** The server rounds of a group; rounds are counted when done. */
  function serverRounds(group) {
    const [first, step, count] = groups.serverRounds[group];
    if (Array.isArray(first)) return first;  // the period changes
    return Array.from({ length: count }, (_, i) => first + i * step);
  }

  async function curve(measure, group) {
    const all = await Skerry.data.curves(model, measure);
    return all.get(groups.curve[group])?.();
  }

  /** Where curves are empty at their start: "Evaluated from round 48 on."; empty if they are not. */
  function startWords(curves) {
    const firsts = curves.filter(Boolean).map(({ rounds, hole }) => rounds[hole] ?? 0);
    const first = Math.min(...firsts), last = Math.max(0, ...curves.filter(Boolean).map(({ rounds }) => rounds.at(-1)));
    return first > 1 && first > 0.1 * last && Number.isFinite(first) ? `evaluated from round ${first} on` : "";
  }

  const measureNamed = (name) => model.measures.findIndex((measure) => measure.name === name);

  return { state, at, row, over, find, chosen, labelled, named, cellWords, startWords, serverRounds, curve, measureNamed };
};
