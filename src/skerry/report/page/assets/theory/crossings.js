/* Who is cheapest along an axis, and where that changes: skerry.theory.crossings. */
"use strict";

const SkerryCrossings = (() => {
  const { smallest } = SkerryArithmetic;

  const TIE = "tie";

  function cheapest(costs) {
    const names = Object.keys(costs);
    const best = smallest(names, (name) => costs[name]);
    const limit = costs[best] * (1 + 1e-12);
    return names.filter((name) => costs[name] <= limit).length > 1 ? TIE : best;
  }

  /* Stretches {winner, first, last} with the same winner, in order. */
  function runs(values, costs) {
    const found = [];
    for (const value of values) {
      const winner = cheapest(costs(value)), last = found[found.length - 1];
      if (last && last.winner === winner) last.last = value;
      else found.push({ winner, first: value, last: value });
    }
    return found;
  }

  /* As `runs`; on a continuous axis they meet at the crossing points, on one of whole numbers at
     neighbours. */
  function stretches(values, costs, continuous) {
    const found = runs(values, costs);
    for (let i = 1; i < found.length; i++) {
      const left = found[i - 1], right = found[i];
      if (continuous) left.last = right.first = crossing(left, right, costs);
      else [left.last, right.first] = neighbours(left, right, costs);
    }
    return found;
  }

  function crossing(left, right, costs) {
    let low = left.last, high = right.first;
    if (left.winner === TIE) return low;
    if (right.winner === TIE) return high;
    for (let i = 0; i < 30; i++) {
      const middle = (low + high) / 2, at = costs(middle);
      if (at[left.winner] < at[right.winner]) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  function neighbours(left, right, costs) {
    let low = left.last, high = right.first;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (cheapest(costs(middle)) === left.winner) low = middle;
      else high = middle;
    }
    return [low, high];
  }

  return { runs, stretches, TIE };
})();
