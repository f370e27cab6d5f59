/** The grid of runs: which group of runs stands in which cell, and what is chosen to look at. */
Skerry.grid = (model) => {
  const { estimate } = Skerry.numbers;
  const groups = model.groups.cell.length;
  const byPlace = new Map();
  for (let group = 0; group < groups; group++) {
    const place = model.cells[model.groups.cell[group]];
    byPlace.set(key(place, model.groups.label[group]), group);
  }
  const state = {
    measure: model.headline,
    place: model.cells[0] ? [...model.cells[0]] : [],
    /** Whether each primitive is looked at with its own best stepsize. */
    best: model.tuned >= 0 && model.measures.some((measure) => measure.ranked),
  };

  function key(place, label) {
    return `${place.join(",")}/${label}`;
  }

  function at(place, label) {
    return byPlace.get(key(place, label));
  }

  function row(finals, group) {
    const width = model.seeds.length;
    return Array.from(finals.values.subarray(group * width, (group + 1) * width));
  }

  function over(finals, group) {
    return estimate(row(finals, group), model.quantiles);
  }

  /** The group of a label at a place, with its own best stepsize if that is asked for: the one that
   * most seeds finished, and among those the best mean of the headline measure. */
  async function find(place, label) {
    if (!state.best || model.tuned < 0) return at(place, label);
    const finals = await Skerry.data.finals(model.headline);
    const sign = model.measures[model.headline].lowerIsBetter ? -1 : 1;
    let best, rank = [0, -Infinity];
    model.axes[model.tuned].values.forEach((_, value) => {
      const group = at(place.with(model.tuned, value), label);
      if (group === undefined) return;
      const { count, mean } = over(finals, group);
      const here = [count, sign * (Number.isFinite(mean) ? mean : -Infinity)];
      if (best === undefined || here[0] > rank[0] || (here[0] === rank[0] && here[1] > rank[1])) {
        [best, rank] = [group, here];
      }
    });
    return best;
  }

  /** The groups of all labels in the chosen cell: [{label, group}]. */
  async function chosen(place = state.place) {
    const found = await Promise.all(model.labels.map((_, label) => find(place, label)));
    return found
      .map((group, label) => ({ label, group }))
      .filter(({ group }) => group !== undefined);
  }

  function stepsize(group) {
    const place = model.cells[model.groups.cell[group]];
    return model.axes[model.tuned].words[place[model.tuned]];
  }

  /** How a group is called beside others of its cell. */
  function labelled(group) {
    const name = model.labels[model.groups.label[group]].name;
    return `${name}${model.groups.unfinished[group] ? " (unfinished)" : ""}`;
  }

  /** The same, with the stepsize where that was chosen for it. */
  function named(group) {
    return labelled(group) + (state.best && model.tuned >= 0 ? `, stepsize ${stepsize(group)}` : "");
  }

  /** The chosen cell in words. */
  function cellWords(place = state.place) {
    return model.axes
      .map((axis, i) => i === model.tuned && state.best
        ? `${axis.short} best for each` : `${axis.short} ${axis.words[place[i]]}`)
      .join(", ");
  }

  /** The rounds, counted when done, in which the server met the devices of a group. */
  function serverRounds(group) {
    if (!model.groups.served[group]) return [];
    const [, period, offset] = model.groups.server[group];
    const rounds = [];
    for (let t = offset; t < model.groups.rounds[group]; t += period) rounds.push(t + 1);
    return rounds;
  }

  async function curve(measure, group) {
    const all = await Skerry.data.curves(model, measure);
    return all.get(model.groups.curve[group])?.();
  }

  const measureNamed = (name) => model.measures.findIndex((measure) => measure.name === name);

  return { state, at, row, over, find, chosen, labelled, named, cellWords, serverRounds, curve, measureNamed };
};
