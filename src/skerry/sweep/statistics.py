"""Numbers over seeds: mean, standard error and 95 % interval."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    mean: float
    standard_error: float
    half_width: float
    """Half of the 95 % confidence interval (Student's t); NaN for a single seed."""
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def estimate(values: Iterable[float]) -> Estimate:
    """Over the values that are there; diverged runs have none."""
    (found,) = estimates([list(values)])
    return found


def estimates(values_cs: ArrayLike) -> list[Estimate]:
    """One estimate per cell (row) over its seeds (columns); NaN marks a seed that is missing."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    mean_c, variance_c, count_c = moments(values_cs)
    with np.errstate(invalid="ignore", divide="ignore"):
        error_c = np.sqrt(variance_c / count_c)
        half_c = error_c * stdtrit(count_c - 1, 0.5 + CONFIDENCE / 2)
    columns = (mean_c.tolist(), error_c.tolist(), half_c.tolist(), count_c.tolist())
    return [Estimate(*row) for row in zip(*columns, strict=True)]


def moments(values_cs: ArrayLike) -> tuple[Array, Array, NDArray[np.int64]]:
    """Mean, variance (over count - 1) and count of the finite values in each row; NaN where
    there are too few values."""
    values = np.asarray(values_cs, dtype=float)
    there = np.isfinite(values)
    count_c: NDArray[Any] = there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_c = np.where(there, values, 0.0).sum(axis=1) / count_c
        apart = np.where(there, values - mean_c[:, None], 0.0)
        sum_of_squares = (apart**2).sum(axis=1)
        variance_c = np.where(count_c > 1, sum_of_squares / (count_c - 1), np.nan)
    return mean_c, variance_c, count_c
