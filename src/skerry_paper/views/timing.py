"""View of timing: the gap by rounds since the last server round, and its agreement by timing."""

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
from skerry_paper.agreement import agreement, baselines, printed_of
from skerry_paper.printed import CELL
from skerry_paper.protocol import SCORINGS, SHOWN_SCORINGS, Protocol, cell_gaps
from skerry_paper.study import Studies, StudyData, final_column
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.variants import paired_change
from skerry_paper.views.view import NamedFigure, View, not_run, page_figure

EACH_ROUND = ("mnist-each-round", "cifar10-each-round")
ALL_SAMPLES, USUAL = "cifar10-all-samples", "cifar10"
NOTE = (
    "Server rounds are t = 0, H, 2H, ... Of 100 rounds the last server round is 5, 10, 10 and 20 "
    "rounds before the end for H = 5, 10, 15 and 20. So, except for H = 15, the paper's final "
    "round is the last round of a period, when the devices of S2A have trained longest on their "
    "own data. Stepsize 0.1."
)
FIGURE_NOTE = (
    "The gap by rounds since the last server round (1: right after it): means over the cells with "
    "K/n = 0.2 in which islands differ, over all seeds and rounds 80 to 100."
)


def timing_view(target: Target, studies: Studies) -> View:
    """A figure of the gap between server rounds, and a table per data set with a row per timing."""
    recorded = {name: studies[name] for name in EACH_ROUND if name in studies}
    parts: list[str | Sheet | NamedFigure] = []
    verdicts = []
    if recorded:
        about = "S2S minus S2A by rounds since the last server round, islands that differ"
        parts += [NamedFigure(target.name, _figure(recorded, about), about), FIGURE_NOTE]
    for study in recorded.values():
        sheet, verdict = _moments(study)
        parts.append(sheet)
        verdicts.append(verdict)
    parts += [fmt.AGREEMENT_NOTE, NOTE] if recorded else []
    if ALL_SAMPLES in studies and USUAL in studies:
        parts += [_all_samples(studies[USUAL], studies[ALL_SAMPLES])]
    return View(target, " ".join(verdicts) or "Only the final round was evaluated.", tuple(parts))


def _moments(study: StudyData) -> tuple[Sheet, str]:
    dataset = fmt.dataset_name(study.runs["dataset"].iloc[0])
    printed = printed_of(study.runs["dataset"].iloc[0])
    printed = printed.merge(study.runs[CELL].drop_duplicates(), on=CELL)
    rows, distances = [], []
    for scoring in SHOWN_SCORINGS:
        parts = []
        for moment, words in MOMENTS.items():
            protocol = Protocol(scoring, "final", 0.1, "standard")
            found = cell_gaps([score_at(study, moment)], protocol)
            met = agreement(found, printed)
            mean = found.loc[found["inter"] == "non-iid", "gap"].mean()
            rows.append((SCORINGS[scoring], words, fmt.decimal(mean), *fmt.agreement_cells(met)))
            parts.append(f"{words} {fmt.decimal(met.rms)}")
        distances.append(f"{SCORINGS[scoring]} {', '.join(parts)}")
    rows += [(name, "", "", *fmt.agreement_cells(met)) for name, met in baselines(printed).items()]
    title = f"{dataset}: agreement by timing, {len(printed)} printed cells"
    header = ("scored", "when", "mean gap, islands differ", *fmt.AGREEMENT_HEADER)
    sheet = Sheet(title, header, tuple(rows), f"llr{fmt.AGREEMENT_SIDES}")
    return sheet, f"{dataset}, distance from the printed gaps in points: {'; '.join(distances)}."


def _all_samples(usual: StudyData, other: StudyData) -> Sheet:
    """Devices scored on all test samples instead of 1,000, in the final round."""
    rows = []
    for scoring in SHOWN_SCORINGS:
        if found := paired_change(usual, other, final_column(scoring)):
            gaps = map(fmt.estimate_text, (found.usual, found.other, found.gap))
            same = fmt.out_of(found.same_sign, found.gap.count)
            rows.append((SCORINGS[scoring], *gaps, same))
    header = ("scored", "gap, 1,000 samples", "gap, all 10,000", "change of the gap", "same sign")
    title = "CIFAR-10, final round: devices scored on all test samples"
    return Sheet(title, header, tuple(rows), "lrrrr")


def _figure(recorded: Studies, title: str) -> Figure:
    panels = []
    for scoring in SHOWN_SCORINGS:
        for study in recorded.values():
            found = gaps_since_server_round(study, scoring)
            found = found[(found["inter"] == "non-iid") & (found["share"].round(6) == 0.2)]
            words = f"{fmt.dataset_name(study.runs['dataset'].iloc[0])}, {SCORINGS[scoring]}"
            panels.append(Panel(words, partial(_lines, found=found) if len(found) else not_run))
    return page_figure(panels, columns=len(recorded), height=2.2, title=title)


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


Moment = Literal["before", "after", "end"]
MOMENTS: dict[Moment, str] = {
    "end": "final round",
    "after": "just after the last server round",
    "before": "just before it",
}


def score_at(study: StudyData, moment: Moment) -> StudyData:
    """The study with its final scores replaced by those of another round."""
    rounds, period = study.runs["rounds"], study.runs["period"]
    server = (rounds - 1) // period * period  # the last server round; its result is in the next row
    wanted = {"before": server, "after": server + 1, "end": rounds}[moment]
    lines = study.curves[study.curves["round"] == study.curves["run"].map(wanted)]
    found = lines.set_index("run").reindex(study.runs.index)
    scores = {final_column(name): found[name] for name in SHOWN_SCORINGS if name in found}
    return replace(study, runs=study.runs.assign(**scores))


def gaps_since_server_round(study: StudyData, measure: str) -> pd.DataFrame:
    """S2S minus S2A by cell, seed and rounds `since` the last server round (1: right after it), as
    a mean over the recorded periods."""
    factors = study.runs[["intra", "inter", "topology", "share", "period", "primitive", "seed"]]
    lines = study.curves[["run", "round", measure]].join(factors, on="run")
    lines = lines.assign(since=(lines["round"] - 1) % lines["period"] + 1)
    keys = ["intra", "inter", "topology", "share", "period", "seed", "since"]
    wide = lines.pivot_table(index=keys, columns="primitive", values=measure)
    return (wide["s2s"] - wide["s2a"]).rename("gap").reset_index()
