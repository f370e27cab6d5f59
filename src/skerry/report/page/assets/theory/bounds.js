/* Theorems 1 and 2 as order, printed and repaired: skerry.theory.bounds, in its names; a test compares the
   two. */
"use strict";

const SkerryBounds = (() => {
  const { total, mapValues } = SkerryArithmetic;
  const { kappa, q } = SkerryServerRound;

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

  return { bound, coefficients, bestStepsize, ONE_SAMPLED };
})();
