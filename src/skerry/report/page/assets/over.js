/** The horizontal axis of curves: rounds, or what was spent until each round. */
Skerry.over = ({ model, grid }, { prices, cost_unit: costUnit }) => {
  const ALL = ["uplink", "downlink", "d2d"];
  const WAYS = [
    ["server", "to and from the server", ["uplink", "downlink"]],
    ["up", "to the server", ["uplink"]],
    ["down", "from the server", ["downlink"]],
    ["d2d", "between devices (D2D)", ["d2d"]],
    ["all", "in total", ALL],
  ];
  const units = ["messages", "bytes"].filter((unit) => grid.measureNamed(`uplink_${unit}`) >= 0);
  const clocked = model.measures.map(({ name }) => name).filter((name) => /^(seconds|joules)(@|$)/.test(name));
  /** [name, text] of every axis that these runs have. With several clocks, names end in that of the clock. */
  const axes = [
    ["rounds", "rounds"], ...(prices ? [["priced", "cost at the prices of the advice"]] : []),
    ...units.map((unit) => [unit, unit]), ...clocked.map((name) => [name, name.replace("@", ", ")]),
  ];
  const inMB = costUnit === "MB";
  const isCounted = (over) => units.includes(over);
  const waysOf = (way) => WAYS.find(([name]) => name === way);

  /** By round, the mean of a measure. */
  async function byRound(name, group) {
    const measure = grid.measureNamed(name);
    const curve = measure < 0 ? undefined : await grid.curve(measure, group);
    return new Map(curve?.rounds.map((round, i) => [round, curve.mean[i]]) ?? []);
  }

  /** By round, the messages or bytes so far. */
  async function sent(group, unit, links) {
    const sums = new Map();
    for (const link of links) {
      for (const [round, count] of await byRound(`${link}_${unit}`, group)) sums.set(round, (sums.get(round) ?? 0) + count);
    }
    return sums;
  }

  /** By round, the cost of all messages so far at the prices of the advice. */
  async function priced(group) {
    const unit = inMB ? "bytes" : "messages", server = grid.serverRounds(group), sums = new Map();
    const down = await byRound("downlink_messages", group);
    for (const link of ALL) {
      for (const [round, count] of await byRound(`${link}_${unit}`, group)) {
        let cost = count * (prices[link] ?? 0);
        if (link === "downlink" && prices.broadcast !== null && prices.broadcast !== undefined) {
          const each = count / (down.get(round) || 1), rounds = server.filter((one) => one <= round).length;
          cost = Math.min(cost, prices.broadcast * rounds * each);  // one broadcast for all devices
        }
        sums.set(round, (sums.get(round) ?? 0) + cost * (inMB ? 1e-6 : 1));
      }
    }
    return sums;
  }

  /** A curve at its places on the axis (`at`), without rounds that have none. */
  async function placed(curve, group, { over, way }) {
    if (!curve || over === "rounds") return curve && { ...curve, at: curve.rounds };
    const found = over === "priced" ? await priced(group)
      : isCounted(over) ? await sent(group, over, waysOf(way)[2]) : await byRound(over, group);
    const kept = curve.rounds.map((round, i) => i).filter((i) => found.has(curve.rounds[i]));
    const [rounds, mean, half] = [curve.rounds, curve.mean, curve.half].map((values) => kept.map((i) => values[i]));
    return { rounds, mean, half, at: rounds.map((round) => found.get(round)), hole: kept.filter((i) => i < curve.hole).length };
  }

  function words({ over, way }) {
    if (over === "priced") return `cost (${costUnit})`;
    if (isCounted(over)) return `${over} ${waysOf(way)[1]}`;
    return over === "rounds" ? "rounds" : model.measures[grid.measureNamed(over)].title;
  }

  /** A place on the axis as text: `120 messages`. */
  function told({ over }, value) {
    const unit = over === "priced" ? costUnit : isCounted(over) ? over : over.startsWith("seconds") ? "s" : "J";
    return `${Skerry.numbers.number(isCounted(over) || (over === "priced" && !inMB) ? "count" : "number", value)} ${unit}`;
  }

  return { axes, ways: WAYS.map(([name, text]) => [name, text]), isCounted, placed, words, told };
};
