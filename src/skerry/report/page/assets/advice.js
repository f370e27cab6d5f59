/** The advice of `skerry advise` as blocks of the page (see blocks.py): the picture of score against cost, the
 * question, the points in numbers, what would change the answer, and the commands. */
Skerry.advice = (advice, names) => {
  const { number, plusMinus } = Skerry.numbers;
  const { question: asked, points, pilot } = advice;
  const LINKS = {
    uplink: "a message to the server", downlink: "a message from the server to one device",
    broadcast: "a message from the server to all devices at once", d2d: "a message between devices",
  };
  const style = asked.lower_is_better ? "number" : "percent";
  const title = `${asked.goal_text} (${asked.lower_is_better ? "lower is better" : "%"})`;
  const recommended = points[advice.recommended]?.label;
  const marked = [...names].map(([label, name]) => ({
    name, label, point: Object.values(points).find((one) => one?.label === label), words: label === recommended ? `${name} (recommended)` : name,
  }));

  const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1).replace(/\.$/, "")}.`;
  const text = (words) => ({ kind: "text", words });
  const facts = (pairs) => ({ kind: "facts", pairs: pairs.filter(([, words]) => words) });
  const table = (name, header, rows, sides) => (rows.length ? [{ kind: "table", title: name, header, rows, sides }] : []);
  const whole = Skerry.amount, { costWords } = Skerry;
  const isTimed = asked.cost_unit === "seconds" || asked.cost_unit === "joules";

  function written(value) {
    if (Array.isArray(value)) return value.map(written).join(", ");
    if (value !== null && typeof value === "object") return Object.entries(value).map(([name, one]) => `${name} ${written(one)}`).join(", ");
    return String(typeof value === "number" ? Number(value.toPrecision(3)) : value ?? "none");
  }

  function pointsTable() {
    const rows = advice.confirmed.map(({ label, score, cost, rounds, behind, never, best_reached: top, seeds: ran = score.count }) => [
      marked.find((one) => one.label === label)?.words ?? "", label,
      never ? `never (${number(asked.target.is_percent ? "percent" : "number", top ?? NaN)} at best)` : plusMinus(style, { mean: score.mean, half: score.half_width ?? NaN }) + (score.count < ran ? ` (${score.count} of ${ran} seeds)` : ""),
      Skerry.behind(behind), isTimed ? costWords(cost, asked.cost_unit) : whole(cost), whole(rounds), whole(ran)]);
    return table("Confirmed settings by cost, scored on fresh seeds: mean ± half of the 95 % interval",
      ["point", "setting", title, `behind the best (${asked.unit})`, `cost (${asked.cost_unit})`, "rounds", "seeds"], rows, "llrrrrr");
  }

  const [seeds, fresh] = [pilot.seeds, pilot.fresh_seeds].map(Skerry.numbers.seedWords);
  const prices = Object.entries(asked.prices).filter(([, price]) => price !== null).map(([link, price]) => `${LINKS[link] ?? link} costs ${price}`);
  const runs = (count, noun) => `${number("count", count)} ${noun}${count === 1 ? "" : "s"}`;
  const question = [
    ["Goal", title],
    ["Level with the best", `at most ${asked.tolerance_text} behind it`],
    ["Budget", (asked.budget ?? null) === null ? "none given" : costWords(asked.budget, asked.cost_unit)],
    ["Clock", asked.clock ? asked.clock_name || "given from Python" : ""],
    ["Prices", isTimed ? "" : prices.join("; ")],
    ["Fixed", Object.entries(asked.fixed).map(([name, value]) => `${name} ${written(value)}`).join("; ")],
    ["Searched", `${runs(pilot.runs, "run")} of ${runs(pilot.rounds, "round")} on ${seeds}${pilot.fresh_seeds.length ? `, confirmed on ${fresh}` : ""}; ${number("count", pilot.diverged)} diverged`],
    ["Time", Number.isFinite(pilot.seconds) ? `${Math.round(pilot.seconds)} s` : ""],
  ];
  const sure = advice.statements.map(({ text: words, probability, p }) => [
    words, Number.isFinite(probability) ? `${Math.round(100 * probability)} %` : "-", Number.isFinite(p) ? Skerry.numbers.pValue(p) : "-"]);
  const changes = advice.sensitivity.map((one) => [one.condition, one.answer, one.changes ? "yes" : "no", one.basis]);
  const rest = advice.summary.filter((line) => line !== advice.headline);
  const titles = { use: "To use the recommendation:", compare: "To compare it with others:", price: "To see seconds and joules of these runs:" };
  return [
    ...(Number.isFinite(points.best?.score.mean) ? [{ kind: "widget", widget: "advice", data: { ...advice, points: marked, best: points.best, title, style, axis: asked.target ? `${asked.target.unit} until ${written(asked.target.value)}${asked.target.is_percent ? " %" : ""}` : title } }] : []),
    ...(rest.length ? [{ kind: "bullets", lines: rest }] : []),
    facts(question),
    ...table("What was varied", ["field", "values"], Object.entries(asked.varied).filter(([, values]) => values?.length > 1).map(([name, values]) => [name, written(values)]), "ll"),
    ...table("How sure each statement is", ["statement", "probability", "p-value"], sure, "lrr"),
    ...pointsTable(),
    ...table("What would change the answer", ["if", "the answer is", "does it change?", "based on"], changes, "llll"),
    ...advice.notes.map((words) => ({ kind: "note", words: sentence(words), tone: "plain" })),
    ...Object.entries(advice.commands).flatMap(([name, content]) => [
      text(titles[name] ?? `${name}:`), { kind: "code", title: `The command to ${name}`, content }]),
  ];
};

/** A cost or a count: whole if it is large or has no decimals. */
Skerry.amount = (value) => (Number.isInteger(value) || !(value < 1000) ? Skerry.numbers.number("count", value) : String(Number(value.toPrecision(4))));

/** A cost with its unit, as `skerry.clock.units` writes seconds and joules: `42.3 s`, `3.1 kJ`, `96 uploads`. */
Skerry.costWords = (value, unit) => {
  const steps = {
    seconds: [[0.1, 1e-3, "ms"], [120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "days"]],
    joules: [[0.1, 1e-3, "mJ"], [1e3, 1, "J"], [1e6, 1e3, "kJ"], [1e9, 1e6, "MJ"], [Infinity, 1e9, "GJ"]],
  }[unit];
  const [, size, name] = (value ? steps?.find(([limit]) => value < limit) : steps?.[1]) ?? [];
  return name ? `${Number((value / size).toPrecision(3))} ${name}` : `${Skerry.amount(value)} ${unit}`;
};

/** How far a point is behind the best, as in advice.json: `0.30 (-1.58 to 2.18)`, positive if it is worse. */
Skerry.behind = (found) => {
  if (!found) return "-";
  const [mean, low, high] = [found.mean, found.low, found.high].map((value) => Skerry.numbers.number("percent", value ?? NaN));
  return mean + (low === "-" ? "" : ` (${low} to ${high})`);
};

/** By label, what the points of an advice are called, the recommended one first. A setting that is several of
 * them has one name. */
Skerry.pointNames = ({ points, recommended, question }) => {
  const within = (question.budget ?? null) === null ? "" : " within the budget";
  const first = points.best?.never ? "nearest" : { seconds: "soonest", joules: "thriftiest" }[question.target?.unit];
  const best = `${first ?? "best"}${within}`;
  const alone = { best, cheapest: "cheapest that is level", none: "no server" }, roles = new Map();
  for (const role of new Set([recommended, ...Object.keys(alone)])) {
    const label = points[role]?.label;
    if (label !== undefined && role in alone) roles.set(label, [...(roles.get(label) ?? []), role]);
  }
  const named = (ours) => (question.target && ours.includes("best") && !ours.includes("none") ? best
    : ours.length === 1 ? alone[ours[0]]
    : ours.includes("none") ? `no server, which is ${ours.includes("best") ? first ?? "best" : "level"}` : "best and cheapest that is level");
  return new Map([...roles].map(([label, ours]) => [label, named(ours)]));
};
