/* The bounds of skerry.theory, in its names; a test compares the two. Nothing here knows of a page. */
"use strict";

const SkerryBounds = (() => {
  const { delta, kappa, q, exchangeUnder, refusal, total } = SkerryServerRound;

  // Parameters

  /* Devices in each component: as given, or as equal as possible. */
  function sizesOf(x) {
    if (Array.isArray(x.components)) return x.components;
    const small = Math.floor(x.devices / x.components), larger = x.devices % x.components;
    return Array.from({ length: x.components }, (_, c) => small + (c < larger ? 1 : 0));
  }

  // Theorems 1 and 2 as order, printed and repaired

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

  // The recursion of disagreement, which leaves nothing out

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
      const { kappas, M } = exchangeUnder(x.selection ?? "uniform", sizes, x.sampled);
      const largest = Math.max(...kappas);
      this.M = M.map((entry) => (1 - beta) ** 2 * entry);
      this.kappa = beta ** 2 * largest;
      this.turned = largest > 0 ? kappas.map((one) => one / largest) : [1, 1];
      this.largestStepsize = 1 / (4 * x.smoothness);
    }

    /* The bound on the average over `rounds` rounds. */
    average(eta, alpha, rho, rounds) {
      const { withServer, plain } = this.steps(eta, alpha, rho);
      const rest = rounds % this.H;
      const state = repeated(this.period(withServer, plain), Math.floor(rounds / this.H));
      if (rest) then(state, state, then(withServer, withServer, repeated(plain, rest - 1)));
      const found = this.r0 / (eta * rounds) + this.noise * eta + state[8] / rounds;
      return Number.isNaN(found) ? Infinity : found;
    }

    /* Rounds that are enough in the periodic steady state, in closed form. */
    enoughRounds(eta, alpha, rho) {
      const { withServer, plain } = this.steps(eta, alpha, rho);
      const period = this.period(withServer, plain), r01 = period[1], r10 = period[2];
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
      const cost = (of, sampling) => {
        const part = Object.assign(Object.create(FullRecursion.prototype), this);
        part.r0 = part.noise = 0;
        part.zeta2 = this.zeta2.map((z, i) => z * of[i]);
        part.kappa = sampling;
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
      const [m00, m01, m10, m11] = this.M, [t0, t1] = this.turned;
      const plain = new Float64Array(SIZE), withServer = new Float64Array(SIZE);
      plain[0] = p00;
      plain[1] = p01;
      plain[2] = p10;
      plain[3] = p11;
      plain[4] = g0;
      plain[5] = g1;
      plain[6] = plain[7] = perDisagreement;
      withServer[0] = m00 * p00 + m01 * p10;
      withServer[1] = m00 * p01 + m01 * p11;
      withServer[2] = m10 * p00 + m11 * p10;
      withServer[3] = m10 * p01 + m11 * p11;
      withServer[4] = m00 * g0 + m01 * g1;
      withServer[5] = m10 * g0 + m11 * g1;
      withServer[6] = perDisagreement + perBias * (t0 * p00 + t1 * p10);
      withServer[7] = perDisagreement + perBias * (t0 * p01 + t1 * p11);
      withServer[8] = perBias * (t0 * g0 + t1 * g1);
      return { withServer, plain };
    }

    period(withServer, plain) {
      return then(new Float64Array(SIZE), withServer, repeated(plain, this.H - 1));
    }
  }

  // Certified: the recursion, minimised over stepsize, alpha and rho

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

  // Rounds and messages of one primitive

  const serverRoundCost = (primitive, n, K) => K + (primitive === "s2s" ? K : n);

  /* beta: that of a blend, or "best". */
  function ask(x, primitive, mode, convex, beta = 0.5) {
    if (mode === "certified") {
      const refused = refusal(x.selection ?? "uniform", sizesOf(x), x.sampled);
      if (refused) return { primitive, rounds: Infinity, messages: Infinity, stepsize: NaN, beta: NaN, terms: {}, reason: refused, refused };
      const dial = { s2s: 0, s2a: 1 }[primitive] ?? beta;
      const found = dial === "best" ? bestBlend(x, convex) : certifiedRounds(x, dial, convex);
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

  // Who is cheapest along an axis, and where that changes

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

  return {
    ask, sizesOf, serverRoundCost, stretches, runs, TIE,
    total, clip, mapValues, linspace, smallest,
  };
})();
