"""Numbers over seeds: mean, standard error and 95 % interval."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

import numpy as np


@dataclass(frozen=True)
class Estimate:
    mean: float
    standard_error: float
    half_width: float
    """Half of the 95 % confidence interval (Student's t); NaN for a single seed."""
    count: int


def estimate(values: Iterable[float]) -> Estimate:
    """Over the values that are there; diverged runs have none."""
    from scipy import stats

    found = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    count = len(found)
    if count == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), 0)
    if count == 1:
        return Estimate(float(found[0]), float("nan"), float("nan"), 1)
    error = float(found.std(ddof=1)) / sqrt(count)
    return Estimate(float(found.mean()), error, error * float(stats.t.ppf(0.975, count - 1)), count)
