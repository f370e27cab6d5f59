"""Early stopping: the measured values of each run, and the decision which runs end after a round.

A run that its stop rule ends is finished. A run that a progress callback ends is not, because its
key says nothing of the callback: it keeps a checkpoint, and the next call resumes it.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.config import stopping
from skerry.config.experiment import Experiment
from skerry.config.measures import MEASURES, traits
from skerry.engine.ranks.group import RankGroup
from skerry.engine.simulate import Moment
from skerry.engine.world import World
from skerry.errors import SkerryError, printable
from skerry.measure.custom_measures import measure_context
from skerry.measure.observer import Reading
from skerry.plugins import registry
from skerry.plugins.options import bind
from skerry.records.parts import History

Ask = Callable[[Experiment, "LaneValues"], Any]
LONGEST = 200  # characters of a reason that are recorded


@dataclass(frozen=True)
class _Column:
    """The values of one measure, in the order of their rounds."""

    lower_is_better: bool
    rounds: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)  # the best value up to each of the rounds

    def add(self, round_: int, value: float) -> None:
        better = min if self.lower_is_better else max
        self.rounds.append(round_)
        self.values.append(value)
        self.best.append(better(self.best[-1], value) if self.best else value)


class LaneValues(Mapping[str, float]):
    """The values of a run that were measured so far: `values["average_accuracy"]` is the last one,
    `values.history("average_accuracy")` are all of them, measured after
    `values.rounds("average_accuracy")` rounds. It cannot be changed."""

    def __init__(self) -> None:
        self.round = 0  # rounds done
        self._columns: dict[str, _Column] = {}

    def __getitem__(self, measure: str) -> float:
        return self._columns[measure].values[-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def history(self, measure: str) -> NDArray[np.float64]:
        """All values of a measure, the oldest first."""
        return np.array(self._columns[measure].values)

    def rounds(self, measure: str) -> NDArray[np.int64]:
        """The rounds done when each of these values was measured; 0 is the start."""
        return np.array(self._columns[measure].rounds, dtype=np.int64)

    @property
    def measured(self) -> Collection[str]:
        return self.keys()

    def last(self, measure: str) -> float | None:
        return self.get(measure)

    def best(self, measure: str, after: float, until: float) -> float | None:
        if (column := self._columns.get(measure)) is None:
            return None
        first, end = (bisect_right(column.rounds, at) for at in (after, until))
        if first == 0:
            return column.best[end - 1] if end else None
        better = min if column.lower_is_better else max
        return better(column.values[first:end], default=None)

    def _add(self, round_: int, row: Mapping[str, float]) -> None:
        self.round = round_
        for name, value in row.items():
            if name != "round":
                if name not in self._columns:
                    self._columns[name] = _Column(traits(name).lower_is_better)
                self._columns[name].add(round_, value)


@dataclass(frozen=True)
class Endings:
    """Lanes of a stack that end after a round, each with the reason."""

    stopped: Mapping[int, str] = field(default_factory=dict)  # by their rule: they are finished
    paused: Mapping[int, str] = field(default_factory=dict)  # by the callback: resumable

    @classmethod
    def shared(cls, ranks: RankGroup, found: "Endings") -> "Endings":
        """The endings that the first rank has found, on all ranks."""
        pairs = ranks.share([list(part.items()) for part in (found.stopped, found.paused)])
        return cls(*map(dict, pairs))


class StopDecider:
    """Decides at each evaluation which lanes end, from the values of each lane alone."""

    def __init__(self, world: World, ask: Ask | None):
        """`ask` is the progress callback's `measured`, if it has one."""
        self._world, self._ask = world, ask
        self._values: dict[str, LaneValues] = {}

    def load(self, key: str, history: History, until: int) -> None:
        """Take the recorded values of a lane that resumes after `until` rounds."""
        values = self._values.setdefault(key, LaneValues())
        for i, round_ in enumerate(history["round"].tolist()):
            if round_ <= until:
                row = {name: float(column[i]) for name, column in history.items()}
                values._add(round_, {name: v for name, v in row.items() if not np.isnan(v)})

    def add(self, reading: Reading) -> dict[str, LaneValues]:
        """Take the values of a reading; returns those of its lanes, by key."""
        rows = reading.rows()
        for key, row in rows.items():
            self._values.setdefault(key, LaneValues())._add(reading.round, row)
        return {key: self._values[key] for key in rows}

    def decide(self, moment: Moment, values: Mapping[str, LaneValues]) -> Endings:
        stopped, paused = {}, {}
        lanes = zip(moment.stack.keys, moment.stack.experiments, strict=True)
        for lane, (key, one) in enumerate(lanes):
            if key not in values:
                continue
            if not moment.round and one.stop and not stopping.names_function(one.stop):
                check_measured(one.stop, values[key])
            if moment.round and (reason := _reason(moment, lane, values[key])):
                stopped[lane] = reason
            asked = self._ask(one, values[key]) if self._ask is not None else None
            asked = _as_reason(asked, "the method measured of the progress callback")
            if asked and lane not in stopped and moment.round:
                paused[lane] = asked
        return Endings(stopped, paused) if moment.round < self._world.rounds else Endings()


def _reason(moment: Moment, lane: int, values: LaneValues) -> str:
    """Why the stop rule of a lane ends it; empty if it goes on."""
    text = moment.stack.experiments[lane].stop
    if not text:
        return ""
    if not stopping.names_function(text):
        return stopping.parse_rule(text).reason(values)
    with registry.users_own(stopping.KIND, text):
        rule = bind(stopping.KIND, registry.resolve(stopping.KIND, text))
        found = rule(values, context=measure_context(moment, lane))
    name = text.rpartition(":")[2].partition("@")[0]
    return _as_reason(found, f"{stopping.KIND} '{text}'", name)


def check_measured(text: str, values: LaneValues) -> None:
    """Raise SkerryError if a rule names a measure that the start of the run lacks: this task or
    model does not have it, and the rule would never be met."""
    for name in stopping.parse_rule(text).measures():
        scores = name in MEASURES and MEASURES[name].group in ("average", "devices", "fairness")
        if scores and name not in values:
            found = ", ".join(one for one in MEASURES if one in values)
            raise SkerryError(
                f"stop names {name}, which is not measured with this task and model (got "
                f"'{text}'). Measured at the start: {found}."
            )


def _as_reason(found: Any, what: str, name: str = "") -> str:
    """The reason that a user's function gives; empty if the run goes on. `name` is short for
    `what`."""
    if found is None or isinstance(found, bool | np.bool_):
        return f"{name or what} returned True" if found else ""
    if isinstance(found, str):
        return printable(found)[:LONGEST]
    raise SkerryError(
        f"{what} must return the reason to stop as text, or True, or False or None to go on (got "
        f"{type(found).__name__})."
    )
