/** The grid of runs: the groups of runs in each cell, and the selected measure and cell. */
Skerry.grid = (model) => {
  const { estimate } = Skerry.numbers;
  const { groups } = model;
  const byPlace = new Map(groups.cell.map((_, group) => [key(placeOf(group), groups.label[group]), group]));
  const bestByPlace = new Map(model.best.map((group) => [key(anyStepsize(placeOf(group)), groups.label[group]), group]));
  const state = {
    measure: model.headline,
    place: [...(model.cells[model.start] ?? [])],
    /** Whether each primitive is shown with its own best stepsize. */
    best: model.best.length > 0,
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

  /** The groups of all labels in the chosen cell: [{label, group}]. */
  function chosen() {
    return model.labels
      .map((_, label) => ({ label, group: find(state.place, label) }))
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
    return `${model.labels[groups.label[group]].name}${groups.unfinished[group] ? " (unfinished)" : ""}`;
  }

  /** The name with the stepsize, if it is the best one for this group. */
  function named(group) {
    if (!state.best) return labelled(group);
    return `${labelled(group)}, stepsize ${model.axes[model.tuned].words[placeOf(group)[model.tuned]]}`;
  }

  /** The chosen cell in words. */
  function cellWords() {
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

  const measureNamed = (name) => model.measures.findIndex((measure) => measure.name === name);

  return { state, at, row, over, find, chosen, labelled, named, cellWords, serverRounds, curve, measureNamed };
};
