"""What the paper's text says of its curves (figures 5 and 9 to 14), computed again from ours.

Gaps are S2S minus S2A, in percentage points; a drop is what accuracy loses in a server round.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from skerry.analysis.statistics import estimate
from skerry.config.experiment import Network
from skerry.errors import SkerryError, unknown
from skerry.network.fleet import build_fleet
from skerry.theory.operators import delta, kappa
from skerry_paper.paired_curves import (
    CURVES,
    NAN,
    Contest,
    CurvePair,
    NotedMean,
    Studies,
    UnansweredError,
    at_round,
    between,
    contest_of,
    curves_of,
    drop_by_phase,
    drop_elsewhere,
    drops,
    mean_drop,
    mean_of,
    pairs_of,
    recorded_part,
    reduction,
    slice_of,
)
from skerry_paper.plan import DEVICES, SETTING
from skerry_paper.printed import Statement, Unit, statements
from skerry_paper.protocol import SCORED
from skerry_paper.study import Study

Contests = Mapping[str, Contest]

ENDINGS = (20, 50)
"""Last rounds over which the end of a curve is averaged: single rounds jump."""
LATE = 100
"""Last rounds in which the paper compares drops."""

AHEAD_IN_WORDS = {
    "fig5_mnist_early": -1,
    "fig5_mnist_late": 1,
    "fig5_cifar10_early": -1,
    "fig5_cifar10_late": 1,
    "fig9_gap_r2": -1,
    "fig9_r3_early": -1,
    "fig9_r3_late": 1,
}
"""Gaps of which the text says who is ahead, without a number: 1 is S2S, -1 is S2A."""


@dataclass(frozen=True)
class Finding:
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

    @property
    def stated_sign(self) -> int:
        """Who is ahead by the text: 1 for S2S, -1 for S2A, 0 where it does not say, or says a
        number within its own error."""
        if self.printed is None:
            return AHEAD_IN_WORDS.get(self.key, 0)
        telling = self.unit == "p.p." and abs(self.printed.value) > (self.printed.error or 0)
        return (1 if self.printed.value > 0 else -1) if telling else 0


def findings(target: str, studies: Studies, scoring: str) -> list[Finding]:
    """What our curves say of a figure, first where the paper says something. Statements that these
    studies cannot answer are there too, with the reason. Figure 14 does not depend on the scoring.
    """
    if target not in CURVES:
        raise SkerryError(unknown("figure with curves", target, CURVES))
    if scoring not in SCORED:
        raise SkerryError(unknown("scoring", scoring, SCORED))
    if target == "fig14":
        found, reasons = _of_server_rounds(target, studies)
    else:
        found, reasons = _of_curves(target, studies, scoring)
    ours = {one.key: one for one in found}
    printed = {said.key: said for said in statements(target)}
    stated = [_stated(said, ours.get(key), reasons) for key, said in printed.items()]
    return [*stated, *(one for key, one in ours.items() if key not in printed)]


def _stated(said: Statement, ours: Finding | None, reasons: list[str]) -> Finding:
    if ours is None:
        return Finding(said.key, said.words, said.unit, NAN, NAN, "; ".join(reasons), said)
    return replace(ours, unit=said.unit, printed=said)


def _finding(
    key: str, words: str, found: NotedMean, unit: Unit = "p.p.", theory: float = NAN
) -> Finding:
    return Finding(key, words, unit, found.value, found.error, found.note, theory=theory)


# Figures 5 and 9 to 13


def _of_curves(target: str, studies: Studies, scoring: str) -> tuple[list[Finding], list[str]]:
    found: list[Finding] = []
    reasons: list[str] = []
    contests: dict[str, Contest] = {}
    pairs = pairs_of(target, studies)
    for pair in pairs:
        try:
            contests[pair.name] = contest_of(slice_of(pair, studies), scoring)
        except UnansweredError as reason:
            reasons.append(str(reason))
            words, unanswered = f"{pair.words}: mean gap", NotedMean(NAN, NAN, str(reason))
            found.append(_finding(f"{target}_gap_{pair.name}", words, unanswered))
        else:
            found += _of_pair(target, pair, contests[pair.name], studies, scoring)
    compared = COMPARED.get(target)
    if compared and len(contests) == len(pairs):
        found += compared(contests)
    return found, list(dict.fromkeys(reasons))


def _of_pair(
    target: str, pair: CurvePair, contest: Contest, studies: Studies, scoring: str
) -> Iterator[Finding]:
    gap, H, T = contest.gap, contest.period, contest.rounds
    own = f"{target}_{pair.name}"

    def finding(key: str, words: str, found: NotedMean) -> Finding:
        return _finding(key, f"{pair.words}: {words}", found)

    whole = mean_of(between(gap, 0, T), H)
    note = "; ".join(part for part in (whole.note, contest.note) if part)
    yield finding(
        f"{target}_gap_{pair.name}",
        f"mean gap over all {T:,} rounds",
        NotedMean(whole.value, whole.error, note),
    )
    early = mean_of(between(gap, 0, pair.early), H)
    yield finding(f"{own}_early", f"mean gap up to round {pair.early}", early)
    late = mean_of(between(gap, pair.early, T), H)
    yield finding(f"{own}_late", f"mean gap after round {pair.early}", late)
    for t in pair.moments:
        ended = NotedMean(NAN, NAN, f"the runs end after {T:,} rounds")
        found = at_round(gap, t, H) if t <= T else ended
        yield finding(f"{own}_t{t}", f"gap after {t:,} rounds", found)
    for last in ENDINGS:
        found = mean_of(between(gap, T - last, T), H)
        yield finding(f"{own}_last{last}", f"mean gap over the last {last} of {T:,} rounds", found)
    for primitive, accuracy in (("s2s", contest.s2s), ("s2a", contest.s2a)):
        words = f"mean drop of {primitive.upper()} in a server round"
        lost = mean_drop(accuracy, H)
        if lost.value != lost.value:
            lost = drop_elsewhere(pair, studies, primitive, scoring)
        if lost.value != lost.value:
            lost = drop_by_phase(accuracy, H)
        yield finding(f"{own}_drop_{primitive}", words, lost)


def _changing_graphs(contests: Contests) -> Iterator[Finding]:
    fixed, random = contests["fixed"], contests["random"]
    H, T = fixed.period, min(fixed.rounds, random.rounds)
    change = mean_of(between(recorded_part(random.gap - fixed.gap), 0, T), H)
    yield _finding("fig11_gap_change", "mean gap, changing minus fixed graph", change)
    last = ENDINGS[-1]
    gains = {"s2s": random.s2s - fixed.s2s, "s2a": random.s2a - fixed.s2a}
    for primitive, gain in gains.items():
        words = f"{primitive.upper()}: accuracy over the last {last} rounds, changing minus fixed"
        found = mean_of(between(recorded_part(gain), T - last, T), H)
        yield _finding(f"fig11_gain_{primitive}", words, found)
    for name, contest in contests.items():
        found = _mixing(contest, dynamic=name == "random")
        yield _finding(f"fig11_p_{name}", f"mixing parameter p, {name} 4-regular graph", found, "")


def _mixing(contest: Contest, dynamic: bool) -> NotedMean:
    """p of the graphs of these very seeds; a graph that changes has one law for all seeds."""
    network = Network(**SETTING["network"], topology="regular", dynamic=dynamic)
    seeds = [0] if dynamic else [int(seed) for seed in contest.s2s.columns]
    p = estimate(build_fleet(network, seed).mixing_parameters().minimum for seed in seeds)
    return NotedMean(p.mean, p.standard_error, f"{p.count} seeds" if p.count > 1 else "exact")


def _momentum(contests: Contests) -> Iterator[Finding]:
    usual, momentum = contests["fedavg"], contests["fedavgm"]
    H, T = usual.period, min(usual.rounds, momentum.rounds)
    change = mean_of(between(recorded_part(momentum.gap - usual.gap), 0, T), H)
    yield _finding("fig12_change", "mean gap, FedAvgM minus FedAvg", change)
    lost = [between(drops(one.s2a, H), T - LATE, T) for one in (usual, momentum)]
    words = f"S2A: how much smaller its drops are with FedAvgM, last {LATE} rounds"
    yield _finding("fig12_drop_reduction", words, reduction(*lost), "%")
    if averages := contests.get("fedavgm_averages"):
        change = mean_of(between(recorded_part(averages.gap - usual.gap), 0, T), H)
        yield _finding(
            "fig12_change_averages", "mean gap, FedAvgM on averages minus FedAvg", change
        )


COMPARED: dict[str, Callable[[Contests], Iterator[Finding]]] = {
    "fig11": _changing_graphs,
    "fig12": _momentum,
}

# Figure 14


def _of_server_rounds(target: str, studies: Studies) -> tuple[list[Finding], list[str]]:
    (pair,) = CURVES[target]
    try:
        study = slice_of(pair, studies)
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
    except UnansweredError as reason:
        return [], [str(reason)]
    return found, []


def _ratio(study: Study, primitive: str, measure: str, theory: float) -> Finding:
    what = "disagreement left" if measure == "disagreement_ratio" else "bias made"
    words = f"{primitive.upper()}: {what} by a server round, of the disagreement before it"
    # Every server round draws its sample anew, so all ratios are as good as independent.
    values = curves_of(study, primitive, measure)
    ratios = estimate(values.to_numpy().ravel())
    seeds = values.shape[1]
    note = f"{ratios.count} server rounds of {f'{seeds} seeds' if seeds > 1 else 'one seed'}"
    found = NotedMean(ratios.mean, ratios.standard_error, note)
    key = f"fig14_{measure}" + ("" if theory else f"_{primitive}")
    return _finding(key, words, found, "", theory)
