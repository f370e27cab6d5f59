"""When devices are scored: the gap round by round since the last server round, and how far each
moment meets the printed tables."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skerry.report.figures.panels import Panel
from skerry.report.style import GREY
from skerry.report.text import Sheet
from skerry_paper.agreement import agreement, guesses, printed_of
from skerry_paper.printed import CELL
from skerry_paper.protocol import SCORED, SHOWN_SCORINGS, Protocol, gaps
from skerry_paper.study import Study, final
from skerry_paper.targets import Target
from skerry_paper.views.formatting import (
    AGREEMENT_HEADER,
    AGREEMENT_NOTE,
    AGREEMENT_SIDES,
    agreement_cells,
    dataset_words,
    out_of,
    plain_number,
    with_error,
)
from skerry_paper.views.variants import Change, change
from skerry_paper.views.view import Picture, View, not_run, page_figure

EACH_ROUND = ("mnist-each-round", "cifar10-each-round")
ALL_SAMPLES, USUAL = "cifar10-all-samples", "cifar10"
NOTE = (
    "Server rounds are t = 0, H, 2H, ...; of 100 rounds the last one lies 5, 10, 10 and 20 rounds "
    "before the end for H = 5, 10, 15 and 20, so that, but for H = 15, the final round of the "
    "paper is the last of a period, where S2A's devices have had the longest time to become their "
    "own again. Stepsize 0.1."
)
PICTURED = (
    "The gap by rounds since the last server round, means over the cells at K/n = 0.2 in which "
    "islands differ, all seeds; rounds 80 to 100. 1 is the round that the server has just left."
)


def timing(target: Target, studies: Mapping[str, Study]) -> View:
    """A table per data set, a row per moment; a picture of what lies between server rounds."""
    looked = {name: studies[name] for name in EACH_ROUND if name in studies}
    parts: list[str | Sheet | Picture] = []
    verdicts = []
    if looked:
        about = "S2S minus S2A by rounds since the last server round, islands that differ"
        parts += [Picture(target.name, _figure(looked, about), about), PICTURED]
    for study in looked.values():
        sheet, told = _moments(study)
        parts.append(sheet)
        verdicts.append(told)
    parts += [AGREEMENT_NOTE, NOTE] if looked else []
    if ALL_SAMPLES in studies and USUAL in studies:
        parts += [_all_samples(studies[USUAL], studies[ALL_SAMPLES])]
    return View(target, " ".join(verdicts) or "Only the final round was looked at.", tuple(parts))


def _moments(study: Study) -> tuple[Sheet, str]:
    dataset = dataset_words(study.runs["dataset"].iloc[0])
    printed = printed_of(study.runs["dataset"].iloc[0])
    printed = printed.merge(study.runs[CELL].drop_duplicates(), on=CELL)
    rows, told = [], []
    for scoring in SHOWN_SCORINGS:
        away = []
        for moment, words in MOMENTS.items():
            found = gaps([at_moment(study, moment)], Protocol(scoring, "final", 0.1, "standard"))
            met = agreement(found, printed)
            mean = found.loc[found["inter"] == "non-iid", "gap"].mean()
            rows.append((SCORED[scoring], words, plain_number(mean), *agreement_cells(met)))
            away.append(f"{words} {plain_number(met.rms)}")
        told.append(f"{SCORED[scoring]} {', '.join(away)}")
    rows += [(name, "", "", *agreement_cells(met)) for name, met in guesses(printed).items()]
    title = f"{dataset}: when it is scored, {len(printed)} printed cells"
    header = ("scored", "when", "mean gap, islands differ", *AGREEMENT_HEADER)
    sheet = Sheet(title, header, tuple(rows), f"llr{AGREEMENT_SIDES}")
    return sheet, f"{dataset}, points away from the printed gaps: {'; '.join(told)}."


def _all_samples(usual: Study, other: Study) -> Sheet:
    """Devices on all test samples beside 1,000 of them, in the final round."""
    rows = []
    for scoring in SHOWN_SCORINGS:
        if found := change(usual, other, final(scoring)):
            rows.append((SCORED[scoring], *_changed(found)))
    header = ("scored", "gap, 1,000 samples", "gap, all 10,000", "change of the gap", "same sign")
    title = "CIFAR-10, final round: devices on all test samples"
    return Sheet(title, header, tuple(rows), "lrrrr")


def _changed(found: Change) -> tuple[str, ...]:
    return (
        with_error(found.usual.mean, found.usual.standard_error),
        with_error(found.other.mean, found.other.standard_error),
        with_error(found.gap.mean, found.gap.standard_error),
        out_of(found.same_sign, found.gap.count),
    )


def _figure(looked: Mapping[str, Study], title: str) -> Figure:
    panels = []
    for scoring in SHOWN_SCORINGS:
        for study in looked.values():
            found = gaps_since_server_round(study, scoring)
            found = found[(found["inter"] == "non-iid") & (found["share"].round(6) == 0.2)]
            words = f"{dataset_words(study.runs['dataset'].iloc[0])}, {SCORED[scoring]}"
            panels.append(Panel(words, partial(_lines, found=found) if len(found) else not_run))
    return page_figure(panels, columns=len(looked), height=2.2, title=title)


def _lines(axis: Axes, found: pd.DataFrame) -> None:
    periods = sorted(found["period"].unique())
    for number, period in enumerate(periods):
        mean = found[found["period"] == period].groupby("since")["gap"].mean()
        shade = colormaps["viridis"](0.85 * number / max(1, len(periods) - 1))
        axis.plot(mean.index, mean, "o-", markersize=2.5, color=shade, label=f"H = {period:g}")
    axis.axhline(0, color=GREY, linewidth=0.6)
    axis.set_xlabel("rounds since the last server round")
    axis.set_ylabel("S2S minus S2A (points)")
    axis.grid(alpha=0.25, linewidth=0.5)


# Scores in chosen rounds


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


def gaps_since_server_round(study: Study, measure: str) -> pd.DataFrame:
    """S2S minus S2A by cell, seed and rounds `since` the last server round (1 is what it left), a
    mean over the periods that were looked at."""
    told = study.runs[["intra", "inter", "topology", "share", "period", "primitive", "seed"]]
    lines = study.curves[["run", "round", measure]].join(told, on="run")
    lines = lines.assign(since=(lines["round"] - 1) % lines["period"] + 1)
    keys = ["intra", "inter", "topology", "share", "period", "seed", "since"]
    wide = lines.pivot_table(index=keys, columns="primitive", values=measure)
    return (wide["s2s"] - wide["s2a"]).rename("gap").reset_index()
