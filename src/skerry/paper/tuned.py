"""The best stepsize, as one would choose it who tried several on the same seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def tuned(runs: "pd.DataFrame", column: str, by: Sequence[str] = ()) -> "pd.DataFrame":
    """The runs at the best stepsize of each group: the one that most seeds finished with, and
    among those the best mean over seeds of this very column."""
    score = runs.groupby([*by, "stepsize"])[column]
    rank = runs.assign(seeds=score.transform("count"), mean=score.transform("mean"))
    rising = rank.sort_values(["seeds", "mean"], na_position="first")
    groups = rising.groupby([*by]) if by else rising.groupby(lambda _: "all")
    best = groups["stepsize"].transform("last")
    return runs[runs["stepsize"] == best.reindex(runs.index)]
