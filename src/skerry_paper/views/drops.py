"""View of drops: the accuracy that devices lose in server rounds, and the effect of momentum."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper import paired_curves as pc
from skerry_paper.plan import BOTH
from skerry_paper.protocol import SCORINGS, SHOWN_SCORINGS
from skerry_paper.study import Studies, StudyData
from skerry_paper.targets import Target
from skerry_paper.views.formatting import dataset_name, regime_name
from skerry_paper.views.view import View

DROPS, LONG = "cifar10-drops", "cifar10-long"
EACH_ROUND = ("mnist-each-round", "cifar10-each-round")
SETTING = ["intra", "inter", "topology", "dynamic", "share", "period", "optimizer"]
MOMENTUM = ("fedavg", "fedavgm", "fedavgm_averages")
NOTE = (
    "A drop is the accuracy lost in a server round: the round before it minus the round after it, "
    "± standard error over seeds, or over server rounds if there is one seed. There are two kinds "
    "of FedAvgM: fedavgm compares the average with the model that was sent last, fedavgm_averages "
    "compares it with the previous average (docs/methods.md). The paper prints a change of the gap "
    "by momentum of -0.03 ± 0.10."
)


def drops_view(target: Target, studies: Studies) -> View:
    """Tables of drops in each setting, and of the gap with each kind of momentum."""
    lost = {name: list(_rows(studies[name])) for name in (DROPS, *EACH_ROUND) if name in studies}
    momentum = {name: list(_momentum(studies[name])) for name in (DROPS, LONG) if name in studies}
    parts = [_lost_sheet(studies[name], rows) for name, rows in lost.items()]
    parts += [_momentum_sheet(studies[name], rows) for name, rows in momentum.items() if rows]
    verdict = [*_verdict_of_drops(studies, lost), *_verdict_of_momentum(studies, momentum)]
    return View(
        target, " ".join(verdict) or "No run scored devices in every round.", (*parts, NOTE)
    )


# Drops in server rounds

Lost = tuple[pc.NotedMean | None, ...]
"""Drops of S2S and S2A on own labels, then of the average model; None for diverged runs."""


def _rows(study: StudyData) -> Iterator[tuple[Mapping[Any, Any], Lost]]:
    """Each setting and its drops."""
    for setting in study.runs[SETTING].drop_duplicates().to_dict("records"):
        if abs(setting["share"] - 0.2) > 1e-6 or setting["topology"] in ("complete", "grid"):
            continue
        part = study.of(**{str(name): value for name, value in setting.items()})
        yield (
            setting,
            tuple(
                _lost(part, primitive, scoring, setting["period"])
                for scoring in SHOWN_SCORINGS
                for primitive in BOTH
            ),
        )


def _lost(study: StudyData, primitive: str, scoring: str, period: int) -> pc.NotedMean | None:
    try:
        return pc.mean_drop(pc.primitive_curves(study, primitive, scoring), period)
    except pc.DivergedError:
        return None
    except pc.MissingDataError as reason:
        return pc.NotedMean(pc.NAN, pc.NAN, str(reason))


def _lost_sheet(study: StudyData, rows: Sequence[tuple[Mapping[Any, Any], Lost]]) -> Sheet:
    header = (
        "setting",
        "rounds",
        *(f"{w}, {SCORINGS[s]}" for s in SHOWN_SCORINGS for w in ("S2S", "S2A")),
    )
    rounds = str(_rounds(study))
    cells = tuple((_words(setting), rounds, *map(_text, lost)) for setting, lost in rows)
    title = f"{_dataset(study)}: drops in server rounds ({study.name})"
    return Sheet(title, header, cells, "lrrrrr")


def _verdict_of_drops(
    studies: Studies, lost: Mapping[str, Sequence[tuple[Mapping[Any, Any], Lost]]]
) -> Iterator[str]:
    """A sentence with the smallest and largest drop on own labels, where data differ."""
    parts = []
    for name, rows in lost.items():
        differ = [row for at, row in rows if (at["intra"], at["inter"]) != ("iid", "iid")]
        ranges = []
        for number, primitive in enumerate(("S2S", "S2A")):
            found = [one.value for row in differ if (one := row[number]) and isfinite(one.value)]
            if found:
                ranges.append(f"{primitive} {min(found):z.1f} to {max(found):z.1f}")
        if ranges:
            where = f"{_dataset(studies[name])}, {_rounds(studies[name])} rounds"
            parts.append(f"{where}: {', '.join(ranges)}")
    if parts:
        yield (
            "Points that devices lose on own labels in a server round, where data differ: "
            f"{'; '.join(parts)}."
        )


def _words(setting: Mapping[Any, Any]) -> str:
    graph = f"{'changing ' if setting['dynamic'] else ''}{setting['topology']}"
    parts = [regime_name(setting["intra"], setting["inter"]), graph, f"H = {setting['period']}"]
    optimizer = setting["optimizer"]
    return ", ".join(parts if optimizer == "fedavg" else [*parts, optimizer])


# The effect of momentum


def _momentum(study: StudyData) -> Iterator[tuple[str, ...]]:
    """The mean gap and its change by momentum, on the ring, islands differ, H = 20."""
    ring = study.of(intra="iid", inter="non-iid", topology="ring", dynamic=False, period=20)
    if len(set(ring.runs["optimizer"]) & set(MOMENTUM)) < len(MOMENTUM):
        return
    for name in MOMENTUM:
        cells: list[str] = []
        for scoring in SHOWN_SCORINGS:
            try:
                one, usual = (
                    pc.pair_curves(ring.of(optimizer=o), scoring) for o in (name, "fedavg")
                )
            except pc.MissingDataError as reason:
                cells += [str(reason), NOTHING]
                continue
            cells.append(_text(pc.mean_between(one.gap, 0, one.rounds, one.period)))
            change = pc.mean_between(one.gap - usual.gap, 0, one.rounds, one.period)
            cells.append("" if name == "fedavg" else _text(change))
        yield name, *cells


def _momentum_sheet(study: StudyData, rows: Sequence[tuple[str, ...]]) -> Sheet:
    header = (
        "optimizer",
        *(f"{w}, {SCORINGS[s]}" for s in SHOWN_SCORINGS for w in ("gap", "change")),
    )
    return Sheet(f"Momentum, {_rounds(study):,} rounds", header, tuple(rows), "lrrrr")


def _verdict_of_momentum(
    studies: Studies, momentum: Mapping[str, Sequence[tuple[str, ...]]]
) -> Iterator[str]:
    for name, rows in momentum.items():
        parts = [
            f"{kind} {change if change != NOTHING else gap}"
            for kind, *_, gap, change in rows
            if kind != "fedavg"
        ]
        if parts:
            yield (
                f"Change of the average model's gap by momentum over {_rounds(studies[name]):,} "
                f"rounds: {'; '.join(parts)}."
            )


def _text(found: pc.NotedMean | None) -> str:
    if found is None:
        return "diverged"
    return (
        plus_minus(found.value, found.error, "+z.2f", ".2f") if isfinite(found.value) else NOTHING
    )


def _rounds(study: StudyData) -> int:
    return int(study.runs["rounds"].max())


def _dataset(study: StudyData) -> str:
    return dataset_name(study.runs["dataset"].iloc[0])
