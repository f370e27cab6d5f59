"""The same runs done in two ways: what changes, paired by everything that both share."""

from typing import TYPE_CHECKING, NamedTuple

from skerry.analysis.statistics import Estimate, estimate
from skerry_paper.plan import BOTH
from skerry_paper.printed import CELL
from skerry_paper.study import Study

if TYPE_CHECKING:
    import pandas as pd

RUN = [*CELL, "scaling", "optimizer", "dynamic", "rounds", "primitive", "stepsize", "seed"]


class Change(NamedTuple):
    """Of one measure, other minus usual."""

    s2s: Estimate
    s2a: Estimate
    gap: Estimate
    """Of S2S minus S2A; over pairs of the same cell and seed."""
    usual: Estimate
    other: Estimate
    """The gaps themselves."""
    same_sign: int
    """Pairs whose gap has the same sign in both ways."""


def change(usual: Study, other: Study, column: str) -> Change | None:
    """None where no run is in both."""
    if not {column} <= {*usual.runs} & {*other.runs}:
        return None
    both = usual.runs[[*RUN, column]].merge(other.runs[[*RUN, column]], on=RUN, suffixes=("", "_2"))
    if both.empty:
        return None
    both["change"] = both[f"{column}_2"] - both[column]
    keys = [name for name in RUN if name != "primitive"]
    gap, gap_2 = (_gaps(both, keys, name) for name in (column, f"{column}_2"))
    s2s, s2a = (estimate(both.loc[both["primitive"] == name, "change"]) for name in BOTH)
    return Change(
        s2s=s2s,
        s2a=s2a,
        gap=estimate(gap_2 - gap),
        usual=estimate(gap),
        other=estimate(gap_2),
        same_sign=int((gap * gap_2 > 0).sum()),
    )


def _gaps(runs: "pd.DataFrame", keys: list[str], column: str) -> "pd.Series[float]":
    wide = runs.pivot_table(index=keys, columns="primitive", values=column).reindex(
        columns=list(BOTH)
    )
    found: pd.Series[float] = wide["s2s"] - wide["s2a"]
    return found
