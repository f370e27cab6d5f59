"""A statistical model of the score as a function of the setting, fitted to few noisy runs.

The score of setting e on seed s is m_e + b_s + noise. The mean m_e = phi_e w + u_e is a smooth
surface (ridge regression on quadratic features of the setting) plus an offset of its own. All three
variances are estimated. What is asked of the model are joint draws of all m_e from the posterior:
how often a setting is the best of a draw says where the next runs tell most.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RIDGE = 10.0  # prior deviation of a coefficient, relative to the spread of the scores
OFFSETS = np.geomspace(0.02, 1.0, 12)  # deviations of own offsets that are tried, likewise


@dataclass(frozen=True)
class Surface:
    """The posterior of the mean scores of all settings, tried or not."""

    features_ep: Array
    count_e: Array  # number of runs of each setting
    mean_e: Array  # mean score of a setting without the effects of its seeds; 0 if never tried
    noise: float  # deviation of a single run
    offset: float  # deviation of own offsets
    weights_p: Array  # posterior mean of w
    root_pp: Array  # a square root of the posterior covariance of w

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Joint draws [count, settings] of all mean scores from the posterior."""
        w_dp = self.weights_p + rng.standard_normal((count, len(self.weights_p))) @ self.root_pp.T
        smooth_de = w_dp @ self.features_ep.T
        shrink_e, deviation_e = self._offsets()
        own_de = rng.standard_normal(smooth_de.shape) * deviation_e
        return np.asarray(smooth_de + shrink_e * (self.mean_e - smooth_de) + own_de)

    def means(self) -> Array:
        """The posterior mean of every setting's score."""
        smooth_e = self.features_ep @ self.weights_p
        shrink_e, _ = self._offsets()
        return np.asarray(smooth_e + shrink_e * (self.mean_e - smooth_e))

    def _offsets(self) -> tuple[Array, Array]:
        """For each setting, the weight of its own runs against the surface, and the deviation of
        its offset given them."""
        own, runs_e = self.offset**2, self.noise**2 / np.maximum(self.count_e, 1e-9)
        shrink_e = own / (own + runs_e)
        return shrink_e, np.sqrt(own * (1 - shrink_e))


def fit(features_ep: Array, count_e: Array, mean_e: Array, noise: float) -> Surface:
    """Fit the surface to the mean scores of settings, each over this number of runs, with this
    deviation of a run; settings with no runs are predicted."""
    tried = count_e > 0
    phi, y, runs = features_ep[tried], mean_e[tried], count_e[tried]
    spread = float(y.std()) or 1.0
    centre = float(y.mean())
    best: tuple[float, Any] | None = None
    for offset in OFFSETS * spread:
        variance_e = offset**2 + noise**2 / runs
        root = phi / np.sqrt(variance_e)[:, None]
        precision = root.T @ root + np.eye(phi.shape[1]) / (RIDGE * spread) ** 2
        lower = np.linalg.cholesky(precision)
        target = phi.T @ ((y - centre) / variance_e)
        half = np.linalg.solve(lower, target)
        # The logarithm of the marginal likelihood, up to a constant.
        evidence = 0.5 * (half @ half - ((y - centre) ** 2 / variance_e).sum())
        evidence -= 0.5 * np.log(variance_e).sum() + np.log(np.diag(lower)).sum()
        if best is None or evidence > best[0]:
            best = float(evidence), (offset, lower, np.linalg.solve(lower.T, half))
    assert best is not None
    offset, lower, weights_p = best[1]
    weights_p = weights_p.copy()
    weights_p[0] += centre  # the first feature is 1
    root_pp = np.linalg.inv(lower).T
    return Surface(features_ep, count_e, mean_e, noise, float(offset), weights_p, root_pp)


@dataclass(frozen=True)
class TwoWay:
    """Scores as setting plus seed plus noise, by least squares."""

    count_e: Array
    mean_e: Array  # of settings, without the effects of seeds; 0 if never run
    seed_s: Array
    noise: float  # deviation of a run
    freedom: int  # degrees of freedom of its estimate


def two_way(score_es: Array, weight_e: Array | None = None) -> TwoWay:
    """Separate settings from seeds in scores [settings, seeds], NaN where not run. Settings may
    have weights up to 1; the noise is estimated from those with the weight 1."""
    there_es = np.isfinite(score_es)
    filled_es = np.where(there_es, score_es, 0.0)
    count_e = there_es.sum(axis=1)
    weight_e = np.ones(len(score_es)) if weight_e is None else weight_e
    weight_es = there_es * weight_e[:, None]
    share_es = there_es / np.maximum(count_e, 1)[:, None]
    raw_e = (share_es * filled_es).sum(axis=1)
    # Normal equations of the seeds' effects, after the settings are eliminated.
    matrix_ss = np.diag(weight_es.sum(axis=0)) - weight_es.T @ share_es
    right_s = (weight_es * (filled_es - raw_e[:, None])).sum(axis=0)
    seed_s = np.linalg.lstsq(matrix_ss, right_s, rcond=1e-10)[0]
    mean_e = raw_e - share_es @ seed_s
    full_es = there_es & (weight_e == 1)[:, None]
    residual_es = np.where(full_es, filled_es - mean_e[:, None] - seed_s, 0.0)
    settings, seeds = full_es.any(axis=1).sum(), full_es.any(axis=0).sum()
    freedom = max(0, int(full_es.sum() - settings - seeds + 1))
    noise = math.sqrt((residual_es**2).sum() / freedom) if freedom else 0.0
    return TwoWay(count_e.astype(float), mean_e, seed_s, noise, freedom)
