"""What the paper's text says of its curves (figures 5 and 9 to 14), computed again from ours.

Gaps are S2S minus S2A, in percentage points; a drop is what accuracy loses when the server calls.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from skerry.analysis.statistics import estimate
from skerry.errors import SkerryError, unknown
from skerry.paper.contests import (
    NAN,
    Contest,
    Measured,
    UnansweredError,
    at_round,
    between,
    contest_of,
    curves_of,
    drops,
    mean_of,
    reduction,
    shared,
)
from skerry.paper.panels import PANELS, Panel, Studies, slice_of
from skerry.paper.plans import SETTING
from skerry.paper.printed import Statement, statements
from skerry.paper.study import SCORINGS, Study

if TYPE_CHECKING:
    import pandas as pd

Unit = Literal["p.p.", "%", ""]
Contests = Mapping[str, Contest]

ENDINGS = (20, 50)
"""Last rounds over which the end of a curve is averaged: single rounds jump."""
LATE = 100
"""Last rounds in which the paper compares drops."""


@dataclass(frozen=True)
class Row:
    key: str
    words: str
    unit: Unit
    ours: float
    """NaN where the studies cannot answer; the note says why."""
    error: float
    """Its standard error; NaN where there is nothing to tell it from."""
    note: str
    printed: Statement | None = None
    """What the paper says, if it does."""
    theory: float = NAN
    """The exact expectation, where there is one."""


def rows_of(target: str, studies: Studies, scoring: str) -> list[Row]:
    """What our curves say of a figure, first where the paper says something. Statements that these
    studies cannot answer are there too, with the reason. Figure 14 does not depend on the scoring.
    """
    if target not in PANELS:
        raise SkerryError(unknown("figure with curves", target, PANELS))
    if scoring not in SCORINGS:
        raise SkerryError(unknown("scoring", scoring, SCORINGS))
    found, reasons = _tracked(studies) if target == "fig14" else _curves(target, studies, scoring)
    ours = {row.key: row for row in found}
    printed = {said.key: said for said in statements(target)}
    stated = [_stated(said, ours.get(key), reasons) for key, said in printed.items()]
    return [*stated, *(row for key, row in ours.items() if key not in printed)]


def _stated(said: Statement, ours: Row | None, reasons: list[str]) -> Row:
    if ours is None:
        return Row(said.key, said.words, said.unit, NAN, NAN, "; ".join(reasons), said)
    return Row(said.key, ours.words, said.unit, ours.ours, ours.error, ours.note, said, ours.theory)


def _row(key: str, words: str, found: Measured, unit: Unit = "p.p.", theory: float = NAN) -> Row:
    return Row(key, words, unit, found.value, found.error, found.note, theory=theory)


# Figures 5 and 9 to 13


def _curves(target: str, studies: Studies, scoring: str) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    reasons: list[str] = []
    contests: dict[str, Contest] = {}
    for panel in PANELS[target]:
        try:
            contests[panel.name] = contest_of(slice_of(panel, studies), scoring)
        except UnansweredError as reason:
            reasons.append(str(reason))
            words, unanswered = f"{panel.words}: mean gap", Measured(NAN, NAN, str(reason))
            rows.append(_row(f"{target}_gap_{panel.name}", words, unanswered))
        else:
            rows += _of_panel(target, panel, contests[panel.name])
    compared = COMPARED.get(target)
    if compared and len(contests) == len(PANELS[target]):
        rows += compared(contests)
    return rows, list(dict.fromkeys(reasons))


def _of_panel(target: str, panel: Panel, contest: Contest) -> Iterator[Row]:
    gap, H, T = contest.gap, contest.period, contest.rounds
    own = f"{target}_{panel.name}"

    def row(key: str, words: str, found: Measured) -> Row:
        return _row(key, f"{panel.words}: {words}", found)

    whole = mean_of(between(gap, 0, T), H)
    note = "; ".join(part for part in (whole.note, contest.note) if part)
    yield row(
        f"{target}_gap_{panel.name}",
        f"mean gap over all {T:,} rounds",
        Measured(whole.value, whole.error, note),
    )
    early = mean_of(between(gap, 0, panel.early), H)
    yield row(f"{own}_early", f"mean gap up to round {panel.early}", early)
    late = mean_of(between(gap, panel.early, T), H)
    yield row(f"{own}_late", f"mean gap after round {panel.early}", late)
    for t in panel.moments:
        ended = Measured(NAN, NAN, f"the runs end after {T:,} rounds")
        found = at_round(gap, t, H) if t <= T else ended
        yield row(f"{own}_t{t}", f"gap after {t:,} rounds", found)
    for last in ENDINGS:
        found = mean_of(between(gap, T - last, T), H)
        yield row(f"{own}_last{last}", f"mean gap over the last {last} of {T:,} rounds", found)
    for primitive, accuracy in (("s2s", contest.s2s), ("s2a", contest.s2a)):
        words = f"mean drop of {primitive.upper()} when the server calls"
        yield row(f"{own}_drop_{primitive}", words, _mean_drop(accuracy, H))


def _mean_drop(accuracy: "pd.DataFrame", H: int) -> Measured:
    lost = drops(accuracy, H)
    if lost.empty:
        return Measured(NAN, NAN, "not recorded both just before and just after visits")
    return mean_of(lost, H)


def _changing_graphs(contests: Contests) -> Iterator[Row]:
    fixed, random = contests["fixed"], contests["random"]
    H, T = fixed.period, min(fixed.rounds, random.rounds)
    change = mean_of(between(shared(random.gap - fixed.gap), 0, T), H)
    yield _row("fig11_gap_change", "mean gap, changing minus fixed graph", change)
    last = ENDINGS[-1]
    for primitive in ("s2s", "s2a"):
        gain = shared(getattr(random, primitive) - getattr(fixed, primitive))
        words = f"{primitive.upper()}: accuracy over the last {last} rounds, changing minus fixed"
        yield _row(f"fig11_gain_{primitive}", words, mean_of(between(gain, T - last, T), H))
    for name, contest in contests.items():
        found = _mixing(contest, dynamic=name == "random")
        yield _row(f"fig11_p_{name}", f"mixing parameter p, {name} 4-regular graph", found, "")


def _mixing(contest: Contest, dynamic: bool) -> Measured:
    """p of the graphs of these very seeds; a graph that changes has one law for all seeds."""
    from skerry.experiment import Network
    from skerry.network.fleet import build_fleet

    network = Network(**SETTING["network"], topology="regular", dynamic=dynamic)
    seeds = [0] if dynamic else [int(seed) for seed in contest.s2s.columns]
    p = estimate(build_fleet(network, seed).mixing_parameters().minimum for seed in seeds)
    return Measured(p.mean, p.standard_error, f"{p.count} seeds" if p.count > 1 else "exact")


def _momentum(contests: Contests) -> Iterator[Row]:
    usual, momentum = contests["fedavg"], contests["fedavgm"]
    H, T = usual.period, min(usual.rounds, momentum.rounds)
    change = mean_of(between(shared(momentum.gap - usual.gap), 0, T), H)
    yield _row("fig12_change", "mean gap, FedAvgM minus FedAvg", change)
    lost = [between(drops(one.s2a, H), T - LATE, T) for one in (usual, momentum)]
    words = f"S2A: how much smaller its drops are with FedAvgM, last {LATE} rounds"
    yield _row("fig12_drop_reduction", words, reduction(*lost), "%")


COMPARED: dict[str, Callable[[Contests], Iterator[Row]]] = {
    "fig11": _changing_graphs,
    "fig12": _momentum,
}

# Figure 14


def _tracked(studies: Studies) -> tuple[list[Row], list[str]]:
    from skerry.theory.operators import delta, kappa

    (panel,) = PANELS["fig14"]
    n = SETTING["network"]["devices"]
    try:
        study = slice_of(panel, studies)
        (share,) = study.runs["share"].unique()
        K = round(share * n)
        expected = {
            ("s2s", "disagreement_ratio"): float(delta(n, K)),
            ("s2a", "bias_ratio"): float(kappa(n, K)),
            ("s2a", "disagreement_ratio"): 0.0,
            ("s2s", "bias_ratio"): 0.0,
        }
        rows = [
            _ratio(study, primitive, measure, theory)
            for (primitive, measure), theory in expected.items()
        ]
    except UnansweredError as reason:
        return [], [str(reason)]
    return rows, []


def _ratio(study: Study, primitive: str, measure: str, theory: float) -> Row:
    what = "disagreement left" if measure == "disagreement_ratio" else "bias made"
    words = f"{primitive.upper()}: {what} by a visit, of the disagreement before it"
    # Every visit draws its sample anew, so the ratios of all visits are as good as independent.
    values = curves_of(study, primitive, measure)
    visits = estimate(values.to_numpy().ravel())
    seeds = values.shape[1]
    note = f"{visits.count} visits of {f'{seeds} seeds' if seeds > 1 else 'one seed'}"
    found = Measured(visits.mean, visits.standard_error, note)
    key = f"fig14_{measure}" + ("" if theory else f"_{primitive}")
    return _row(key, words, found, "", theory)
