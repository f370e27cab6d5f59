"""View of drops: the accuracy that devices lose in server rounds, and the effect of momentum."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import isfinite
from typing import Any, NamedTuple

import pandas as pd

from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper import paired_curves as pc
from skerry_paper.plan import BOTH
from skerry_paper.printed import Statement, statements
from skerry_paper.protocol import SCORINGS, SHOWN_SCORINGS
from skerry_paper.study import Studies, StudyData
from skerry_paper.targets import Target
from skerry_paper.views.formatting import dataset_name, regime_name
from skerry_paper.views.view import View

DROPS, LONG = "cifar10-drops", "cifar10-long"
EACH_ROUND = ("mnist-each-round", "cifar10-each-round")
SETTING = ["intra", "inter", "topology", "dynamic", "share", "period", "optimizer"]
LATE = 50
"""Number of last rounds over which the end of a curve is averaged."""
NOTE = (
    "A drop is the accuracy lost in a server round: the round before it minus the round after it, "
    "± half of the 95 % interval over seeds, or over server rounds if there is one seed. [Figure "
    "12](figures.md#fig12) compares the two kinds of FedAvgM."
)


def drops_view(target: Target, studies: Studies) -> View:
    """A table of drops per study, a row per setting."""
    lost = {name: list(_rows(studies[name])) for name in (DROPS, *EACH_ROUND) if name in studies}
    parts = [_lost_sheet(studies[name], rows) for name, rows in lost.items()]
    verdict = [*_verdict_of_drops(studies, lost)]
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


# The effect of momentum: Figure 12

READINGS = {"fedavgm": "the model delivered last", "fedavgm_averages": "the average before"}
"""The kinds of FedAvgM, and what each takes the new average's difference from."""
CHANGE_HEADER = ("momentum against", "scored", "mean over", "S2S", "S2A", "the gap", "seeds")
PRINTED_CHANGE = "fig12_change"
CONTRADICTION = (
    "**The text and our runs contradict each other.** The text says that momentum 0.9 leaves the "
    "gap as it is: {stated}. {readings} So no reading that we ran has the printed change. Its "
    "printed error is smaller than those of both gaps, as if the curves with and without momentum "
    "almost coincided, which would follow from a momentum that hardly acts. Momentum whose new "
    "part is scaled by 1 - m (`server.dampening = 0.9`) acts less; it was not run."
)
NO_CONTRADICTION = (
    "The text says that momentum 0.9 leaves the gap as it is: {stated}. {readings} The interval of "
    "at least one of them contains the printed change."
)
MOMENTUM_NOTE = (
    "Changes by momentum, FedAvgM minus FedAvg, in points ± half of the 95 % interval over seeds."
    "{drops}{moved} Under S2A all devices start from the delivered model, so its difference from "
    "the next average is the progress of H rounds, which momentum m = 0.9 repeats up to 1 / (1 - m)"
    " = 10 times. Under S2S K of n devices receive it: it moves the average by K/n of what "
    "momentum adds, and most of the next sample never had it, so that momentum sums disagreement, "
    "not progress. Against the average before, each change contains the momentum of the last one: "
    "it grows by 2 m = 1.8 in each server round under S2A, and by m (1 + K/n) = 1.08 under S2S, "
    "while the loss does not pull it back."
)


class Change(NamedTuple):
    """What one reading of FedAvgM changes against FedAvg, as a mean over some rounds."""

    reading: str
    scoring: str
    span: str
    means: Mapping[str, pc.NotedMean]
    """Of `s2s`, `s2a` and the `gap`, as far as both optimizers finished."""
    diverged: Mapping[str, str]
    """The rounds in which each primitive diverged under this reading."""
    seeds: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        values = (self.diverged.get(n) or _text(self.means.get(n)) for n in (*BOTH, "gap"))
        return READINGS[self.reading], SCORINGS[self.scoring], self.span, *values, str(self.seeds)

    def agrees(self, printed: Statement) -> bool:
        """Whether its interval of the gap contains the printed change."""
        gap = self.means.get("gap")
        return gap is not None and abs(gap.value - printed.value) <= gap.half


def momentum_parts(studies: Studies) -> list[Sheet | str]:
    """What momentum changes for S2S and for S2A, with both kinds of FedAvgM, and why."""
    fixed = {"intra": "iid", "inter": "non-iid", "topology": "ring", "dynamic": False, "period": 20}
    rings = [studies[name].of(**fixed) for name in (LONG, DROPS) if name in studies]
    changes: list[Change] = []
    for reading in READINGS:
        ran = [ring for ring in rings if len(ring.of(optimizer=reading).runs)]
        for ring, scoring in product(ran[:1], SHOWN_SCORINGS):
            changes += _changes(ring, reading, scoring)
    if not changes:
        return []
    rows = tuple(one.cells for one in changes)
    sheet = Sheet("FedAvgM minus FedAvg, two readings", CHANGE_HEADER, rows, "lllrrrr")
    note = MOMENTUM_NOTE.format(drops=_smaller_drops(rings), moved=_moved(rings[0]))
    return [_beside_the_text(changes), sheet, note]


def _beside_the_text(changes: Sequence[Change]) -> str:
    """A paragraph on the printed change of the gap, and on that of each reading."""
    (printed,) = (one for one in statements("fig12") if one.key == PRINTED_CHANGE)
    whole = [one for one in changes if one.span.startswith("all")]
    readings = " ".join(
        _reading_sentence([one for one in whole if one.reading == reading])
        for reading in dict.fromkeys(one.reading for one in whole)
    )
    text = NO_CONTRADICTION if any(one.agrees(printed) for one in whole) else CONTRADICTION
    return text.format(stated=printed.value_in_words.rstrip("."), readings=readings)


def _reading_sentence(changes: Sequence[Change]) -> str:
    """One sentence on a reading: the change of the gap, or who diverged and what is left."""
    first = changes[0]
    told = [f"{primitive.upper()} {when}" for primitive, when in first.diverged.items()]
    for one in changes:
        both = [f"{p.upper()} {_text(one.means[p])}" for p in BOTH if p in one.means]
        gap = f"the gap changes by {_text(one.means['gap'])}: " if "gap" in one.means else ""
        told.append(f"{SCORINGS[one.scoring]}, {gap}{', '.join(both)}")
    where = f"{first.span}, {first.seeds} seeds"
    return f"Momentum against {READINGS[first.reading]} ({where}): {'; '.join(told)}."


def _changes(ring: StudyData, reading: str, scoring: str) -> Iterator[Change]:
    """Over all rounds and over the last LATE: the change of S2S, of S2A and of the gap."""
    other = ring.of(optimizer=reading)
    changes: dict[str, pd.DataFrame] = {}
    ended: dict[str, str] = {}
    for primitive in BOTH:
        try:
            ours, usual = (
                pc.primitive_curves(one, primitive, scoring)
                for one in (other, ring.of(optimizer="fedavg"))
            )
            changes[primitive] = pc.drop_missing(ours - usual)
        except pc.DivergedError:
            last = other.of(primitive=primitive).curves.groupby("run")["round"].max()
            ended[primitive] = f"diverged in rounds {' and '.join(map(str, sorted(last)))}"
        except pc.MissingDataError:
            return
    if not ended:
        changes["gap"] = changes["s2s"] - changes["s2a"]
    T = _rounds(ring)
    spans = {0: f"all {T:,} rounds"} | ({} if ended else {T - LATE: f"the last {LATE}"})
    seeds = max((one.shape[1] for one in changes.values()), default=0)
    for after, words in spans.items():
        means = {name: pc.mean_between(one, after, T, 20) for name, one in changes.items()}
        yield Change(reading, scoring, words, means, ended, seeds)


def _of_momentum(ring: StudyData, primitive: str, measure: str) -> list[pd.DataFrame]:
    """The curves of FedAvg and of FedAvgM as the text may mean it; none if they are missing."""
    try:
        return [
            pc.primitive_curves(ring.of(optimizer=one), primitive, measure)
            for one in ("fedavg", "fedavgm")
        ]
    except pc.MissingDataError:
        return []


def _smaller_drops(rings: Sequence[StudyData]) -> str:
    """A sentence on the drops of S2A, which the text says are about 20 % smaller with momentum."""
    parts = []
    for scoring in SHOWN_SCORINGS:
        for ring in rings:
            found = [pc.mean_drop(one, 20) for one in _of_momentum(ring, "s2a", scoring)]
            if found and all(isfinite(one.value) for one in found):
                told = " and ".join(_text(one) for one in found)
                parts.append(f"{SCORINGS[scoring]} {told} over {_rounds(ring):,} rounds")
                break
    return f" Drops of S2A (FedAvg and FedAvgM): {'; '.join(parts)}." if parts else ""


def _moved(ring: StudyData) -> str:
    """A sentence on how far server rounds move the average, with and without momentum."""
    parts = []
    for primitive in BOTH:
        ratios = [float(one.mean().mean()) for one in _of_momentum(ring, primitive, "bias_ratio")]
        if ratios:
            told = " and ".join(f"{ratio:.4f}" for ratio in ratios)
            parts.append(f"{told} under {primitive.upper()}")
    return (
        " A server round moves the average, relative to the disagreement before it (squared "
        f"distances, FedAvg and FedAvgM), by {'; '.join(parts)}."
        if parts
        else ""
    )


def _text(found: pc.NotedMean | None) -> str:
    if found is None:
        return NOTHING
    return plus_minus(found.value, found.half, "+z.2f", ".2f") if isfinite(found.value) else NOTHING


def _rounds(study: StudyData) -> int:
    return int(study.runs["rounds"].max())


def _dataset(study: StudyData) -> str:
    return dataset_name(study.runs["dataset"].iloc[0])
