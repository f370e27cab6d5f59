/* Certified rounds: the recursion, minimised over stepsize, alpha and rho, as skerry.theory.certified does. */
"use strict";

const SkerryCertified = (() => {
  const { total, clip, linspace, smallest } = SkerryArithmetic;
  const { delta } = SkerryServerRound;
  const { coefficients, bestStepsize, ONE_SAMPLED } = SkerryBounds;
  const { FullRecursion } = SkerryFullRecursion;

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

  return { certifiedRounds, bestBlend };
})();
