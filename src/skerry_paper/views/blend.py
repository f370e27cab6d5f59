"""View of blends between S2S and S2A: accuracy of the average model and of devices by beta."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from skerry.analysis.compare import LEVEL
from skerry.report.figures.final_values import front
from skerry.report.figures.panels import Panel
from skerry.report.figures.series import labelled, with_known_labels
from skerry.report.text import NOTHING, Sheet
from skerry_paper import blends
from skerry_paper.printed import REGIMES
from skerry_paper.protocol import SCORINGS
from skerry_paper.study import Studies, StudyData, at_best_stepsize, last_20_column
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import NamedFigure, View, not_run, page_figure

X, Y = blends.GOALS
MIDDLE = 0.5
"""The blend that the verdict names: halfway between S2S and S2A, chosen by nobody."""
NOTE = (
    "In the figures each β is at the stepsize that is best for the mean of both goals, in the "
    "tables at the one that is best for that goal. Every choice, of a stepsize or a β, is made for "
    "each seed on the other seeds; the most frequent β is shown. Lead: the best β strictly between "
    "0 and 1 minus the better of S2S (β = 0) and S2A (β = 1). Above the line: the largest distance "
    "of such a β from the straight line between S2S and S2A. Both are paired by seed; ± and bars "
    f"are 95 % intervals over seeds. Clear (*): a t test over seeds at level {LEVEL}, with Holm's "
    "correction over the settings of a table."
)
BEND_NOTE = (
    "Points above the straight line between S2S (β = 0) and S2A (β = 1), as a mean over the "
    "settings in which islands differ, ± half of the 95 % interval over seeds. No β is chosen "
    f"here. Clear (*): a t test over seeds at level {LEVEL}, with Holm's correction over the β and "
    "H of a goal. S2A in a share β of the runs and S2S in the others would lie on the "
    "line. {shares} Stepsizes are tuned for each goal."
)


def blend_view(target: Target, studies: Studies) -> View:
    """A figure per topology, a table per goal, and the theory's betas."""
    (study,) = studies.values()
    table = blends.blend_table(study)
    best = blends.theory_betas(blends.best_betas(table), table, study.constants)
    by_goal = {SCORINGS[goal]: best[best["goal"] == goal] for goal in blends.GOALS}
    wins = "; ".join(
        f"{name} {fmt.out_of(int(rows['middle_wins'].sum()), len(rows))}"
        for name, rows in by_goal.items()
    )
    verdict = f"Settings in which a blend clearly beats both S2S and S2A: {wins}."
    bent = blends.bends(table)
    verdict += _bend(bent)
    pictures = [_picture(target, study, topology) for topology in study.runs["topology"].unique()]
    sheets = [_sheet(best[best["goal"] == goal], goal) for goal in blends.GOALS]
    theory = [_theory_sheet(best[best["goal"] == X])]
    theory += [] if study.constants is None else [_constants_sheet(study.constants)]
    verdict += _cost_of_theory(best)
    note = NOTE + fmt.edges_sentence([table], primitives=1)
    bend = (_bend_sheet(bent), BEND_NOTE.format(shares=_shares(table))) if len(bent) else ()
    parts = (*bend, *pictures, *sheets, note, *theory, blends.THEORY_NOTE)
    return View(target, verdict, parts)


def _bend(bent: pd.DataFrame) -> str:
    """A sentence on how far the middle blend lies above the line from S2S to S2A, for each H."""
    parts = []
    for period, rows in bent[bent["beta"] == MIDDLE].groupby("period"):
        found = [f"{SCORINGS[row['goal']]} {_above(row)}" for row in rows.to_dict("records")]
        parts.append(f"at H = {period} {' and '.join(found)}")
    if not parts:
        return ""
    return (
        f" Where islands differ, β = {MIDDLE:g} lies above the straight line between S2S and S2A "
        f"by, in points, as a mean over settings: {'; '.join(parts)} (*: clear)."
    )


def _bend_sheet(bent: pd.DataFrame) -> Sheet:
    """A row per H and goal, a column per beta strictly between 0 and 1."""
    betas = sorted(bent["beta"].unique())
    rows = []
    for (period, goal), part in bent.groupby(["period", "goal"], sort=False):
        by_beta = {row["beta"]: row for row in part.to_dict("records")}
        cells = (_above(by_beta[beta]) if beta in by_beta else NOTHING for beta in betas)
        rows.append((str(period), SCORINGS[str(goal)], *cells))
    header = ("H", "scored", *(f"β = {beta:g}" for beta in betas))
    title = "Above the line between S2S and S2A, where islands differ"
    return Sheet(title, header, tuple(rows), "rl" + "r" * len(betas))


def _shares(table: pd.DataFrame) -> str:
    """A sentence on what the middle blend has of the gain and of the loss from S2S to S2A."""
    differ = table[table["inter"] == "non-iid"]
    parts = []
    for period, rows in differ.groupby("period"):
        means = rows.groupby(["goal", "beta"])["mean"].mean().unstack()
        if {0.0, MIDDLE, 1.0} <= set(means):
            way = (means[MIDDLE] - means[0.0]) / (means[1.0] - means[0.0])
            parts.append(
                f"at H = {period} β = {MIDDLE:g} has {way[X]:.0%} of what S2A gains over S2S for "
                f"the average model, and {way[Y]:.0%} of what S2A loses on own labels"
            )
    return f"Where islands differ, {'; '.join(parts)}." if parts else ""


def _above(row: Mapping[Any, Any]) -> str:
    return fmt.with_error(row["above"], row["half"]) + " *" * bool(row["clear"])


def _cost_of_theory(best: pd.DataFrame) -> str:
    """A sentence on the accuracy lost by following the theory, if its constants were measured."""
    followed = best[best["certified_cost"].notna()]
    if followed.empty:
        return ""
    measured, assumed = (
        f"{cost.mean():.2f} (at most {cost.max():.2f})"
        for cost in (followed["certified_cost"], followed["assumed_cost"])
    )
    return (
        f" Following the theory costs the average model {measured} points with measured constants, "
        f"{assumed} with constants of one."
    )


def _constants_sheet(constants: pd.DataFrame) -> Sheet:
    """The measured constants, a row per problem."""
    rows = tuple(
        (
            fmt.regime_short(one["intra"], one["inter"]),
            one["topology"],
            *(f"{one[name]:.3g}" for name in ("smoothness", "initial_error")),
            *(f"{one[name] ** 0.5:.2f}" for name in ("zeta_intra2", "zeta_inter2")),
            *(f"{one[name]:.3g}" for name in ("sigma2", "p")),
        )
        for one in constants.to_dict("records")
    )
    header = ("intra / inter", "topology", "L", "f0", "ζ intra", "ζ inter", "σ²", "p")
    return Sheet("The theory's constants on these problems", header, rows, "llrrrrrr")


def _picture(target: Target, study: StudyData, topology: str) -> NamedFigure:
    about = f"{target.title}, {topology}"
    return NamedFigure(
        f"{target.name}-{topology}", _figure(study.of(topology=topology), about), about
    )


def _front_frame(study: StudyData) -> pd.DataFrame:
    """Both goals of every run at the stepsize that is best for their mean."""
    runs = study.runs.rename(columns={last_20_column(goal): goal for goal in blends.GOALS})
    both = runs.assign(both=runs[list(blends.GOALS)].mean(axis=1))
    runs = at_best_stepsize(both, "both", [*blends.BLEND_CELL, "beta"])
    return with_known_labels(labelled(runs), "label")


def _figure(study: StudyData, title: str) -> Figure:
    frame = _front_frame(study)
    periods = sorted(frame["period"].unique())
    panels = []
    for intra, inter in REGIMES.values():
        for period in periods:
            part = frame[
                (frame["intra"] == intra) & (frame["inter"] == inter) & (frame["period"] == period)
            ]
            words = f"{fmt.regime_name(intra, inter)}, H = {period}"
            there = part[list(blends.GOALS)].notna().all(axis=1).any()
            panels.append(Panel(words, partial(front, part, x=X, y=Y) if there else not_run))
    return page_figure(panels, columns=len(periods), height=2.1, title=title)


def _sheet(best: pd.DataFrame, goal: str) -> Sheet:
    header = (
        *("intra / inter", "topology", "H", "best β", "accuracy", "better end"),
        *("best between", "lead", "highest above the line", "above the line"),
    )
    rows = tuple((*_setting(row), *_found(row)) for row in _in_order(best))
    title = f"Best β for the {SCORINGS[goal]}" if goal == X else f"Best β for {SCORINGS[goal]}"
    return Sheet(title, header, rows, "llrrrlrrrr")


def _theory_sheet(best: pd.DataFrame) -> Sheet:
    """The best beta and the theory's betas, each with the accuracy that it loses."""
    named = ("one server round", "certified", "constants 1")
    header = ("intra / inter", "topology", "H", "best β", *named)
    rows = tuple(
        (
            *_setting(row),
            f"{row['beta']:g}",
            *(_with_cost(row, name) for name in blends.THEORY_CHOICES),
        )
        for row in _in_order(best)
    )
    return Sheet("The theory's β, average model", header, rows, "llrrrrr")


def _with_cost(row: Mapping[str, Any], name: str) -> str:
    """A beta and its cost, such as `0.91 (0.04)`."""
    beta, cost = fmt.decimal(row[name]), fmt.decimal(row[f"{name}_cost"])
    return beta if beta == NOTHING else f"{beta} ({cost})"


def _in_order(best: pd.DataFrame) -> list[Any]:
    order = list(REGIMES.values())
    rows: list[Any] = best.to_dict("records")
    return sorted(
        rows,
        key=lambda row: (order.index((row["intra"], row["inter"])), row["topology"], row["period"]),
    )


def _setting(row: Mapping[str, Any]) -> tuple[str, ...]:
    return fmt.regime_short(row["intra"], row["inter"]), row["topology"], str(row["period"])


def _found(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['beta']:g}",
        fmt.with_interval(row["mean"], row["half"]),
        row["end"].upper() if isinstance(row["end"], str) else NOTHING,
        f"{row['middle']:g}",
        fmt.with_error(row["lead"], row["lead_half"]) + " *" * row["middle_wins"],
        f"{row['bent']:g}",
        fmt.with_error(row["above"], row["above_half"]) + " *" * row["above_wins"],
    )
