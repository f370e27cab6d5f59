"""What a server round takes from devices, where they are scored in every round; and what momentum
of two kinds changes."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from skerry.paper.contests import (
    NotedMean,
    UnansweredError,
    between,
    contest_of,
    mean_drop,
    mean_of,
    recorded_part,
)
from skerry.paper.protocol import SCORED
from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.paper.views.in_words import dataset_words, regime_words
from skerry.paper.views.view import View
from skerry.report.text import NOTHING, Sheet, plus_minus

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
    parts = []
    told: list[str] = []
    for name in (DROPS, *EACH_ROUND):
        if name in studies:
            rows = list(_rows(studies[name]))
            header = (
                "setting",
                "rounds",
                *(f"{w}, {SCORED[s]}" for s in SCORINGS for w in ("S2S", "S2A")),
            )
            title = (
                f"{dataset_words(studies[name].runs['dataset'].iloc[0])}: drops in server rounds"
            )
            parts.append(Sheet(f"{title} ({name})", header, tuple(rows), "lrrrrr"))
    for name in (DROPS, LONG):
        if name in studies and (rows := list(_momentum(studies[name]))):
            rounds = int(studies[name].runs["rounds"].max())
            header = (
                "optimizer",
                *(f"{w}, {SCORED[s]}" for s in SCORINGS for w in ("gap", "change")),
            )
            parts.append(Sheet(f"Momentum, {rounds:,} rounds", header, tuple(rows), "lrrrr"))
            told += [f"{row[0]} {row[4]} over {rounds:,} rounds" for row in rows[1:]]
    verdict = (
        f"Change of the gap of the average model by momentum: {'; '.join(told)}." if told else ""
    )
    return View(target, verdict or "Drops of devices, where they were recorded.", (*parts, NOTE))


def _rows(study: Study) -> Iterator[tuple[str, ...]]:
    """A row per setting."""
    for setting in study.runs[SETTING].drop_duplicates().to_dict("records"):
        if abs(setting["share"] - 0.2) > 1e-6 or setting["topology"] in ("complete", "grid"):
            continue
        part = study.of(**{str(name): value for name, value in setting.items()})
        cells: list[str] = []
        for scoring in SCORINGS:
            try:
                found = contest_of(part, scoring)
            except UnansweredError:
                cells += [NOTHING, NOTHING]
                continue
            cells += [_told(mean_drop(one, found.period)) for one in (found.s2s, found.s2a)]
        yield _words(setting), str(int(part.runs["rounds"].iloc[0])), *cells


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


def _momentum(study: Study) -> Iterator[tuple[str, ...]]:
    """On the ring, islands that differ, H = 20: the mean gap, and its change by momentum."""
    ring = study.of(intra="iid", inter="non-iid", topology="ring", dynamic=False, period=20)
    if "fedavgm_averages" not in set(ring.runs["optimizer"]):
        return
    contests = {}
    for name in MOMENTUM:
        for scoring in SCORINGS:
            try:
                contests[name, scoring] = contest_of(ring.of(optimizer=name), scoring)
            except UnansweredError:
                return
    for name in MOMENTUM:
        cells = []
        for scoring in SCORINGS:
            one, usual = contests[name, scoring], contests["fedavg", scoring]
            change = recorded_part(one.gap - usual.gap)
            cells.append(_told(mean_of(between(one.gap, 0, one.rounds), one.period)))
            cells.append(
                ""
                if name == "fedavg"
                else _told(mean_of(between(change, 0, one.rounds), one.period))
            )
        yield name, *cells


def _told(found: NotedMean) -> str:
    return (
        plus_minus(found.value, found.error, "+z.2f", ".2f") if isfinite(found.value) else NOTHING
    )
