"use strict";
/** Numbers over seeds and how they are written: as in skerry.analysis.statistics and skerry.report.text. */
const Skerry = { widgets: {} };

Skerry.numbers = (() => {
  const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

  /** Mean and half of the 95 % interval over the finite values; half is NaN for fewer than two. */
  function estimate(values, quantiles) {
    const there = values.filter(Number.isFinite);
    const count = there.length;
    if (!count) return { mean: NaN, half: NaN, count };
    const mean = there.reduce((sum, value) => sum + value, 0) / count;
    if (count < 2) return { mean, half: NaN, count };
    const squares = there.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    return { mean, half: quantiles[count] * Math.sqrt(squares / (count - 1) / count), count };
  }

  /** How far an interval reaches to both sides of its mean: not beyond what the measure can be. */
  function reach({ mean, half }, { range: [low, high] }) {
    const within = (room) => (room < 0 ? half || 0 : Math.min(half || 0, room));
    return { below: within(mean - (low ?? -Infinity)), above: within((high ?? Infinity) - mean) };
  }

  /** Percent to a hundredth, shares to a ten-thousandth, counts whole, all else to significant digits. */
  function number(style, value, digits = 4) {
    if (!Number.isFinite(value)) return "-";
    if (style === "percent") return plain(value.toFixed(2));
    if (style === "share") return plain(value.toFixed(4));
    if (style === "count") return plain(GROUPED.format(value));
    if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(digits - 1);
    return value.toPrecision(digits);
  }

  /** No minus before a zero. */
  function plain(text) {
    return /^-[0.,]*$/.test(text) ? text.slice(1) : text;
  }

  function signed(style, value) {
    const text = number(style, value);
    return value >= 0 && text !== "-" ? `+${text}` : text;
  }

  /** `93.00 ± 0.99`; without the interval where there is none. */
  function plusMinus(style, found, write = number) {
    const text = write(style, found.mean);
    const half = number(style, found.half, 2);
    return found.half > 0 && /[1-9]/.test(half) ? `${text} ± ${half}` : text;
  }

  /** As skerry.report.text.seed_words: `seed 0`, `seeds 0 to 4`, `seeds 0, 1, 7`. */
  function seedWords(seeds) {
    const found = [...new Set(seeds)].sort((a, b) => a - b), [first, last] = [found[0], found.at(-1)];
    const isRange = found.length > 2 && last - first === found.length - 1;
    const words = isRange ? `${first} to ${last}` : found.slice(0, 8).join(", ") + (found.length > 8 ? ", ..." : "");
    return `seed${found.length === 1 ? "" : "s"} ${words}`;
  }

  function pValue(p) {
    if (!Number.isFinite(p)) return "-";
    return p < 0.001 ? "<0.001" : p.toFixed(3);
  }

  return { estimate, reach, number, signed, plusMinus, pValue, seedWords };
})();
