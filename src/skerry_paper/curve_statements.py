"""The statements of the paper's text about its curves (figures 5 and 9 to 14), recomputed.

Gaps are S2S minus S2A, in percentage points; a drop is the accuracy lost in a server round.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from skerry.analysis.statistics import estimate
from skerry.config.experiment import Network
from skerry.errors import SkerryError, unknown
from skerry.network.fleet import build_fleet
from skerry.theory.operators import delta, kappa
from skerry_paper import paired_curves as pc
from skerry_paper.paired_curves import (
    NAN,
    CurveSetting,
    NotedMean,
    PairedCurves,
    mean_between,
    rounds_between,
)
from skerry_paper.plan import DEVICES, SETTING
from skerry_paper.printed import Statement, Unit, statements
from skerry_paper.protocol import SCORINGS
from skerry_paper.study import Studies, StudyData

CurvesBySetting = Mapping[str, PairedCurves]

ENDINGS = (20, 50)
"""Numbers of last rounds over which the end of a curve is averaged: single rounds are noisy."""
LATE = 100
"""Number of last rounds in which the paper compares drops."""

AHEAD_IN_WORDS = {
    **dict.fromkeys(("fig5_mnist_late", "fig5_cifar10_late", "fig9_r3_late"), 1),
    **dict.fromkeys(("fig5_mnist_early", "fig5_cifar10_early", "fig9_r3_early"), -1),
    "fig9_gap_r2": -1,
}
"""Gaps for which the text says who is ahead without a number: 1 is S2S, -1 is S2A."""


@dataclass(frozen=True)
class Finding:
    """A number computed from our curves, and the paper's statement about it."""

    key: str
    words: str
    unit: Unit
    ours: float
    """Our value; NaN where the studies cannot provide it (the note says why)."""
    half: float
    """Half of the 95 % interval of `ours`; NaN where unknown."""
    note: str
    p: float = NAN
    """Of the t test over seeds; NaN for fewer than three."""
    printed: Statement | None = None
    """The paper's statement, if there is one."""
    theory: float = NAN
    """Exact expected value, where the theory has one."""

    @property
    def stated_sign(self) -> int:
        """Who is ahead according to the text: 1 for S2S, -1 for S2A, 0 where it does not say or
        where its number is within its own error."""
        if self.printed is None:
            return AHEAD_IN_WORDS.get(self.key, 0)
        large = self.unit == "p.p." and abs(self.printed.value) > (self.printed.error or 0)
        return (1 if self.printed.value > 0 else -1) if large else 0


def curve_findings(target: str, studies: Studies, scoring: str) -> list[Finding]:
    """Findings about a figure: first one per statement of the paper, then further ones.

    A statement that the studies cannot check has a NaN and the reason in its note. Figure 14 does
    not depend on `scoring`."""
    if target not in pc.CURVES:
        raise SkerryError(unknown("figure with curves", target, pc.CURVES))
    if scoring not in SCORINGS:
        raise SkerryError(unknown("scoring", scoring, SCORINGS))
    if target == "fig14":
        found, reasons = _server_round_findings(target, studies)
    else:
        found, reasons = _curve_findings(target, studies, scoring)
    ours = {one.key: one for one in found}
    printed = {one.key: one for one in statements(target)}
    stated = [_stated(one, ours.get(key), reasons) for key, one in printed.items()]
    return [*stated, *(one for key, one in ours.items() if key not in printed)]


def _stated(statement: Statement, ours: Finding | None, reasons: list[str]) -> Finding:
    if ours is None:
        return Finding(
            *(statement.key, statement.words, statement.unit, NAN, NAN, "; ".join(reasons)),
            printed=statement,
        )
    return replace(ours, unit=statement.unit, printed=statement)


def _finding(
    key: str, words: str, found: NotedMean, unit: Unit = "p.p.", theory: float = NAN
) -> Finding:
    return Finding(key, words, unit, found.value, found.half, found.note, found.p, theory=theory)


# Figures 5 and 9 to 13


def _curve_findings(target: str, studies: Studies, scoring: str) -> tuple[list[Finding], list[str]]:
    found: list[Finding] = []
    reasons: list[str] = []
    curves: dict[str, PairedCurves] = {}
    settings = pc.settings_of(target, studies)
    for setting in settings:
        try:
            curves[setting.name] = pc.pair_curves(pc.select_runs(setting, studies), scoring)
        except pc.MissingDataError as reason:
            reasons.append(str(reason))
            missing = NotedMean(NAN, NAN, str(reason))
            words = f"{setting.words}: mean gap"
            found.append(_finding(f"{target}_gap_{setting.name}", words, missing))
        else:
            found += _setting_findings(target, setting, curves[setting.name], studies, scoring)
    compared = COMPARED.get(target)
    if compared and len(curves) == len(settings):
        found += compared(curves)
    return found, list(dict.fromkeys(reasons))


def _setting_findings(
    target: str, setting: CurveSetting, curves: PairedCurves, studies: Studies, scoring: str
) -> Iterator[Finding]:
    gap, H, T = curves.gap, curves.period, curves.rounds
    own = f"{target}_{setting.name}"

    def finding(key: str, words: str, found: NotedMean) -> Finding:
        return _finding(key, f"{setting.words}: {words}", found)

    whole = mean_between(gap, 0, T, H)
    note = "; ".join(part for part in (whole.note, curves.note) if part)
    yield finding(
        f"{target}_gap_{setting.name}",
        f"mean gap over all {T:,} rounds",
        replace(whole, note=note),
    )
    early = mean_between(gap, 0, setting.early, H)
    yield finding(f"{own}_early", f"mean gap up to round {setting.early}", early)
    late = mean_between(gap, setting.early, T, H)
    yield finding(f"{own}_late", f"mean gap after round {setting.early}", late)
    for t in setting.gap_rounds:
        ended = NotedMean(NAN, NAN, f"the runs end after {T:,} rounds")
        found = pc.at_round(gap, t, H) if t <= T else ended
        yield finding(f"{own}_t{t}", f"gap after {t:,} rounds", found)
    for last in ENDINGS:
        found = mean_between(gap, T - last, T, H)
        yield finding(f"{own}_last{last}", f"mean gap over the last {last} of {T:,} rounds", found)
    for primitive, accuracy in (("s2s", curves.s2s), ("s2a", curves.s2a)):
        words = f"mean drop of {primitive.upper()} in a server round"
        lost = pc.mean_drop(accuracy, H)
        if lost.value != lost.value:
            lost = pc.drop_in_other_study(setting, studies, primitive, scoring)
        if lost.value != lost.value:
            lost = pc.drop_by_interpolation(accuracy, H)
        yield finding(f"{own}_drop_{primitive}", words, lost)


def _changing_graphs(curves: CurvesBySetting) -> Iterator[Finding]:
    fixed, random = curves["fixed"], curves["random"]
    H, T = fixed.period, min(fixed.rounds, random.rounds)
    change = mean_between(random.gap - fixed.gap, 0, T, H)
    yield _finding("fig11_gap_change", "mean gap, changing minus fixed graph", change)
    last = ENDINGS[-1]
    gains = {"s2s": random.s2s - fixed.s2s, "s2a": random.s2a - fixed.s2a}
    for primitive, gain in gains.items():
        words = f"{primitive.upper()}: accuracy over the last {last} rounds, changing minus fixed"
        found = mean_between(gain, T - last, T, H)
        yield _finding(f"fig11_gain_{primitive}", words, found)
    for name, both in curves.items():
        found = _mixing(both, dynamic=name == "random")
        yield _finding(f"fig11_p_{name}", f"mixing parameter p, {name} 4-regular graph", found, "")


def _mixing(curves: PairedCurves, dynamic: bool) -> NotedMean:
    """Mixing parameter p of the graphs of these seeds; a changing graph has the same p for all."""
    network = Network(**SETTING["network"], topology="regular", dynamic=dynamic)
    seeds = [0] if dynamic else [int(seed) for seed in curves.s2s.columns]
    p = estimate(build_fleet(network, seed).mixing_parameters().minimum for seed in seeds)
    return NotedMean(p.mean, p.half_width, f"{p.count} seeds" if p.count > 1 else "exact")


def _momentum(curves: CurvesBySetting) -> Iterator[Finding]:
    usual, momentum = curves["fedavg"], curves["fedavgm"]
    H, T = usual.period, min(usual.rounds, momentum.rounds)
    change = mean_between(momentum.gap - usual.gap, 0, T, H)
    yield _finding("fig12_change", "mean gap, FedAvgM minus FedAvg", change)
    lost = [
        rounds_between(pc.server_round_drops(one.s2a, H), T - LATE, T) for one in (usual, momentum)
    ]
    words = f"S2A: how much smaller its drops are with FedAvgM, last {LATE} rounds"
    yield _finding("fig12_drop_reduction", words, pc.percent_reduction(*lost), "%")
    if averages := curves.get("fedavgm_averages"):
        change = mean_between(averages.gap - usual.gap, 0, T, H)
        yield _finding(
            "fig12_change_averages", "mean gap, FedAvgM on averages minus FedAvg", change
        )


COMPARED: dict[str, Callable[[CurvesBySetting], Iterator[Finding]]] = {
    "fig11": _changing_graphs,
    "fig12": _momentum,
}

# Figure 14


def _server_round_findings(target: str, studies: Studies) -> tuple[list[Finding], list[str]]:
    (setting,) = pc.CURVES[target]
    try:
        study = pc.select_runs(setting, studies)
        (share,) = study.runs["share"].unique()
        K = round(share * DEVICES)
        expected = {
            ("s2s", "disagreement_ratio"): float(delta(DEVICES, K)),
            ("s2a", "bias_ratio"): float(kappa(DEVICES, K)),
            ("s2a", "disagreement_ratio"): 0.0,
            ("s2s", "bias_ratio"): 0.0,
        }
        found = [
            _ratio(study, primitive, measure, theory)
            for (primitive, measure), theory in expected.items()
        ]
    except pc.MissingDataError as reason:
        return [], [str(reason)]
    return found, []


def _ratio(study: StudyData, primitive: str, measure: str, theory: float) -> Finding:
    what = "disagreement left" if measure == "disagreement_ratio" else "bias caused"
    words = f"{primitive.upper()}: {what} by a server round, relative to the disagreement before it"
    # Every server round draws a new sample, so the ratios are nearly independent.
    values = pc.primitive_curves(study, primitive, measure)
    ratios = estimate(values.to_numpy().ravel())
    seeds = values.shape[1]
    note = f"{ratios.count} server rounds of {f'{seeds} seeds' if seeds > 1 else 'one seed'}"
    found = NotedMean(ratios.mean, ratios.half_width, note)
    key = f"fig14_{measure}" + ("" if theory else f"_{primitive}")
    return _finding(key, words, found, "", theory)
