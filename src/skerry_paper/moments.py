"""Scores in rounds of choice: just before and just after a server round, and at the end."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from skerry_paper.study import Study, final

if TYPE_CHECKING:
    import pandas as pd

Moment = Literal["before", "after", "end"]
MOMENTS: dict[Moment, str] = {
    "end": "final round",
    "after": "just after the last server round",
    "before": "just before it",
}
MEASURES = ("own_accuracy", "average_accuracy")


def last_server_round(period: int, rounds: int) -> int:
    """The last t < rounds with t mod period = 0; what it leaves is recorded in row t + 1."""
    return (rounds - 1) // period * period


def at_moment(study: Study, moment: Moment) -> Study:
    """As if it had been scored then: `final` is the value of that round."""
    wanted = {
        number: _round(moment, int(row["period"]), int(row["rounds"]))
        for number, row in study.runs.iterrows()
    }
    lines = study.curves[study.curves["round"] == study.curves["run"].map(wanted)]
    found = lines.set_index("run").reindex(study.runs.index)
    scores = {final(name): found[name] for name in MEASURES if name in found}
    return replace(study, runs=study.runs.assign(**scores))


def _round(moment: Moment, period: int, rounds: int) -> int:
    server = last_server_round(period, rounds)
    return {"before": server, "after": server + 1, "end": rounds}[moment]


def gaps_since_server_round(study: Study, measure: str) -> "pd.DataFrame":
    """S2S minus S2A by cell, seed and rounds `since` the last server round (1 is what it left), a
    mean over the periods that were looked at."""
    told = study.runs[["intra", "inter", "topology", "share", "period", "primitive", "seed"]]
    lines = study.curves[["run", "round", measure]].join(told, on="run")
    lines = lines.assign(since=(lines["round"] - 1) % lines["period"] + 1)
    keys = ["intra", "inter", "topology", "share", "period", "seed", "since"]
    wide = lines.pivot_table(index=keys, columns="primitive", values=measure)
    return (wide["s2s"] - wide["s2a"]).rename("gap").reset_index()
