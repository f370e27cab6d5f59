/* Numbers and lists, for the theory and its explorer. */
"use strict";

const SkerryArithmetic = (() => {
  const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  const clip = (value, low, high) => Math.min(Math.max(value, low), high);
  const digits = (value, count) => Number(value.toPrecision(count));
  const mapValues = (table, change) =>
    Object.fromEntries(Object.entries(table).map(([name, value]) => [name, change(value, name)]));

  function linspace(start, stop, count) {
    const step = (stop - start) / (count - 1);
    return Array.from({ length: count }, (_, i) => (i === count - 1 ? stop : i * step + start));
  }

  /* The first of those with the smallest key. */
  function smallest(items, key) {
    let best = items[0], lowest = key(items[0]);
    for (const item of items.slice(1)) {
      const value = key(item);
      if (value < lowest) [best, lowest] = [item, value];
    }
    return best;
  }

  return { total, clip, digits, mapValues, linspace, smallest };
})();
