"""View of figures 2 and 3: accuracy along K/n at H = 5, and along H at K/n = 0.2."""

from collections.abc import Mapping
from functools import partial
from math import isfinite, nan

import pandas as pd
from matplotlib.figure import Figure

from skerry.analysis.statistics import estimates
from skerry.report.figures.final_values import sensitivity
from skerry.report.figures.panels import Panel
from skerry.report.text import NOTHING, Sheet
from skerry_paper.plan import BOTH, DEVICES
from skerry_paper.printed import CELL, REGIMES, Along, along_axis, statements
from skerry_paper.protocol import SCORINGS, STATED, TIMINGS, Protocol, shown_protocols
from skerry_paper.study import Studies, StudyData, at_best_stepsize
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import NamedFigure, View, not_run, page_figure

FIELDS: dict[Along, str] = {"share": "server.sampled", "period": "server.period"}
"""The field of each axis, which figures of a store are labelled by."""
ENDS: dict[Along, tuple[float, float]] = {"share": (0.2, 1.0), "period": (5, 20)}
NOTE = (
    "Means over seeds with 95 % intervals, each seed at the stepsize that is best on the other "
    "seeds, for each cell and primitive. The figures are after 100 rounds, as the paper states. At "
    "K/n = 1 S2S and S2A are the same. The text's numbers are for both data sets together."
)


def accuracies_view(target: Target, studies: Studies) -> View:
    """A figure for each scoring, and the statements of the text."""
    (study,) = studies.values()
    means = {protocol: _mean_accuracies(study, protocol) for protocol in shown_protocols(study)}
    found = {protocol: _text_numbers(one) for protocol, one in means.items()}
    dataset = fmt.dataset_name(study.runs["dataset"].iloc[0])
    pictures = [
        _picture(target, dataset, protocol.scoring, one)
        for protocol, one in means.items()
        if protocol.timing == STATED
    ]
    gains = "; ".join(
        f"{protocol.short} "
        + " and ".join(fmt.signed_points(one[key]) for key in ("gain_share", "loss_period"))
        for protocol, one in found.items()
    )
    verdict = (
        "Change in accuracy from K/n = 0.2 to 1 and from H = 5 to 20 (the text: +2 and -2.4): "
        f"{gains or 'nothing was scored'}."
    )
    sheets = [
        _changes_sheet(one, f"Change along each axis, {protocol.short}, points")
        for protocol, one in means.items()
    ]
    note = f"{NOTE} {fmt.stepsizes_tried(study.runs['stepsize'])}"
    return View(target, verdict, (*pictures, _text_sheet(target, found), *sheets, note))


def _mean_accuracies(study: StudyData, protocol: Protocol) -> pd.DataFrame:
    """A row per cell and primitive, tuned: `mean` over seeds, and `high`, the upper end of its 95 %
    interval."""
    runs = study.runs[study.runs["primitive"].isin(BOTH)]
    runs = at_best_stepsize(runs, protocol.column, [*CELL, "primitive"])
    table = runs.pivot_table(index=[*CELL, "primitive"], columns="seed", values=protocol.column)
    found = estimates(table.to_numpy())
    return pd.DataFrame(
        {
            "measure": protocol.scoring,
            "mean": [one.mean for one in found],
            "high": [one.high for one in found],
        },
        index=table.index,
    ).reset_index()


def _picture(target: Target, dataset: str, scoring: str, means: pd.DataFrame) -> NamedFigure:
    what = f"{SCORINGS[scoring]}, {TIMINGS[STATED]}"
    about = f"{dataset}, {what}: accuracy of S2S and S2A along K/n and H"
    name = f"{target.name}-{scoring.removesuffix('_accuracy')}"
    return NamedFigure(name, _figure(means, about), about)


def _figure(means: pd.DataFrame, about: str) -> Figure:
    drawn = means.assign(
        **{"server.sampled": (DEVICES * means["share"]).round().astype(int),
           "server.period": means["period"]}
    )  # fmt: skip
    panels = []
    for intra, inter in REGIMES.values():
        regime = drawn[(drawn["intra"] == intra) & (drawn["inter"] == inter)]
        for along, field in FIELDS.items():
            part = along_axis(regime, along)
            draw = partial(sensitivity, part, field, lines="topology", devices=DEVICES)
            panels.append(Panel(fmt.regime_name(intra, inter), draw if len(part) else not_run))
    return page_figure(panels, columns=len(FIELDS), height=1.75, title=about)


def _text_numbers(means: pd.DataFrame) -> dict[str, float]:
    """Our values of the text's numbers about these figures, by key."""
    along_share, along_period = (_changes(means, along) for along in FIELDS)
    by_primitive = along_period.unstack("primitive").dropna()
    steeper = by_primitive.index[by_primitive["s2s"] < by_primitive["s2a"]]
    cells = along_axis(means, "period").pivot_table(
        index=["intra", "inter", "topology"], columns=["period", "primitive"], values="mean"
    )
    s2s, s2a = (cells.loc[steeper].xs(one, axis=1, level="primitive") for one in BOTH)
    return {
        "gain_share": float(along_share.mean()),
        "loss_period": float(along_period.mean()),
        "steeper_s2s": 100 * len(steeper) / len(by_primitive) if len(by_primitive) else nan,
        "steeper_s2s_wins": 100 * float((s2s > s2a).to_numpy().mean()) if len(steeper) else nan,
    }


def _text_sheet(target: Target, found: Mapping[Protocol, Mapping[str, float]]) -> Sheet:
    rows = tuple(
        (
            s.words,
            s.value_in_words,
            *(_number(one.get(s.key, nan), s.unit) for one in found.values()),
        )
        for s in statements(target.name)
    )
    header = ("", "the text", *(protocol.short for protocol in found))
    return Sheet("Statements of the text", header, rows, "lr" + "r" * len(found))


def _number(value: float, unit: str) -> str:
    if not isfinite(value):
        return NOTHING
    return f"{value:.0f} %" if unit == "%" else f"{fmt.signed_points(value)} p.p."


def _changes(means: pd.DataFrame, along: Along) -> "pd.Series[float]":
    """Accuracy at the last minus the first value of an axis, by regime, topology, primitive."""
    index = ["intra", "inter", "topology", "primitive"]
    part = along_axis(means, along)
    first, last = (
        part[part[along].round(6) == end].set_index(index)["mean"] for end in ENDS[along]
    )
    change: pd.Series[float] = last.subtract(first).dropna()
    return change


def _changes_sheet(means: pd.DataFrame, title: str) -> Sheet:
    """Mean changes over topologies."""
    tables = [
        _changes(means, along).groupby(["intra", "inter", "primitive"]).mean().to_dict()
        for along in FIELDS
    ]
    rows = tuple(
        (
            fmt.regime_short(*regime),
            *(
                fmt.signed_points(table.get((*regime, one), nan))
                for table in tables
                for one in BOTH
            ),
        )
        for regime in REGIMES.values()
    )
    header = ("intra / inter", "K/n: S2S", "K/n: S2A", "H: S2S", "H: S2A")
    return Sheet(title, header, rows, "lrrrr")
