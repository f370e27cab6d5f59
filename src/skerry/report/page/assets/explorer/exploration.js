/* The computations of the explorer: bounds at a setting and along an axis, and where the winner changes. */
"use strict";

const SkerryExploration = (() => {
  const { digits, mapValues } = SkerryArithmetic;
  const { ask } = SkerryRoundsAndMessages;
  const { runs, stretches, TIE } = SkerryCrossings;
  const { spec, valuesAlong, changed } = SkerrySettings;

  const MEASURES = { rounds: "rounds", messages: "messages to and from the server" };

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

  /* Where the winner changes between S2S and S2A. The ends are left out: with all devices sampled there
     is always a tie, and with one device S2S never converges. */
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

  return { MEASURES, exploration };
})();
