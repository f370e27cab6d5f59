"""What a server round takes from devices, where they are scored in every round; and what momentum
of two kinds changes."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper.paired_curves import (
    NAN,
    DivergedError,
    NotedMean,
    UnansweredError,
    between,
    contest_of,
    curves_of,
    mean_drop,
    mean_of,
    recorded_part,
)
from skerry_paper.plan import BOTH
from skerry_paper.protocol import SCORED
from skerry_paper.study import Study
from skerry_paper.targets import Target
from skerry_paper.views.formatting import dataset_words, regime_words
from skerry_paper.views.view import View

SCORINGS = ("own_accuracy", "average_accuracy")
DROPS, LONG = "cifar10-drops", "cifar10-long"
EACH_ROUND = ("mnist-each-round", "cifar10-each-round")
SETTING = ["intra", "inter", "topology", "dynamic", "share", "period", "optimizer"]
MOMENTUM = ("fedavg", "fedavgm", "fedavgm_averages")
NOTE = (
    "A drop is what accuracy loses in a server round: the round before it minus the round that it "
    "leaves, ± standard error over seeds, or over server rounds where there is one seed. Of "
    "FedAvgM two kinds: fedavgm compares the average with the model delivered last, "
    "fedavgm_averages with the average before (docs/methods.md). The paper prints a "
    "change of the gap by momentum of -0.03 ± 0.10."
)


def drops(target: Target, studies: Mapping[str, Study]) -> View:
    lost = {name: list(_rows(studies[name])) for name in (DROPS, *EACH_ROUND) if name in studies}
    momentum = {name: list(_momentum(studies[name])) for name in (DROPS, LONG) if name in studies}
    parts = [_lost_sheet(studies[name], rows) for name, rows in lost.items()]
    parts += [_momentum_sheet(studies[name], rows) for name, rows in momentum.items() if rows]
    told = [*_verdict_of_drops(studies, lost), *_verdict_of_momentum(studies, momentum)]
    return View(
        target, " ".join(told) or "No run here scored devices in every round.", (*parts, NOTE)
    )


# What server rounds take

Lost = tuple[NotedMean | None, ...]
"""S2S and S2A on own labels, then of the average model; None where it diverged."""


def _rows(study: Study) -> Iterator[tuple[Mapping[Any, Any], Lost]]:
    """Each setting, and what is lost in it."""
    for setting in study.runs[SETTING].drop_duplicates().to_dict("records"):
        if abs(setting["share"] - 0.2) > 1e-6 or setting["topology"] in ("complete", "grid"):
            continue
        part = study.of(**{str(name): value for name, value in setting.items()})
        yield (
            setting,
            tuple(
                _lost(part, primitive, scoring, setting["period"])
                for scoring in SCORINGS
                for primitive in BOTH
            ),
        )


def _lost(study: Study, primitive: str, scoring: str, period: int) -> NotedMean | None:
    try:
        return mean_drop(curves_of(study, primitive, scoring), period)
    except DivergedError:
        return None
    except UnansweredError as reason:
        return NotedMean(NAN, NAN, str(reason))


def _lost_sheet(study: Study, rows: Sequence[tuple[Mapping[Any, Any], Lost]]) -> Sheet:
    header = ("setting", "rounds", *(f"{w}, {SCORED[s]}" for s in SCORINGS for w in ("S2S", "S2A")))
    rounds = str(_rounds(study))
    cells = tuple((_words(setting), rounds, *map(_told, lost)) for setting, lost in rows)
    title = f"{_dataset(study)}: drops in server rounds ({study.name})"
    return Sheet(title, header, cells, "lrrrrr")


def _verdict_of_drops(
    studies: Mapping[str, Study], lost: Mapping[str, Sequence[tuple[Mapping[Any, Any], Lost]]]
) -> Iterator[str]:
    """The smallest and the largest, over the settings in which data differ."""
    told = []
    for name, rows in lost.items():
        differ = [row for at, row in rows if (at["intra"], at["inter"]) != ("iid", "iid")]
        ranges = []
        for number, primitive in enumerate(("S2S", "S2A")):
            found = [one.value for row in differ if (one := row[number]) and isfinite(one.value)]
            if found:
                ranges.append(f"{primitive} {min(found):z.1f} to {max(found):z.1f}")
        if ranges:
            where = f"{_dataset(studies[name])}, {_rounds(studies[name])} rounds"
            told.append(f"{where}: {', '.join(ranges)}")
    if told:
        yield (
            "Points that a server round takes from devices on own labels, where data differ: "
            f"{'; '.join(told)}."
        )


def _words(setting: Mapping[Any, Any]) -> str:
    graph = f"{'changing ' if setting['dynamic'] else ''}{setting['topology']}"
    told = [
        regime_words(setting["intra"], setting["inter"]),
        graph,
        f"H = {setting['period']}",
    ]
    if setting["optimizer"] != "fedavg":
        told.append(str(setting["optimizer"]))
    return ", ".join(told)


# What momentum changes


def _momentum(study: Study) -> Iterator[tuple[str, ...]]:
    """On the ring, islands that differ, H = 20: the mean gap, and its change by momentum."""
    ring = study.of(intra="iid", inter="non-iid", topology="ring", dynamic=False, period=20)
    if len(set(ring.runs["optimizer"]) & set(MOMENTUM)) < len(MOMENTUM):
        return
    for name in MOMENTUM:
        cells: list[str] = []
        for scoring in SCORINGS:
            try:
                one, usual = (contest_of(ring.of(optimizer=o), scoring) for o in (name, "fedavg"))
            except UnansweredError as reason:
                cells += [str(reason), NOTHING]
                continue
            change = recorded_part(one.gap - usual.gap)
            cells.append(_told(mean_of(between(one.gap, 0, one.rounds), one.period)))
            found = mean_of(between(change, 0, one.rounds), one.period)
            cells.append("" if name == "fedavg" else _told(found))
        yield name, *cells


def _momentum_sheet(study: Study, rows: Sequence[tuple[str, ...]]) -> Sheet:
    header = ("optimizer", *(f"{w}, {SCORED[s]}" for s in SCORINGS for w in ("gap", "change")))
    return Sheet(f"Momentum, {_rounds(study):,} rounds", header, tuple(rows), "lrrrr")


def _verdict_of_momentum(
    studies: Mapping[str, Study], momentum: Mapping[str, Sequence[tuple[str, ...]]]
) -> Iterator[str]:
    for name, rows in momentum.items():
        told = [
            f"{kind} {change if change != NOTHING else gap}"
            for kind, *_, gap, change in rows
            if kind != "fedavg"
        ]
        if told:
            yield (
                f"Change of the average model's gap by momentum over {_rounds(studies[name]):,} "
                f"rounds: {'; '.join(told)}."
            )


def _told(found: NotedMean | None) -> str:
    if found is None:
        return "diverged"
    return (
        plus_minus(found.value, found.error, "+z.2f", ".2f") if isfinite(found.value) else NOTHING
    )


def _rounds(study: Study) -> int:
    return int(study.runs["rounds"].max())


def _dataset(study: Study) -> str:
    return dataset_words(study.runs["dataset"].iloc[0])
