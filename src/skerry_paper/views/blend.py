"""The dial between S2S and S2A: what each beta is worth for the average model and for devices."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from skerry.report.figures.fronts import front
from skerry.report.figures.panels import Panel
from skerry.report.figures.series import labelled, with_known_labels
from skerry.report.text import NOTHING, Sheet
from skerry_paper.blends import (
    ASSUMES,
    BY_THEORY,
    DIAL_CELL,
    GOALS,
    best_betas,
    dial,
    theory_betas,
)
from skerry_paper.printed import REGIMES
from skerry_paper.protocol import SCORED
from skerry_paper.study import Study, at_best_stepsize, lately
from skerry_paper.targets import Target
from skerry_paper.views.formatting import (
    out_of,
    plain_number,
    regime_short,
    regime_words,
    with_error,
)
from skerry_paper.views.view import Picture, View, not_run, page_figure

X, Y = GOALS
NOTE = (
    "Each β of a picture is at the stepsize that is best for the mean of both goals; bars are 95 % "
    "intervals over seeds. In the tables each β is at the stepsize that is best for that goal. "
    "Lead: what the best β has more than the better of S2S (β = 0) and S2A (β = 1), paired by "
    "seed, ± standard error. The best of several betas is picked, so a lead of about one standard "
    "error may be luck."
)


def blend(target: Target, studies: Mapping[str, Study]) -> View:
    """A picture per topology, a table per goal."""
    (study,) = studies.values()
    table = dial(study)
    best = theory_betas(best_betas(table), table, study.constants)
    told = "; ".join(f"{SCORED[goal]} {_wins(best[best['goal'] == goal])}" for goal in GOALS)
    verdict = f"Settings in which a blend beats both S2S and S2A by its standard error: {told}."
    pictures = [_picture(target, study, topology) for topology in study.runs["topology"].unique()]
    sheets = [_sheet(best[best["goal"] == goal], goal) for goal in GOALS]
    theory = [_theory_sheet(best[best["goal"] == X])]
    theory += [] if study.constants is None else [_constants_sheet(study.constants)]
    verdict += _cost_of_theory(best)
    return View(target, verdict, (*pictures, *sheets, NOTE, *theory, ASSUMES))


def _cost_of_theory(best: pd.DataFrame) -> str:
    """What following the theory would cost, if its constants were measured."""
    followed = best[best["certified_cost"].notna()]
    if followed.empty:
        return ""
    measured, assumed = (
        f"{cost.mean():.2f} (at most {cost.max():.2f})"
        for cost in (followed["certified_cost"], followed["assumed_cost"])
    )
    return (
        f" Following the theory costs the average model {measured} points with the constants of "
        f"these problems, {assumed} with constants of one."
    )


def _constants_sheet(constants: pd.DataFrame) -> Sheet:
    """A row per problem."""
    rows = tuple(
        (
            regime_short(one["intra"], one["inter"]),
            one["topology"],
            *(f"{one[name]:.3g}" for name in ("smoothness", "initial_error")),
            *(f"{one[name] ** 0.5:.2f}" for name in ("zeta_intra2", "zeta_inter2")),
            *(f"{one[name]:.3g}" for name in ("sigma2", "p")),
        )
        for one in constants.to_dict("records")
    )
    header = ("intra / inter", "topology", "L", "f0", "ζ intra", "ζ inter", "σ²", "p")
    return Sheet("The theory's constants on these problems", header, rows, "llrrrrrr")


def _wins(best: pd.DataFrame) -> str:
    return out_of(int(best["middle_wins"].sum()), len(best))


def _picture(target: Target, study: Study, topology: str) -> Picture:
    about = f"{target.title}, {topology}"
    return Picture(f"{target.name}-{topology}", _figure(study.of(topology=topology), about), about)


def _front_frame(study: Study) -> pd.DataFrame:
    """Both goals of every run at the stepsize that is best for their mean."""
    runs = study.runs.rename(columns={lately(goal): goal for goal in GOALS})
    both = runs.assign(both=runs[list(GOALS)].mean(axis=1))
    runs = at_best_stepsize(both, "both", [*DIAL_CELL, "beta"])
    return with_known_labels(labelled(runs), "label")


def _figure(study: Study, title: str) -> Figure:
    frame = _front_frame(study)
    periods = sorted(frame["period"].unique())
    panels = []
    for intra, inter in REGIMES.values():
        for period in periods:
            part = frame[
                (frame["intra"] == intra) & (frame["inter"] == inter) & (frame["period"] == period)
            ]
            words = f"{regime_words(intra, inter)}, H = {period}"
            there = part[list(GOALS)].notna().all(axis=1).any()
            panels.append(Panel(words, partial(front, part, x=X, y=Y) if there else not_run))
    return page_figure(panels, columns=len(periods), height=2.1, title=title)


def _sheet(best: pd.DataFrame, goal: str) -> Sheet:
    header = ("intra / inter", "topology", "H", "best β", "accuracy", "better end", "lead")
    rows = tuple((*_setting(row), *_found(row)) for row in _in_order(best))
    title = f"Best β for the {SCORED[goal]}" if goal == X else f"Best β for {SCORED[goal]}"
    return Sheet(title, header, rows, "llrrrlr")


def _theory_sheet(best: pd.DataFrame) -> Sheet:
    """Theory's betas beside the best one, each with what it costs."""
    named = ("one server round", "certified", "constants 1")
    header = ("intra / inter", "topology", "H", "best β", *named)
    rows = tuple(
        (*_setting(row), f"{row['beta']:g}", *(_with_cost(row, name) for name in BY_THEORY))
        for row in _in_order(best)
    )
    return Sheet("β by theory, average model", header, rows, "llrrrrr")


def _with_cost(row: Mapping[str, Any], name: str) -> str:
    """`0.91 (0.04)`."""
    beta, cost = plain_number(row[name]), plain_number(row[f"{name}_cost"])
    return beta if beta == NOTHING else f"{beta} ({cost})"


def _in_order(best: pd.DataFrame) -> list[Any]:
    order = list(REGIMES.values())
    rows: list[Any] = best.to_dict("records")
    return sorted(
        rows,
        key=lambda row: (order.index((row["intra"], row["inter"])), row["topology"], row["period"]),
    )


def _setting(row: Mapping[str, Any]) -> tuple[str, ...]:
    return regime_short(row["intra"], row["inter"]), row["topology"], str(row["period"])


def _found(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['beta']:g}",
        with_error(row["mean"], row["se"]).lstrip("+"),
        row["end"].upper() if isinstance(row["end"], str) else NOTHING,
        with_error(row["lead"], row["lead_se"]),
    )
