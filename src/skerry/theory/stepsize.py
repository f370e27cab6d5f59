"""The best constant stepsize, and the rounds that are enough with it: the least N for which some
eta up to 1/d makes r0/(eta N) + c eta + e eta^2 at most eps."""

import numpy as np

from skerry.theory.operators import Array


def best_stepsize(c: Array, e: Array, d: Array, eps: Array) -> Array:
    """The eta up to 1/d that maximises eps eta - c eta^2 - e eta^3, which is r0/N(eta)."""
    with np.errstate(divide="ignore"):
        return np.minimum(1 / d, eps / (c + np.sqrt(c**2 + 3 * e * eps)))


def best_rounds(r0: Array, c: Array, e: Array, d: Array, eps: Array) -> Array:
    """N at the best constant stepsize; never more than the tuning lemma asks for."""
    eta = best_stepsize(c, e, d, eps)
    return r0 / (eps * eta - c * eta**2 - e * eta**3)


def lemma_rounds(r0: Array, c: Array, e: Array, d: Array, eps: Array) -> Array:
    """The tuning lemma (Koloskova et al. 2020, Lemma 17), inverted: N = r0/y where
    2 sqrt(c y) + 2 e^(1/3) y^(2/3) + d y = eps; by bisection in log y."""
    # The root lies where the largest term alone is between eps/3 and eps.
    low, high = (np.log(_largest_term_at(x, c, e, d)) for x in (eps / 3, eps))
    for _ in range(60):
        middle = (low + high) / 2
        y = np.exp(middle)
        below = 2 * np.sqrt(c * y) + 2 * np.cbrt(e * y**2) + d * y < eps
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return r0 / np.exp((low + high) / 2)


def sufficient_rounds(r0: Array, c: Array, e: Array, d: Array, eps: Array) -> Array:
    """The tuning lemma with each of its three terms at most eps/3, in closed form."""
    return 36 * c * r0 / eps**2 + 6**1.5 * np.sqrt(e) * r0 / eps**1.5 + 3 * d * r0 / eps


def _largest_term_at(level: Array, c: Array, e: Array, d: Array) -> Array:
    """The y at which the largest of 2 sqrt(c y), 2 e^(1/3) y^(2/3) and d y equals `level`."""
    with np.errstate(divide="ignore"):
        by_c, by_e = np.divide((level / 2) ** 2, c), np.divide((level / 2) ** 1.5, np.sqrt(e))
    return np.minimum(np.minimum(by_c, by_e), level / d)
