/* The theory explorer: the bounds of bounds.js as sliders and curves. It writes text nodes only. */
"use strict";

const SkerryExplorer = (() => {
  const { ask, sizesOf, serverRoundCost, stretches, runs, TIE, total, clip, mapValues, linspace, smallest } = SkerryBounds;

  // What can be set

  const SLIDERS = [
    { name: "devices", label: "devices", symbol: "n", low: 2, high: 10000, whole: true },
    { name: "sampled", label: "sampled by the server", symbol: "K", low: 1, whole: true },
    { name: "period", label: "period of the server", symbol: "H", low: 1, high: 1000, whole: true },
    { name: "p", label: "mixing inside islands", symbol: "p", low: 1e-4, high: 1 },
    { name: "zeta_intra", label: "differences inside islands", symbol: "ζ intra", low: 1e-3, high: 100, zero: true },
    { name: "zeta_inter", label: "differences between islands", symbol: "ζ inter", low: 1e-3, high: 100, zero: true },
    { name: "sigma2", label: "gradient noise", symbol: "σ²", low: 1e-3, high: 1000, zero: true },
    { name: "epsilon", label: "accuracy wanted", symbol: "ε", low: 1e-8, high: 10 },
  ];
  const BETA = { name: "beta", label: "beta of blend", symbol: "β", low: 0, high: 1, linear: true };
  const MORE = [
    { name: "components", label: "islands", symbol: "C", low: 1, whole: true },
    { name: "smoothness", label: "smoothness", symbol: "L", low: 1e-3, high: 1000 },
    { name: "initial_error", label: "initial error", symbol: "f0 or R0²", low: 1e-3, high: 1000 },
  ];
  const AXES = ["epsilon", "sampled", "period", "p", "zeta_inter", "zeta_intra"];
  const MODES = {
    order: "order: all constants one",
    printed: "printed: the paper's constants",
    repaired: "repaired: checked constants",
    certified: "certified, with blend",
  };
  const SELECTIONS = {
    uniform: "uniform: any K devices",
    per_component: "per_component: by size",
    one_each: "one_each: as many of each",
  };
  const SOURCES = {
    experiment: "from the experiment",
    network: "of its network",
    measured: "measured by skerry advise",
    assumed: "assumed",
  };
  const NAMES = { s2s: "S2S", s2a: "S2A", blend: "blend" };
  const MEASURES = { rounds: "rounds", messages: "messages to and from the server" };
  const TERMS = {
    initial: "start", noise: "noise", intra: "disagreement inside", inter: "disagreement between",
    sampling_intra: "sampling, inside", sampling_inter: "sampling, between",
  };
  const SLICE = 25; // milliseconds of computing before the page may answer again

  const spec = (name) => [...SLIDERS, BETA, ...MORE].find((one) => one.name === name);
  const limits = (one, x) => [one.low, one.high ?? x.devices];

  /* The values that a slider stops at: every key press changes the number. */
  function stopsOf(one, x, own) {
    const [low, high] = limits(one, x);
    let stops;
    if (one.linear) stops = linspace(low, high, 101);
    else {
      const count = one.whole ? 160 : 1 + Math.round(20 * Math.log10(high / low));
      const powers = linspace(Math.log10(low), Math.log10(high), Math.max(2, count));
      stops = powers.map((power) => (one.whole ? Math.round(10 ** power) : digits(10 ** power, 3)));
    }
    if (one.zero) stops.push(0);
    if (own >= low && own <= high) stops.push(own);
    if (one.name === "sampled") stops = stops.map((K) => sampledBy(x, K));
    return [...new Set(stops)].sort((left, right) => left - right);
  }

  /* Where curves are computed along an axis, the present value among them. */
  function valuesAlong(one, x, count) {
    const [low, high] = limits(one, x);
    const powers = linspace(Math.log10(low), Math.log10(high), count);
    const spread = powers.map((power) => clip(10 ** power, low, high));
    const even = linspace(low, high, count);
    let along = one.whole ? [...spread, ...even].map(Math.round) : spread;
    if (one.name === "sampled") along = along.map((K) => sampledBy(x, K));
    const here = x[one.name] > 0 ? [x[one.name]] : [];
    return [...new Set([...along, ...here])].sort((left, right) => left - right);
  }

  /* A number that the theory can take: within its laws, whole where it must be. */
  function lawful(one, value, x) {
    if (!Number.isFinite(value)) return null;
    if (one.whole) value = Math.round(value);
    if (one.name === "sampled") return sampledBy(x, clip(value, 1, x.devices));
    if (one.name === "components") return clip(value, 1, x.devices);
    if (one.name === "p" || one.name === "beta") value = Math.min(value, 1);
    if (one.whole) return Math.max(value, one.low);
    if (one.zero || one.linear) return Math.max(value, 0);
    return value > 0 ? value : null;
  }

  /* The number of sampled devices nearest to K that the rule can take: one_each takes multiples. */
  function sampledBy(x, K) {
    if (x.selection !== "one_each") return K;
    const C = sizesOf(x).length;
    return C * clip(Math.round(K / C), 1, Math.floor(x.devices / C));
  }

  /* What is asked: the paper's theorems know uniform sampling only. */
  function setting({ x, mode, selection }) {
    const asked = { ...x, selection: mode === "certified" ? selection : "uniform" };
    return { ...asked, sampled: sampledBy(asked, x.sampled) };
  }

  /* A setting with one value changed; what cannot be larger than n follows n. */
  function changed(x, name, value) {
    const next = { ...x, [name]: value };
    next.sampled = Math.min(next.sampled, next.devices);
    const islands = Array.isArray(x.components) ? x.components.length : x.components;
    if (name === "devices") next.components = Math.min(islands, next.devices);
    return next;
  }

  // In words

  const SUPERSCRIPTS = Object.fromEntries([..."-0123456789"].map((sign, i) => [sign, "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"[i]]));
  const digits = (value, count) => Number(value.toPrecision(count));

  /* As Python's theory_words.number: whole numbers up to seven digits, four digits of anything else. */
  function number(value) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "-" : "infinite";
    if (value >= 1e7 || (value > 0 && value < 1e-4)) return powerOfTen(value);
    if (value >= 1e3 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
    return String(digits(value, 4));
  }

  /* `1.522 × 10⁹`. */
  function powerOfTen(value) {
    const [mantissa, exponent] = value.toExponential(3).split("e");
    const raised = [...String(Number(exponent))].map((sign) => SUPERSCRIPTS[sign]).join("");
    return `${Number(mantissa)} × 10${raised}`;
  }

  const percent = (part) => `${part < 0.1 ? digits(100 * part, 1) : Math.round(100 * part)} %`;
  const alike = (one, other) => one === other || Math.abs(one - other) <= 1e-12 * Math.abs(other);

  function comparison(measure, answers) {
    const [fewer, more] = answers.s2s[measure] < answers.s2a[measure] ? ["s2s", "s2a"] : ["s2a", "s2s"];
    const low = answers[fewer][measure], high = answers[more][measure];
    return { fewer, more, equal: alike(low, high), low, high, ratio: high / low };
  }

  /* Who needs fewer rounds and messages at this setting, and why, in one sentence. */
  function verdict(x, answers, mode) {
    const rounds = comparison("rounds", answers), messages = comparison("messages", answers);
    if (answers.s2a.refused) return answers.s2a.refused;
    if (rounds.low === Infinity) return `Neither gets there. ${answers.s2a.reason || answers.s2s.reason}`;
    if (rounds.high === Infinity)
      return `Only ${NAMES[rounds.fewer]} gets there, in ${number(rounds.low)} rounds: ${answers[rounds.more].reason}`;
    if (rounds.equal && messages.equal)
      return `S2S and S2A are the same here, ${number(rounds.low)} rounds and ${number(messages.low)} messages: the server samples all ${number(x.devices)} devices.`;
    const first = rounds.equal
      ? `S2S and S2A need equally many rounds here (${number(rounds.low)}), because the terms in which they differ vanish`
      : `${NAMES[rounds.fewer]} needs fewer rounds here, ${number(rounds.low)} against ${number(rounds.high)} (${times(rounds.ratio)}), because ${why(x, answers, rounds, mode)}`;
    return `${first}; ${messagesInWords(x, rounds, messages)}.`;
  }

  function messagesInWords(x, rounds, messages) {
    const each = (primitive) => number(serverRoundCost(primitive, x.devices, x.sampled));
    if (messages.equal) return `both need ${number(messages.low)} messages`;
    const numbers = `(${number(messages.low)} against ${number(messages.high)})`;
    const price = `a server round costs ${each("s2s")} messages with S2S and ${each("s2a")} with S2A`;
    if (messages.fewer === "s2a") return `it also needs fewer messages ${numbers}, although ${price}`;
    const also = !rounds.equal && rounds.fewer === "s2s" ? "it also needs" : "S2S needs";
    return `${also} fewer messages ${numbers}, because ${price}`;
  }

  const times = (ratio) => `a factor of ${number(digits(ratio, ratio < 1.1 ? 4 : 3))}`;

  /* What costs the loser most, among the terms in which the two primitives differ. */
  function why(x, answers, { more, fewer }, mode) {
    const loser = answers[more], own = more === "s2s" ? ["intra", "inter"] : ["sampling_intra", "sampling_inter"];
    const whole = total(Object.values(loser.terms)), of = mode === "order" ? "rounds" : "error";
    const together = total(own.map((term) => loser.terms[term])) / whole;
    if (mode !== "order" && together < 0.05 && loser.stepsize < answers[fewer].stepsize)
      return `its stepsize may be larger (${number(answers[fewer].stepsize)} against ${number(loser.stepsize)})`;
    const term = smallest(own, (name) => -loser.terms[name]);
    const part = percent(loser.terms[term] / whole), where = term.endsWith("intra") ? "inside" : "between";
    return more === "s2s"
      ? `S2S averages ${number(x.sampled)} of ${number(x.devices)} devices and leaves the others apart: disagreement ${where} islands makes up ${part} of its ${of}`
      : `the average that S2A hands to everybody depends on whom the server sampled: differences ${where} islands make this ${part} of its ${of}`;
  }

  /* Blend beside the two; certified bounds only. */
  function blendInWords(answers) {
    const blend = answers.blend;
    if (blend?.refused) return "Nor is there an answer for blend.";
    if (!blend) return "Blend has certified bounds only: the paper's proofs do not cover it.";
    if (!Number.isFinite(blend.rounds)) return `Blend does not get there. ${blend.reason}`;
    const both = [answers.s2s.rounds, answers.s2a.rounds];
    const place =
      blend.rounds < Math.min(...both) ? "fewer than either"
      : blend.rounds > Math.max(...both) ? "more than either"
      : both.some((rounds) => alike(rounds, blend.rounds)) ? "as many as the better of the two"
      : "between the two";
    return `Blend with β = ${digits(blend.beta, 3)} needs ${number(blend.rounds)} rounds, ${place}, and ${number(blend.messages)} messages.`;
  }

  /* Whom the server samples, where it is not just any K devices. */
  function samplingInWords(start, x, mode) {
    const own = start.values.selection;
    if (start.weights !== "equal" && x.selection !== "one_each") return [`Here S2A delivers the plain mean of the sampled devices; this experiment weighs them (server.weights is ${start.weights}).`];
    if (start.sources.selection === "assumed") return ["The theory has no law for the way in which this experiment samples: it is taken for uniform."];
    if (mode !== "certified" && own !== "uniform") return [`The paper's theorems assume uniform sampling, but this experiment's is ${own}: certified bounds know it.`];
    if (x.selection === "uniform" || x.sampled < sizesOf(x).length) return [];
    const rule = x.selection === "one_each" ? "alike, and weighs by its size" : "in proportion to its size";
    return [`Every island is sampled ${rule}: what S2A delivers depends on whom the server met inside islands, hardly on how islands differ.`];
  }

  /* The same question on the command line. */
  function command(x, mode, convex, beta) {
    const sizes = Array.isArray(x.components) ? x.components.join("+") : x.components;
    const options = {
      mode, devices: x.devices, components: sizes, sampled: x.sampled, period: x.period, p: x.p,
      "zeta-intra": x.zeta_intra, "zeta-inter": x.zeta_inter, sigma2: x.sigma2,
      smoothness: x.smoothness, "initial-error": x.initial_error, epsilon: x.epsilon,
      ...(mode === "certified" ? { beta } : {}),
      ...(x.selection === "uniform" ? {} : { selection: x.selection }),
    };
    const words = Object.entries(options).map(([name, value]) => `--${name} ${value}`);
    return ["skerry theory bounds", ...words, ...(convex ? ["--convex"] : [])].join(" ");
  }

  // Computing

  /* Answers at the setting, then along the axis, from coarse to fine; yields after every piece. */
  function* exploration({ x, mode, convex, axis, beta }) {
    const contenders = mode === "certified" ? ["s2s", "s2a", "blend"] : ["s2s", "s2a"];
    const known = new Map();
    const at = (value) => {
      if (!known.has(value)) {
        const there = changed(x, axis, value);
        const answer = (primitive) => [primitive, ask(there, primitive, mode, convex, beta)];
        known.set(value, Object.fromEntries(contenders.map(answer)));
      }
      return known.get(value);
    };
    const here = at(x[axis]);
    yield { here, curve: [], crossings: null };
    const one = spec(axis), values = valuesAlong(one, x, mode === "certified" ? 17 : 81);
    const curve = () =>
      values.filter((value) => known.has(value)).map((value) => ({ value, ...known.get(value) }));
    for (let stride = 8; stride >= 1; stride /= 2)
      for (let i = 0; i < values.length; i += stride) {
        if (known.has(values[i]) && stride > 1) continue;
        at(values[i]);
        if (mode === "certified") yield { here, curve: curve(), crossings: null };
      }
    const crossings = mapValues(MEASURES, (_, measure) => changes(values, at, measure, one, mode));
    yield { here, curve: curve(), crossings };
  }

  /* Where S2S and S2A change places. Everybody sampled is always a tie and one device never
     enough for S2S: these ends say nothing and are left out. */
  function changes(values, at, measure, one, mode) {
    const costs = (value) => ({ s2s: at(value).s2s[measure], s2a: at(value).s2a[measure] });
    const certified = mode === "certified";
    const told = certified ? runs(values, costs) : stretches(values, costs, !one.whole);
    const found = [];
    for (let i = 1; i < told.length; i++) {
      const left = told[i - 1], right = told[i], level = costs(left.last)[left.winner];
      const swap = left.winner !== TIE && right.winner !== TIE;
      if (!swap || costs(left.last).s2s === Infinity) continue;
      if (certified) found.push(readOff(left, right, costs));
      else if (one.whole)
        found.push({ value: (left.last + right.first) / 2, level, text: `${left.last} | ${right.first}` });
      else found.push({ value: left.last, level, text: String(digits(left.last, 3)) });
    }
    return found;
  }

  /* Certified bounds are slow: where two curves meet is read off between two computed values, as
     if both were straight on logarithmic scales. */
  function readOff(left, right, costs) {
    const low = costs(left.last), high = costs(right.first);
    const apart = ({ s2s, s2a }) => Math.log(s2s / s2a);
    const part = apart(low) / (apart(low) - apart(high));
    const on = (from, to) => from * (to / from) ** part;
    const value = on(left.last, right.first);
    return { value, level: on(low.s2s, high.s2s), text: `about ${digits(value, 2)}` };
  }

  // Elements

  let mounted = 0;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") made.textContent = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  /* A slider with its number beside it. `set(value)` is called with lawful numbers only. */
  function slider(one, id, source, own, set) {
    const range = element("input", { type: "range", id, step: "1", min: "0" });
    const box = element("input", {
      type: "number", step: one.whole ? "1" : "any", "aria-label": `${one.label}, as a number`,
    });
    const title = element("label", { for: id, text: `${one.label} ` }, element("i", { text: one.symbol }));
    const origin = element("small", { class: "explorer-source", text: source });
    const row = element("div", { class: "explorer-slider" }, title, box, range, origin);
    let stops = [], x = null;
    range.addEventListener("input", () => set(stops[Number(range.value)]));
    box.addEventListener("change", () => {
      const value = box.value.trim() === "" ? null : lawful(one, Number(box.value), x);
      if (value === null) show(x);
      else set(value);
    });
    function show(setting, origins = source) {
      x = setting;
      const given = x[one.name], value = Array.isArray(given) ? given.length : given;
      stops = stopsOf(one, x, own);
      const nearest = smallest([...stops.keys()], (i) => Math.abs(apart(stops[i], value)));
      range.max = String(stops.length - 1);
      range.value = String(nearest);
      range.setAttribute("aria-valuetext", number(value));
      if (Number(box.value) !== value || box.value === "") box.value = String(value);
      origin.textContent = value === own || origins !== source ? origins : "changed";
    }
    const apart = (stop, value) => (stop > 0 && value > 0 ? Math.log(stop / value) : stop - value);
    return { row, show, range, box };
  }

  function choice(id, title, options, set) {
    const select = element("select", { id, onchange: () => set(select.value) });
    for (const [value, text] of Object.entries(options)) select.append(element("option", { value, text }));
    const row = element("div", { class: "explorer-choice" }, element("label", { for: id, text: title }), select);
    return { row, select };
  }

  function table(answers, mode, colours) {
    const terms = Object.keys(TERMS).filter((term) => Object.values(answers).some((one) => term in one.terms));
    const head = ["", "rounds", "messages", ...terms.map((term) => TERMS[term])];
    const shares = mode === "order" ? "of its rounds" : "of the error it may have at the end";
    const caption = element("caption", { text: `At this setting; on the right, what share ${shares} comes from where.` });
    const cell = (text) => element("td", { text });
    const rows = Object.values(answers).map((answer) => {
      const name = element("th", { scope: "row", text: label(answer) });
      name.style.setProperty("--explorer-colour", colours[answer.primitive]);
      const sum = total(Object.values(answer.terms));
      const parts = terms.map((term) => (term in answer.terms && sum < Infinity ? percent(answer.terms[term] / sum) : "-"));
      return element("tr", {}, name, ...[number(answer.rounds), number(answer.messages), ...parts].map(cell));
    });
    const titles = head.map((text) => element("th", { scope: "col", text }));
    return element("table", {}, caption, element("thead", {}, element("tr", {}, ...titles)), element("tbody", {}, ...rows));
  }

  const label = (answer) =>
    answer.primitive === "blend" ? `blend, β ${digits(answer.beta, 3)}` : NAMES[answer.primitive];

  /* Traces and layout of one picture, for plotly. */
  function picture(measure, { here, curve, crossings }, { x, axis }, colours) {
    const one = spec(axis), finite = (value) => (Number.isFinite(value) && value > 0 ? value : null);
    const traces = Object.keys(here).map((primitive) => ({
      type: "scatter", mode: "lines", name: NAMES[primitive], line: { color: colours[primitive], width: 2 },
      x: curve.map((point) => point.value), y: curve.map((point) => finite(point[primitive][measure])),
      hovertemplate: `%{x:.4~g}: %{y:.4~g}<extra>${NAMES[primitive]}</extra>`,
    }));
    traces.push({
      type: "scatter", mode: "markers", name: "this setting", showlegend: false, hoverinfo: "skip",
      x: Object.keys(here).map(() => x[axis]),
      y: Object.values(here).map((answer) => finite(answer[measure])),
      marker: { size: 9, color: Object.keys(here).map((primitive) => colours[primitive]) },
    });
    const swaps = crossings ? crossings[measure] : [];
    traces.push({
      type: "scatter", mode: "markers+text", name: "S2S and S2A change places", visible: swaps.length > 0,
      x: swaps.map((swap) => swap.value), y: swaps.map((swap) => swap.level),
      text: swaps.map((swap) => swap.text), textposition: "top right", cliponaxis: false,
      marker: { symbol: "diamond-open", size: 11, color: colours.none, line: { width: 2 } },
      hovertemplate: "S2S and S2A change places at %{text}<extra></extra>",
    });
    const scale = { type: "log", exponentformat: "power" };
    const layout = {
      height: 340, margin: { l: 64, r: 16, t: 36, b: 48 },
      xaxis: { ...scale, range: limits(one, x).map(Math.log10), title: { text: `${one.label} (${one.symbol})` } },
      yaxis: { ...scale, title: { text: MEASURES[measure] } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    };
    return [traces, layout];
  }

  function notes(start, { x, mode, convex }, here) {
    const found = [blendInWords(here), ...samplingInWords(start, x, mode)];
    const aim = convex ? "f(x̄) - f*" : "‖∇f(x̄)‖²";
    found.push(`Rounds until the average of ${aim} over all rounds is at most ε.`);
    if (mode === "order") found.push("All hidden constants count as one: compare with these numbers, do not plan by them.");
    else found.push("A bound holds for every problem with these constants; a run needs fewer rounds.");
    if (x.p === 1 && x.zeta_intra > 0) found.push("At p = 1 islands agree at once, which makes ζ intra 0; here the two are free of each other, as in the paper's figures.");
    if (Object.values(start.sources).includes("assumed")) found.push("What is assumed was not measured: skerry theory constants measures it.");
    return found;
  }

  /* Build the explorer inside `root`. */
  function mount(root, start, tools) {
    const id = (name) => `explorer-${prefix}-${name}`, prefix = ++mounted;
    const asked = { x: { ...start.values }, mode: "order", convex: false, axis: "epsilon", beta: "best", betaOfSlider: start.values.beta, selection: start.values.selection };
    const said = element("p", { class: "explorer-verdict", "aria-live": "polite" });
    const figures = mapValues(MEASURES, (title) => element("div", { class: "explorer-figure", role: "img", "aria-label": `${title} along the chosen axis` }));
    const numbers = element("div", { class: "explorer-numbers", tabindex: "0", role: "region", "aria-label": "numbers at this setting" });
    const told = element("ul", { class: "explorer-notes" });
    const shell = element("code");
    const set = (change) => {
      Object.assign(asked, change);
      refresh();
    };
    const make = (one) =>
      slider(one, id(one.name), SOURCES[start.sources[one.name]] ?? "", own(one.name), (value) => set({ x: changed(asked.x, one.name, value) }));
    const own = (name) => (Array.isArray(start.values[name]) ? start.values[name].length : start.values[name]);
    const sliders = SLIDERS.map(make), more = MORE.map(make);
    const beta = slider(BETA, id("beta"), SOURCES[start.sources.beta] ?? "", own("beta"), (value) => set({ betaOfSlider: value, beta: value }));
    const best = element("input", { type: "checkbox", id: id("best"), onchange: () => set({ beta: best.checked ? "best" : asked.betaOfSlider }) });
    const blend = element("div", { class: "explorer-blend" }, beta.row, element("label", { for: id("best") }, best, " the best β"));
    const axes = Object.fromEntries(AXES.map((name) => [name, `${spec(name).label} (${spec(name).symbol})`]));
    const choices = [
      choice(id("mode"), "Bound", MODES, (mode) => set({ mode })),
      choice(id("loss"), "Loss", { any: "any smooth f", convex: "convex f" }, (loss) => set({ convex: loss === "convex" })),
      choice(id("axis"), "Along", axes, (axis) => set({ axis })),
      choice(id("selection"), "Sampling", SELECTIONS, (selection) => set({ selection })),
    ];
    const sampling = choices[choices.length - 1];
    const reset = element("button", { type: "button", text: "Back to the experiment", onclick: () => set({ x: { ...start.values }, betaOfSlider: start.values.beta, beta: "best", selection: start.values.selection }) });
    root.classList.add("explorer");
    root.replaceChildren(
      said,
      element("div", { class: "explorer-choices" }, ...choices.map(({ row }) => row), reset),
      element("div", { class: "explorer-sliders" }, ...sliders.map(({ row }) => row), blend),
      element("details", { class: "explorer-more" }, element("summary", { text: "Constants of the problem" }),
        element("div", { class: "explorer-sliders" }, ...more.map(({ row }) => row))),
      element("div", { class: "explorer-figures" }, ...Object.values(figures)),
      numbers, told,
      element("p", { class: "explorer-command", text: "On the command line: " }, shell)
    );

    let turn = 0;
    async function refresh() {
      const mine = ++turn, frozen = { ...asked, x: setting(asked) };
      for (const one of [...sliders, ...more]) one.show(frozen.x);
      beta.show({ ...frozen.x, beta: frozen.betaOfSlider });
      best.checked = frozen.beta === "best";
      sampling.select.value = frozen.selection;
      blend.hidden = sampling.row.hidden = frozen.mode !== "certified";
      shell.textContent = command(frozen.x, frozen.mode, frozen.convex, frozen.beta);
      await pause(); // several events of one gesture are answered once
      let since = performance.now(), last = null;
      for (const piece of exploration(frozen)) {
        last = piece;
        if (performance.now() - since < SLICE) continue;
        if (mine !== turn) return;
        draw(frozen, piece);
        await pause();
        since = performance.now();
      }
      if (mine === turn) draw(frozen, last);
    }
    function draw(frozen, piece) {
      if (piece.here.blend && frozen.beta === "best") beta.show({ ...frozen.x, beta: digits(piece.here.blend.beta, 3) }, "the best one");
      say(said, verdict(frozen.x, piece.here, frozen.mode));
      numbers.replaceChildren(table(piece.here, frozen.mode, tools.colours));
      told.replaceChildren(...notes(start, frozen, piece.here).map((text) => element("li", { text })));
      for (const measure of Object.keys(figures))
        tools.plot(figures[measure], ...picture(measure, piece, frozen, tools.colours));
    }
    return refresh();
  }

  const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

  /* Only what has changed is read out again. */
  function say(where, text) {
    if (where.textContent !== text) where.textContent = text;
  }

  return { verdict, samplingInWords, mount };
})();
