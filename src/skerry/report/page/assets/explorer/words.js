/* The results of the explorer in sentences: which primitive needs fewer rounds and messages, and why. */
"use strict";

const SkerryExplorerWords = (() => {
  const { total, digits, smallest } = SkerryArithmetic;
  const { sizesOf } = SkerryServerRound;
  const { serverRoundCost } = SkerryRoundsAndMessages;

  const NAMES = { s2s: "S2S", s2a: "S2A", blend: "blend" };
  const SUPERSCRIPTS = Object.fromEntries([..."-0123456789"].map((sign, i) => [sign, "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"[i]]));

  /* As skerry.report.text.number: whole numbers up to seven digits, four digits of anything else. */
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
    if (rounds.low === Infinity) return `Neither primitive converges. ${answers.s2a.reason || answers.s2s.reason}`;
    if (rounds.high === Infinity)
      return `Only ${NAMES[rounds.fewer]} converges, in ${number(rounds.low)} rounds: ${answers[rounds.more].reason}`;
    if (rounds.equal && messages.equal)
      return `S2S and S2A are the same here, ${number(rounds.low)} rounds and ${number(messages.low)} ${unitOf(x)}: the server samples all ${number(x.devices)} devices.`;
    const first = rounds.equal
      ? `S2S and S2A need the same number of rounds here (${number(rounds.low)}), because the terms in which they differ are zero`
      : `${NAMES[rounds.fewer]} needs fewer rounds here, ${number(rounds.low)} against ${number(rounds.high)} (${times(rounds.ratio)}), because ${why(x, answers, rounds, mode)}`;
    return `${first}; ${messagesInWords(x, rounds, messages)}.`;
  }

  function messagesInWords(x, rounds, messages) {
    const each = (primitive) => number(serverRoundCost(primitive, x.devices, x.sampled, x.prices)), unit = unitOf(x);
    if (messages.equal) return `both need ${number(messages.low)} ${unit}`;
    const numbers = `(${number(messages.low)} against ${number(messages.high)})`;
    const same = each("s2s") === each("s2a");
    const price = `a server round costs ${each("s2s")} ${unit} with ${same ? "both" : `S2S and ${each("s2a")} with S2A`}`;
    if (same) return `the same holds for ${unit} ${numbers}, because ${price}`;
    if (messages.fewer === "s2a") {
      const also = rounds.fewer === "s2a" && !rounds.equal ? "it also needs" : "S2A needs";
      return `${also} fewer ${unit} ${numbers}, although ${price}`;
    }
    const also = !rounds.equal && rounds.fewer === "s2s" ? "it also needs" : "S2S needs";
    return `${also} fewer ${unit} ${numbers}, because ${price}`;
  }

  /* What messages are counted in: the unit of the prices, if there are any. */
  const unitOf = (x) => x.unit ?? "messages";

  const times = (ratio) => `a factor of ${number(digits(ratio, ratio < 1.1 ? 4 : 3))}`;

  /* The largest cost of the slower primitive, among the terms in which the two differ. */
  function why(x, answers, { more, fewer }, mode) {
    const loser = answers[more], own = more === "s2s" ? ["intra", "inter"] : ["sampling_intra", "sampling_inter"];
    const whole = total(Object.values(loser.terms)), of = mode === "order" ? "rounds" : "error";
    const together = total(own.map((term) => loser.terms[term])) / whole;
    if (mode !== "order" && together < 0.05 && loser.stepsize < answers[fewer].stepsize)
      return `its stepsize can be larger (${number(answers[fewer].stepsize)} against ${number(loser.stepsize)})`;
    const term = smallest(own, (name) => -loser.terms[name]);
    const part = percent(loser.terms[term] / whole), where = term.endsWith("intra") ? "inside" : "between";
    return more === "s2s"
      ? `S2S averages only ${number(x.sampled)} of ${number(x.devices)} devices and leaves the others unchanged: disagreement ${where} islands causes ${part} of its ${of}`
      : `the average that S2A sends to all devices depends on which devices were sampled: differences ${where} islands cause ${part} of its ${of} in this way`;
  }

  /* The result of blend, which has certified bounds only. */
  function blendInWords(x, answers) {
    const blend = answers.blend;
    if (blend?.refused) return "There is no result for blend either.";
    if (!blend) return "Blend has only certified bounds, because the paper's proofs do not cover it.";
    if (!Number.isFinite(blend.rounds)) return `Blend does not converge. ${blend.reason}`;
    const both = [answers.s2s.rounds, answers.s2a.rounds];
    const place =
      blend.rounds < Math.min(...both) ? "fewer than either"
      : blend.rounds > Math.max(...both) ? "more than either"
      : both.some((rounds) => alike(rounds, blend.rounds)) ? "as many as the better of the two"
      : "between the two";
    return `Blend with β = ${digits(blend.beta, 3)} needs ${number(blend.rounds)} rounds, ${place}, and ${number(blend.messages)} ${unitOf(x)}.`;
  }

  /* How the server samples, if it is not uniform. */
  function samplingInWords(start, x, mode) {
    const own = start.values.selection;
    if (start.weights !== "equal" && x.selection !== "one_each") return [`The bounds use the plain mean of the sampled devices, but this experiment uses a weighted mean (server.weights is ${start.weights}).`];
    if (start.sources.selection === "assumed") return ["The theory does not cover the selection rule of this experiment; uniform sampling is assumed instead."];
    if (mode !== "certified" && own !== "uniform") return [`The paper's theorems assume uniform sampling, but this experiment samples by ${own}. Certified bounds take this into account.`];
    if (x.selection === "uniform" || x.sampled < sizesOf(x).length) return [];
    const rule = x.selection === "one_each" ? "The server samples equally many devices of every island and weights islands by size" : "The server samples every island in proportion to its size";
    return [`${rule}, so the average that S2A sends hardly depends on the differences between islands.`];
  }

  /* The command that computes the same bounds. */
  function command(x, mode, convex, beta) {
    const sizes = Array.isArray(x.components) ? x.components.join("+") : x.components;
    const options = {
      mode, devices: x.devices, components: sizes, sampled: x.sampled, period: x.period, p: x.p,
      "zeta-intra": x.zeta_intra, "zeta-inter": x.zeta_inter, sigma2: x.sigma2,
      smoothness: x.smoothness, "initial-error": x.initial_error, epsilon: x.epsilon,
      ...(mode === "certified" ? { beta } : {}),
      ...(x.selection === "uniform" ? {} : { selection: x.selection }),
      ...Object.fromEntries(["uplink", "downlink", "broadcast"].map((name) => [name, x.prices?.[name]]).filter(([, price]) => (price ?? null) !== null)),
    };
    const words = Object.entries(options).map(([name, value]) => `--${name} ${value}`);
    return ["skerry theory bounds", ...words, ...(convex ? ["--convex"] : [])].join(" ");
  }

  function notes(start, { x, mode, convex }, here) {
    const found = [blendInWords(x, here), ...samplingInWords(start, x, mode)];
    const aim = convex ? "f(x̄) - f*" : "‖∇f(x̄)‖²";
    found.push(`Rounds until the average of ${aim} over all rounds is at most ε.`);
    if (x.prices?.d2d > 0) found.push("Messages between devices are not counted here.");
    if (mode === "order") found.push("All constants of the theorems are set to one, so use these numbers for comparisons, not for planning.");
    else found.push("A bound holds for every problem with these constants; a typical run needs fewer rounds.");
    if (x.p === 1 && x.zeta_intra > 0) found.push("At p = 1 all devices of an island hold the same model after mixing. ζ intra can still be positive here, as in the paper's figures.");
    if (Object.values(start.sources).includes("assumed")) found.push("Assumed values were not measured.");
    return found;
  }

  return { NAMES, number, percent, verdict, unitOf, samplingInWords, notes, command };
})();
