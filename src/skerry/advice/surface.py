"""A statistical model of the score as a function of the setting, fitted to few noisy runs.

The score of setting e on seed s is m_e + b_s + noise. The mean m_e = phi_e w + u_e is a smooth
surface (ridge regression on quadratic features of the setting) plus an offset of its own. All three
variances are estimated. What is asked of the model are joint draws of all m_e from the posterior:
how often a setting is the best of a draw says where the next runs tell most.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RIDGE = 10.0  # prior deviation of a coefficient, relative to the spread of the scores
OFFSETS = np.geomspace(0.02, 1.0, 12)  # deviations of own offsets that are tried, likewise
BACKFITS = 20  # alternations of the two-way fit of settings and seeds


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


def fit(features_ep: Array, score_es: Array, noise_floor: float = 0.0) -> Surface:
    """Fit the surface to scores [settings, seeds], NaN where a setting was not run on a seed."""
    count_e, mean_e, noise = two_way(score_es)
    noise = max(noise, noise_floor)
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


def two_way(score_es: Array) -> tuple[Array, Array, float]:
    """Counts and means of settings without the effects of seeds, and the deviation of a run."""
    there_es = np.isfinite(score_es)
    filled_es = np.where(there_es, score_es, 0.0)
    count_e, count_s = there_es.sum(axis=1), there_es.sum(axis=0)
    seed_s = np.zeros(score_es.shape[1])
    mean_e = np.zeros(len(score_es))
    for _ in range(BACKFITS):
        mean_e = (filled_es - there_es * seed_s).sum(axis=1) / np.maximum(count_e, 1)
        seed_s = (filled_es - there_es * mean_e[:, None]).sum(axis=0) / np.maximum(count_s, 1)
        seed_s -= seed_s.mean()
    residual_es = np.where(there_es, filled_es - mean_e[:, None] - seed_s, 0.0)
    freedom = int(there_es.sum() - (count_e > 0).sum() - (count_s > 0).sum() + 1)
    noise = np.sqrt((residual_es**2).sum() / freedom) if freedom > 0 else 0.0
    return count_e.astype(float), mean_e, float(noise)
