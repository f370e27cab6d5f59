/* The theory explorer: the bounds of skerry.theory as sliders and curves.

   The first half is mathematics without a page, one section per Python module and in its names;
   a test compares the two. The second half builds the page from it, with text nodes only. */
"use strict";

const SkerryExplorer = (() => {
  // operators.py: what one server round does

  const delta = (n, K) => (n - K) / Math.max(n - 1, 1);
  const kappa = (n, K) => delta(n, K) / K;
  const q = (n, K) => (n === 1 ? 1 : (n - 1) / (K - 1)); // infinite at K = 1

  /* [[intra to intra, inter to intra], [intra to inter, inter to inter]], row by row. */
  function exchangeMatrix(sizes, K, beta) {
    const n = total(sizes), C = sizes.length;
    const [a, b, c] = samplingMoments(n, K);
    const share = sizes.map((size) => 1 / size);
    const toIntra = share.map((s) => b * (1 - s) + c * (n - C));
    const toInter = share.map((s) => b * (s - 1 / n) + c * (C - 1));
    const inside = sizes.some((size) => size > 1), between = C > 1;
    const atMost = (weights) => Math.max(...weights.filter((_, i) => share[i] < 1));
    const M = [0, 0, 0, 0];
    if (inside) M[0] = a + atMost(toIntra);
    if (between) M[3] = a + largestBetween(toInter, sizes);
    if (inside && between) {
      M[1] = largestBetween(toIntra, sizes);
      M[2] = atMost(toInter);
    }
    return M.map((entry) => (1 - beta) ** 2 * entry);
  }

  /* Largest eigenvalue of Diag(weights) among vectors at right angles to z, z_i^2 = size_i/n: the
     largest weight where two components have it, else the root of sum z_i^2/(w_i - x) between the
     two largest. */
  function largestBetween(weights, sizes) {
    const n = total(sizes);
    let [high, low] = [...weights].sort((one, other) => other - one);
    const sum = (x) => total(weights.map((w, i) => sizes[i] / n / (w - x)));
    for (let i = 0; i < 100 && high > low; i++) {
      const middle = (low + high) / 2;
      if (middle <= low || middle >= high) break;
      if (sum(middle) < 0) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  /* (a, b, c) of E[W A W] = a A + b Diag(A) + c tr(A) I, in exact fractions over one denominator:
     the differences cancel, to nothing at K = 1. */
  function samplingMoments(n, K) {
    if (n === K) return [0, 0, 0];
    const falling = (x, k) => {
      let product = 1n;
      for (let i = 0; i < k; i++) product *= BigInt(x - i);
      return product;
    };
    const last = Math.min(n, 4), square = BigInt(K) ** 2n, k = BigInt(K);
    const whole = falling(n, last) * square;
    // K^2 times the chance that so many given devices are sampled, over `whole`.
    const chance = (m) => (m > n ? 0n : falling(K, m) * (falling(n, last) / falling(n, m)));
    const [one, two, three, four] = [1, 2, 3, 4].map(chance);
    const all = falling(n, last);
    const offDiagonal =
      2n * (two - 2n * three + four) +
      2n * k * (one - 2n * two + three) +
      square * (all - 2n * one + two);
    const rowAndColumn = two - 3n * three + 2n * four - k * (two - three);
    const diagonal = one - 3n * two + 2n * three + square * (all - one);
    const trace = two - 2n * three + four;
    return [offDiagonal, diagonal - offDiagonal - 2n * rowAndColumn, trace].map(
      (part) => Number(part) / Number(whole)
    );
  }

  // parameters.py

  /* Devices in each component: as given, or as equal as possible. */
  function sizesOf(x) {
    if (Array.isArray(x.components)) return x.components;
    const small = Math.floor(x.devices / x.components), larger = x.devices % x.components;
    return Array.from({ length: x.components }, (_, c) => small + (c < larger ? 1 : 0));
  }

  // bounds.py and stepsize.py: Theorems 1 and 2 as order, printed and repaired

  const CAP = 0.4;
  const ONE_SAMPLED =
    "S2S with one sampled device leaves every model as it was, so no number of rounds is enough.";

  function symbols(x, primitive) {
    const sampled = primitive === "s2s" ? q(x.devices, x.sampled) : 1;
    const hopeless = sampled === Infinity;
    return {
      n: x.devices, H: x.period, p: x.p, zi: x.zeta_intra, ze: x.zeta_inter, s2: x.sigma2,
      L: x.smoothness, start: x.initial_error, eps: x.epsilon, kappa: kappa(x.devices, x.sampled),
      q: hopeless ? 1 : sampled, hopeless,
    };
  }

  function orderTerms(parameters, primitive, convex) {
    const x = symbols(parameters, primitive);
    const [scale, root, linear] = convex ? [x.start, Math.sqrt(x.L), x.L] : [x.L * x.start, 1, 1];
    const terms = { noise: x.s2 / (x.n * x.eps ** 2) };
    if (primitive === "s2a") {
      terms.sampling_intra = (x.kappa * x.zi ** 2) / (x.H * x.p ** 2 * x.eps ** 2);
      terms.sampling_inter = (x.kappa * x.H * x.ze ** 2) / x.eps ** 2;
    }
    terms.intra = (Math.sqrt(x.q) * root * x.zi) / (x.p * x.eps ** 1.5);
    terms.inter = (x.q * root * x.H * x.ze) / x.eps ** 1.5;
    terms.initial = linear / (x.p * x.eps);
    return mapValues(terms, (term) => (x.hopeless ? Infinity : scale * term));
  }

  /* Psi(eta) = r0/(eta N) + c eta + e eta^2 for eta up to 1/d. */
  function coefficients(parameters, primitive, mode, convex) {
    const x = symbols(parameters, primitive);
    const printed = mode === "printed", broadcast = primitive === "s2a";
    const intra = (48 * x.q * x.zi ** 2) / x.p ** 2;
    const inter =
      printed && !broadcast
        ? 140 * x.q ** 2 * x.H * (x.H - 1) * x.ze ** 2
        : 8 * x.q ** 2 * x.H ** 2 * x.ze ** 2;
    const perDisagreement = convex ? (printed && broadcast ? 2 : 1.5) * x.L : 4 * x.L ** 2;
    const perSquare = convex ? 1 : 2 * x.L;
    const c = { noise: (perSquare * x.s2) / x.n };
    if (broadcast) {
      const [byIntra, byInter] = printed ? [54, 26] : [48, 2];
      c.sampling_intra = (perSquare * x.kappa * byIntra * x.zi ** 2) / (x.H * x.p ** 2);
      c.sampling_inter = perSquare * x.kappa * byInter * x.H * x.ze ** 2;
    }
    const e = { intra: perDisagreement * intra, inter: perDisagreement * inter };
    let d = (8 * x.L) / x.p;
    if (!convex && !printed) d = Math.max(d, (x.H * x.L * x.q) / CAP);
    return { r0: convex ? x.start : 4 * x.start, c, e, d };
  }

  const bestStepsize = (c, e, d, eps) => Math.min(1 / d, eps / (c + Math.sqrt(c ** 2 + 3 * e * eps)));

  function bound(parameters, primitive, mode, convex) {
    const x = symbols(parameters, primitive);
    const reason = x.hopeless ? ONE_SAMPLED : "";
    if (mode === "order") {
      const terms = orderTerms(parameters, primitive, convex);
      return { rounds: total(Object.values(terms)), terms, reason, stepsize: null, horizon: null };
    }
    const psi = coefficients(parameters, primitive, mode, convex);
    const c = total(Object.values(psi.c)), e = total(Object.values(psi.e));
    const eta = bestStepsize(c, e, psi.d, x.eps);
    if (x.hopeless) return { rounds: Infinity, terms: {}, reason, stepsize: NaN, horizon: Infinity };
    const rounds = psi.r0 / (x.eps * eta - c * eta ** 2 - e * eta ** 3);
    const terms = {
      initial: x.eps - c * eta - e * eta ** 2,
      ...mapValues(psi.c, (part) => part * eta),
      ...mapValues(psi.e, (part) => part * eta ** 2),
    };
    const horizon = Math.max(Math.ceil(rounds), x.H) - 1;
    return { rounds, terms, reason, stepsize: eta, horizon };
  }

  // full_recursion.py: the recursion that leaves nothing out

  /* A stretch of rounds maps v = (A, B) to R v + s and adds c v + d to the cost. It is kept as
     R00 R01 R10 R11 s0 s1 c0 c1 d, what of the 4 x 4 matrix is not always 0 or 1. */
  const SIZE = 9;

  /* `first`, then `second`; `out` may be either. Indices, because destructuring is slow. */
  function then(out, first, second) {
    const a00 = first[0], a01 = first[1], a10 = first[2], a11 = first[3];
    const b00 = second[0], b01 = second[1], b10 = second[2], b11 = second[3];
    const a0 = first[4], a1 = first[5], c0 = second[6], c1 = second[7];
    const s0 = second[4], s1 = second[5];
    out[8] = c0 * a0 + c1 * a1 + second[8] + first[8];
    out[6] = c0 * a00 + c1 * a10 + first[6];
    out[7] = c0 * a01 + c1 * a11 + first[7];
    out[4] = b00 * a0 + b01 * a1 + s0;
    out[5] = b10 * a0 + b11 * a1 + s1;
    out[0] = b00 * a00 + b01 * a10;
    out[1] = b00 * a01 + b01 * a11;
    out[2] = b10 * a00 + b11 * a10;
    out[3] = b10 * a01 + b11 * a11;
    return out;
  }

  /* Repeated `times`, by squaring. Powers commute; in this order they overflow as in Python. */
  function repeated(map, times) {
    const result = new Float64Array(SIZE), square = new Float64Array(SIZE);
    result[0] = result[3] = 1;
    square.set(map);
    for (let left = times; left > 0; left = Math.floor(left / 2)) {
      if (left % 2 === 1) then(result, square, result);
      if (left > 1) then(square, square, square);
    }
    return result;
  }

  class FullRecursion {
    constructor(x, beta, convex) {
      const sizes = sizesOf(x);
      Object.assign(this, { beta, convex, H: x.period, p: x.p, L: x.smoothness });
      this.epsilon = x.epsilon;
      this.r0 = x.initial_error * (convex ? 1 : 4);
      this.noise = (x.sigma2 / x.devices) * (convex ? 1 : 2 * x.smoothness);
      this.zeta2 = [x.zeta_intra ** 2, x.zeta_inter ** 2];
      this.present = [Math.max(...sizes) > 1 ? 1 : 0, sizes.length > 1 ? 1 : 0];
      this.M = exchangeMatrix(sizes, x.sampled, beta);
      this.kappa = beta ** 2 * kappa(x.devices, x.sampled);
      this.largestStepsize = 1 / (4 * x.smoothness);
    }

    /* The bound on the average over `rounds` rounds. */
    average(eta, alpha, rho, rounds) {
      const { served, plain } = this.steps(eta, alpha, rho);
      const rest = rounds % this.H;
      const state = repeated(this.period(served, plain), Math.floor(rounds / this.H));
      if (rest) then(state, state, then(served, served, repeated(plain, rest - 1)));
      const found = this.r0 / (eta * rounds) + this.noise * eta + state[8] / rounds;
      return Number.isNaN(found) ? Infinity : found;
    }

    /* Rounds that are enough in the periodic steady state, in closed form. */
    enoughRounds(eta, alpha, rho) {
      const { served, plain } = this.steps(eta, alpha, rho);
      const period = this.period(served, plain), r01 = period[1], r10 = period[2];
      const s0 = period[4], s1 = period[5], l00 = 1 - period[0], l11 = 1 - period[3];
      const determinant = l00 * l11 - r01 * r10;
      const A = (l11 * s0 + r01 * s1) / determinant, B = (l00 * s1 + r10 * s0) / determinant;
      const Q = period[6] * A + period[7] * B + period[8];
      const margin = this.epsilon - this.noise * eta - Q / this.H;
      const bounded = l00 > 0 && l11 > 0 && determinant > 0;
      return bounded && margin > 0 ? (this.r0 / eta + Q) / margin : Infinity;
    }

    /* What each source adds to the average. */
    terms(eta, alpha, rho, rounds) {
      const cost = (of, share) => {
        const part = Object.assign(Object.create(FullRecursion.prototype), this);
        part.r0 = part.noise = 0;
        part.zeta2 = this.zeta2.map((z, i) => z * of[i]);
        part.kappa = share;
        return part.average(eta, alpha, rho, rounds);
      };
      const found = { initial: this.r0 / (eta * rounds), noise: this.noise * eta };
      for (const [name, of] of [["intra", [1, 0]], ["inter", [0, 1]]]) {
        found[name] = cost(of, 0);
        if (this.beta > 0) found[`sampling_${name}`] = cost(of, this.kappa) - found[name];
      }
      return found;
    }

    /* A round with the server and one without. */
    steps(eta, alpha, rho) {
      const [intra, inter] = this.present, L2 = this.L ** 2;
      const byIntra = 2 * (1 + 1 / alpha) * eta ** 2, byInter = 2 * (1 + 1 / rho) * eta ** 2;
      const p00 = intra * (1 - this.p) * (1 + alpha + byIntra * L2);
      const p01 = intra * (1 - this.p) * byIntra * L2;
      const p10 = inter * byInter * L2;
      const p11 = inter * (1 + rho + byInter * L2);
      const g0 = intra * byIntra * this.zeta2[0], g1 = inter * byInter * this.zeta2[1];
      const perDisagreement = this.convex ? 1.5 * this.L : 4 * L2;
      const perBias = (this.kappa * (this.convex ? 1 : 2 * this.L)) / eta;
      const [m00, m01, m10, m11] = this.M;
      const plain = new Float64Array(SIZE), served = new Float64Array(SIZE);
      plain[0] = p00;
      plain[1] = p01;
      plain[2] = p10;
      plain[3] = p11;
      plain[4] = g0;
      plain[5] = g1;
      plain[6] = plain[7] = perDisagreement;
      served[0] = m00 * p00 + m01 * p10;
      served[1] = m00 * p01 + m01 * p11;
      served[2] = m10 * p00 + m11 * p10;
      served[3] = m10 * p01 + m11 * p11;
      served[4] = m00 * g0 + m01 * g1;
      served[5] = m10 * g0 + m11 * g1;
      served[6] = perDisagreement + perBias * (p00 + p10);
      served[7] = perDisagreement + perBias * (p01 + p11);
      served[8] = perBias * (g0 + g1);
      return { served, plain };
    }

    period(served, plain) {
      return then(new Float64Array(SIZE), served, repeated(plain, this.H - 1));
    }
  }

  // certified.py: the recursion, minimised over stepsize, alpha and rho

  const WIDE = [4, 1.5, 0.5, 0.2, 0.07, 0.025, 0.01];
  const NEAR = [0.5, 0.2, 0.07, 0.025, 0.01];
  const POINTS = 9;
  const NO_STEADY_STATE =
    "The certified recursion has no steady state here. Sample more devices or shorten the period.";

  /* The smallest value on ever finer log grids, each around the best point of the last. */
  function minimise(objective, centre, widths, cap) {
    let best = Infinity;
    for (const width of widths) {
      const factors = linspace(-width, width, POINTS).map((power) => 10 ** power);
      const axes = centre.map((coordinate) => factors.map((factor) => coordinate * factor));
      axes[0] = axes[0].map((eta) => Math.min(eta, cap));
      centre = axes.map((axis) => axis[0]);
      best = Infinity;
      for (const eta of axes[0])
        for (const alpha of axes[1])
          for (const rho of axes[2]) {
            const value = objective(eta, alpha, rho);
            if (value < best) {
              best = value;
              centre = [eta, alpha, rho];
            }
          }
    }
    return [best, centre];
  }

  function startOf(x, recursion) {
    const psi = coefficients(x, "s2a", "repaired", recursion.convex);
    const c = total(Object.values(psi.c)), e = total(Object.values(psi.e));
    const forgotten = 1 - (1 - recursion.beta) ** 2 * delta(x.devices, x.sampled);
    const rho = Math.max(forgotten, 1 / x.devices) / (2 * recursion.H);
    return [bestStepsize(c, e, psi.d, x.epsilon), recursion.p / 2, rho];
  }

  const fewestWhenSteady = (x, recursion) =>
    minimise(
      (eta, alpha, rho) => recursion.enoughRounds(eta, alpha, rho),
      startOf(x, recursion),
      WIDE,
      recursion.largestStepsize
    );

  function certifiedRounds(x, beta, convex) {
    const recursion = new FullRecursion(x, beta, convex);
    let [enough, point] = fewestWhenSteady(x, recursion);
    if (enough === Infinity) {
      const reason = beta === 0 && x.sampled === 1 ? ONE_SAMPLED : NO_STEADY_STATE;
      return { rounds: Infinity, stepsize: NaN, beta, terms: {}, reason };
    }
    let rounds = Math.max(1, Math.ceil(enough * (1 + 1e-9)));
    for (let turn = 0; turn < 3; turn++) {
      const average = (eta, alpha, rho) => recursion.average(eta, alpha, rho, rounds);
      point = minimise(average, point, NEAR, recursion.largestStepsize)[1];
      rounds = fewest(recursion, point, rounds);
    }
    const terms = recursion.terms(...point, rounds);
    return { rounds, stepsize: point[0], beta, terms, reason: "" };
  }

  function fewest(recursion, point, enough) {
    let tooFew = 0;
    while (enough - tooFew > 1) {
      const middle = Math.floor((tooFew + enough) / 2);
      if (middle === tooFew || middle === enough) break; // beyond exact whole numbers
      if (recursion.average(...point, middle) <= recursion.epsilon) enough = middle;
      else tooFew = middle;
    }
    return enough;
  }

  function bestBlend(x, convex) {
    const enough = (beta) => fewestWhenSteady(x, new FullRecursion(x, beta, convex))[0];
    let beta = smallest(linspace(0, 1, 11), enough);
    for (const width of [0.1, 0.03]) {
      const near = linspace(-1, 1, 7).map((part) => clip(beta + width * part, 0, 1));
      beta = smallest(near, enough);
    }
    const found = [0, 1, beta].map((one) => certifiedRounds(x, one, convex));
    return smallest(found, (certificate) => certificate.rounds);
  }

  // communication.py and rounds_and_messages.py: rounds and messages of one primitive

  const serverRoundCost = (primitive, n, K) => K + (primitive === "s2s" ? K : n);

  /* beta: that of blend, or "best". */
  function ask(x, primitive, mode, convex, beta = 0.5) {
    if (mode === "certified") {
      const place = { s2s: 0, s2a: 1 }[primitive] ?? beta;
      const found = place === "best" ? bestBlend(x, convex) : certifiedRounds(x, place, convex);
      const sends = found.beta === 0 ? "s2s" : primitive;
      return { ...found, primitive, messages: messagesOf(x, sends, found.rounds - 1, false) };
    }
    const found = bound(x, primitive, mode, convex);
    const smooth = found.horizon === null;
    const messages = messagesOf(x, primitive, smooth ? found.rounds : found.horizon, smooth);
    return { ...found, primitive, beta: null, messages };
  }

  function messagesOf(x, primitive, rounds, smooth) {
    const serverRounds = rounds / x.period;
    return serverRoundCost(primitive, x.devices, x.sampled) * (smooth ? serverRounds : Math.ceil(serverRounds));
  }

  // crossings.py: who is cheapest along an axis, and where that changes

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

  // Small helpers

  const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  const clip = (value, low, high) => Math.min(Math.max(value, low), high);
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

  // The page: what can be set

  const SLIDERS = [
    { name: "devices", label: "devices", symbol: "n", low: 2, high: 10000, whole: true },
    { name: "sampled", label: "sampled by the server", symbol: "K", low: 1, whole: true },
    { name: "period", label: "server period", symbol: "H", low: 1, high: 1000, whole: true },
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
  const SOURCES = {
    experiment: "from the experiment",
    network: "of its network",
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
    return [...new Set(stops)].sort((left, right) => left - right);
  }

  /* Where curves are computed along an axis, the present value among them. */
  function valuesAlong(one, x, count) {
    const [low, high] = limits(one, x);
    const powers = linspace(Math.log10(low), Math.log10(high), count);
    const spread = powers.map((power) => clip(10 ** power, low, high));
    const even = linspace(low, high, count);
    const along = one.whole ? [...spread, ...even].map(Math.round) : spread;
    const here = x[one.name] > 0 ? [x[one.name]] : [];
    return [...new Set([...along, ...here])].sort((left, right) => left - right);
  }

  /* A number that the theory can take: within its laws, whole where it must be. */
  function lawful(one, value, x) {
    if (!Number.isFinite(value)) return null;
    if (one.whole) value = Math.round(value);
    if (one.name === "sampled" || one.name === "components") return clip(value, 1, x.devices);
    if (one.name === "p" || one.name === "beta") value = Math.min(value, 1);
    if (one.whole) return Math.max(value, one.low);
    if (one.zero || one.linear) return Math.max(value, 0);
    return value > 0 ? value : null;
  }

  /* A setting with one value changed; what cannot be larger than n follows n. */
  function changed(x, name, value) {
    const next = { ...x, [name]: value };
    next.sampled = Math.min(next.sampled, next.devices);
    const islands = Array.isArray(x.components) ? x.components.length : x.components;
    if (name === "devices") next.components = Math.min(islands, next.devices);
    return next;
  }

  // The page: in words

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

  const percent = (share) => `${share < 0.1 ? digits(100 * share, 1) : Math.round(100 * share)} %`;
  const alike = (one, other) => one === other || Math.abs(one - other) <= 1e-12 * Math.abs(other);

  function comparison(measure, answers) {
    const [fewer, more] = answers.s2s[measure] < answers.s2a[measure] ? ["s2s", "s2a"] : ["s2a", "s2s"];
    const low = answers[fewer][measure], high = answers[more][measure];
    return { fewer, more, equal: alike(low, high), low, high, ratio: high / low };
  }

  /* Who needs fewer rounds and messages at this setting, and why, in one sentence. */
  function verdict(x, answers, mode) {
    const rounds = comparison("rounds", answers), messages = comparison("messages", answers);
    if (rounds.low === Infinity) return `Neither gets there. ${answers.s2a.reason || answers.s2s.reason}`;
    if (rounds.high === Infinity)
      return `Only ${NAMES[rounds.fewer]} gets there, in ${number(rounds.low)} rounds: ${answers[rounds.more].reason}`;
    if (rounds.equal && messages.equal)
      return `S2S and S2A are the same here, ${number(rounds.low)} rounds and ${number(messages.low)} messages: the server meets all ${number(x.devices)} devices.`;
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
    const share = total(own.map((term) => loser.terms[term])) / whole;
    if (mode !== "order" && share < 0.05 && loser.stepsize < answers[fewer].stepsize)
      return `its stepsize may be larger (${number(answers[fewer].stepsize)} against ${number(loser.stepsize)})`;
    const term = smallest(own, (name) => -loser.terms[name]);
    const part = percent(loser.terms[term] / whole), where = term.endsWith("intra") ? "inside" : "between";
    return more === "s2s"
      ? `S2S meets ${number(x.sampled)} of ${number(x.devices)} devices and leaves the others apart: disagreement ${where} islands makes up ${part} of its ${of}`
      : `the average that S2A hands to everybody depends on whom the server met: differences ${where} islands make this ${part} of its ${of}`;
  }

  /* Blend, beside the two; certified bounds only. */
  function blendInWords(answers) {
    const blend = answers.blend;
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

  /* The same question on the command line. */
  function command(x, mode, convex, beta) {
    const sizes = Array.isArray(x.components) ? x.components.join("+") : x.components;
    const options = {
      mode, devices: x.devices, components: sizes, sampled: x.sampled, period: x.period, p: x.p,
      "zeta-intra": x.zeta_intra, "zeta-inter": x.zeta_inter, sigma2: x.sigma2,
      smoothness: x.smoothness, "initial-error": x.initial_error, epsilon: x.epsilon,
      ...(mode === "certified" ? { beta } : {}),
    };
    const words = Object.entries(options).map(([name, value]) => `--${name} ${value}`);
    return ["skerry theory bounds", ...words, ...(convex ? ["--convex"] : [])].join(" ");
  }

  // The page: computing

  /* Answers at the setting, then along the axis, from coarse to fine; yields after every piece. */
  function* exploration({ x, mode, convex, axis, beta }) {
    const contenders = mode === "certified" ? ["s2s", "s2a", "blend"] : ["s2s", "s2a"];
    const known = new Map();
    const at = (value) => {
      if (!known.has(value)) {
        const setting = changed(x, axis, value);
        const answer = (primitive) => [primitive, ask(setting, primitive, mode, convex, beta)];
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
      const cross = left.winner !== TIE && right.winner !== TIE;
      if (!cross || costs(left.last).s2s === Infinity) continue;
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

  // The page: elements

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
    const marked = crossings ? crossings[measure] : [];
    traces.push({
      type: "scatter", mode: "markers+text", name: "S2S and S2A change places", visible: marked.length > 0,
      x: marked.map((one) => one.value), y: marked.map((one) => one.level),
      text: marked.map((one) => one.text), textposition: "top right", cliponaxis: false,
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
    const found = [blendInWords(here)];
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
    const asked = { x: { ...start.values }, mode: "order", convex: false, axis: "epsilon", beta: "best", chosen: start.values.beta };
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
    const beta = slider(BETA, id("beta"), SOURCES[start.sources.beta] ?? "", own("beta"), (chosen) => set({ chosen, beta: chosen }));
    const best = element("input", { type: "checkbox", id: id("best"), onchange: () => set({ beta: best.checked ? "best" : asked.chosen }) });
    const blend = element("div", { class: "explorer-blend" }, beta.row, element("label", { for: id("best") }, best, " the best β"));
    const axes = Object.fromEntries(AXES.map((name) => [name, `${spec(name).label} (${spec(name).symbol})`]));
    const choices = [
      choice(id("mode"), "Bound", MODES, (mode) => set({ mode })),
      choice(id("loss"), "Loss", { any: "any smooth f", convex: "convex f" }, (loss) => set({ convex: loss === "convex" })),
      choice(id("axis"), "Along", axes, (axis) => set({ axis })),
    ];
    const reset = element("button", { type: "button", text: "Back to the experiment", onclick: () => set({ x: { ...start.values }, chosen: start.values.beta, beta: "best" }) });
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
      const mine = ++turn, frozen = { ...asked };
      for (const one of [...sliders, ...more]) one.show(frozen.x);
      beta.show({ ...frozen.x, beta: frozen.chosen });
      best.checked = frozen.beta === "best";
      blend.hidden = frozen.mode !== "certified";
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

  return {
    delta, kappa, q, exchangeMatrix, sizesOf, bound, coefficients, certifiedRounds, bestBlend, ask,
    cheapest, stretches, verdict, mount,
  };
})();

if (typeof module !== "undefined" && module.exports) module.exports = SkerryExplorer;
