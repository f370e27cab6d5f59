"""The best stepsize, as one would choose it who tried several on the same seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skerry.analysis.statistics import best_place

if TYPE_CHECKING:
    import pandas as pd


def tuned(runs: "pd.DataFrame", column: str, by: Sequence[str] = ()) -> "pd.DataFrame":
    """The runs at the best stepsize of each group, for this very column."""
    if runs.empty:
        return runs
    group = runs.groupby([*by]).ngroup().to_numpy() if by else np.zeros(len(runs), dtype=int)
    stepsizes, place = np.unique(runs["stepsize"].to_numpy(dtype=float), return_inverse=True)
    seeds, seed = np.unique(runs["seed"].to_numpy(dtype=int), return_inverse=True)
    score_gpsr = np.full((group.max() + 1, 1, len(stepsizes), len(seeds)), np.nan)
    score_gpsr[group, 0, place, seed] = runs[column].to_numpy(dtype=float)
    ran_gpsr = np.zeros(score_gpsr.shape, dtype=bool)
    ran_gpsr[group, 0, place, seed] = True
    best: pd.DataFrame = runs[place == best_place(score_gpsr, ran_gpsr)[group, 0]]
    return best
