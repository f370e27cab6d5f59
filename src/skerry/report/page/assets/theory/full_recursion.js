/* The recursion of disagreement, which leaves nothing out: skerry.theory.full_recursion, in its names; a
   test compares the two. */
"use strict";

const SkerryFullRecursion = (() => {
  const { exchangeUnder, sizesOf } = SkerryServerRound;

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

  return { FullRecursion };
})();
