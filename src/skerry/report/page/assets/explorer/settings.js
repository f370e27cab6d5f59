/* The settings of the explorer: sliders, their values, and the limits of the theory. */
"use strict";

const SkerrySettings = (() => {
  const { clip, digits, linspace } = SkerryArithmetic;
  const { sizesOf } = SkerryServerRound;

  const SLIDERS = [
    { name: "devices", label: "devices", symbol: "n", low: 2, high: 10000, whole: true },
    { name: "sampled", label: "sampled by the server", symbol: "K", low: 1, whole: true },
    { name: "period", label: "period of the server", symbol: "H", low: 1, high: 1000, whole: true },
    { name: "p", label: "mixing inside islands", symbol: "p", low: 1e-4, high: 1 },
    { name: "zeta_intra", label: "differences inside islands", symbol: "ζ intra", low: 1e-3, high: 100, zero: true },
    { name: "zeta_inter", label: "differences between islands", symbol: "ζ inter", low: 1e-3, high: 100, zero: true },
    { name: "sigma2", label: "gradient noise", symbol: "σ²", low: 1e-3, high: 1000, zero: true },
    { name: "epsilon", label: "target accuracy", symbol: "ε", low: 1e-8, high: 10 },
  ];
  const BETA = { name: "beta", label: "beta of blend", symbol: "β", low: 0, high: 1, linear: true };
  const MORE = [
    { name: "components", label: "islands", symbol: "C", low: 1, whole: true },
    { name: "smoothness", label: "smoothness", symbol: "L", low: 1e-3, high: 1000 },
    { name: "initial_error", label: "initial error", symbol: "f0 or R0²", low: 1e-3, high: 1000 },
  ];
  const AXES = ["epsilon", "sampled", "period", "p", "zeta_inter", "zeta_intra"];

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

  /* The nearest number that the theory allows, or null. */
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

  /* The number of sampled devices nearest to K that the rule allows: one_each needs multiples of C. */
  function sampledBy(x, K) {
    if (x.selection !== "one_each") return K;
    const C = sizesOf(x).length;
    return C * clip(Math.round(K / C), 1, Math.floor(x.devices / C));
  }

  /* The setting to compute; the paper's theorems cover only uniform sampling. */
  function setting({ x, mode, selection }) {
    const asked = { ...x, selection: mode === "certified" ? selection : "uniform" };
    return { ...asked, sampled: sampledBy(asked, x.sampled) };
  }

  /* A setting with one value changed; K and the number of islands stay at most n. */
  function changed(x, name, value) {
    const next = { ...x, [name]: value };
    next.sampled = Math.min(next.sampled, next.devices);
    const islands = Array.isArray(x.components) ? x.components.length : x.components;
    if (name === "devices") next.components = Math.min(islands, next.devices);
    return next;
  }

  return { SLIDERS, BETA, MORE, AXES, spec, limits, stopsOf, valuesAlong, lawful, setting, changed };
})();
