"""What a driver hands out, a stack of lanes, and the news that come back of it.

Tasks and news travel between processes and machines as lines of JSON.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from skerry.config.experiment import Experiment
from skerry.engine.world import World
from skerry.errors import RecordsError, SkerryError, is_out_of_memory, one_line
from skerry.measure.device_scores import DeviceTable
from skerry.records.parts import Part
from skerry.records.store import Status
from skerry.runs.memory import Footprint


@dataclass(frozen=True)
class Survey:
    """What must be known of a world before its runs are planned."""

    fingerprints: dict[str, str]
    """Of what lies outside the experiment's text; they are part of every run's key."""
    devices: int
    footprint: Footprint
    world: World | None = None
    """The world itself, where it was built in this process."""

    def keeping(self, experiments: Iterable[Experiment]) -> "Survey":
        """With room for what the methods of these lanes keep."""
        return replace(self, footprint=self.footprint.keeping(experiments))

    def to_json(self) -> str:
        return json.dumps(
            {
                "fingerprints": self.fingerprints,
                "devices": self.devices,
                "footprint": asdict(self.footprint),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Survey":
        table = json.loads(text)
        return cls(table["fingerprints"], table["devices"], Footprint(**table["footprint"]))


@dataclass(frozen=True, eq=False)
class Task:
    """Lanes of one world that run together in one place."""

    experiments: tuple[Experiment, ...]
    survey: Survey
    attempts: int = 0
    """How often a worker was lost over it."""
    deterministic: bool = False
    """Whether its run is to repeat to the bit; it is alone then (runs/determinism.py)."""

    def __len__(self) -> int:
        return len(self.experiments)

    @cached_property
    def world(self) -> str:
        return self.experiments[0].world_key(self.survey.fingerprints)

    @cached_property
    def keys(self) -> list[str]:
        return [experiment.key(self.survey.fingerprints) for experiment in self.experiments]

    @cached_property
    def name(self) -> str:
        """Of the world and of these very lanes."""
        lanes = hashlib.sha256("".join(self.keys).encode()).hexdigest()[:8]
        return f"{self.world}-{lanes}{'-alone' if self.deterministic else ''}"

    @property
    def steps(self) -> int:
        """Device-steps from start to end."""
        first = self.experiments[0]
        return len(self) * first.rounds * self.survey.devices * first.training.local_steps

    def mean_round(self, tick: "Tick") -> int:
        """How far its lanes are: some may go on from a later round than others."""
        return tick.steps * self.experiments[0].rounds // self.steps

    def of(self, experiments: Sequence[Experiment]) -> "Task":
        """The same for some of its lanes."""
        return replace(self, experiments=tuple(experiments), attempts=0)


@dataclass(frozen=True)
class Tick:
    """How far a stack is."""

    round: int
    steps: int
    """Device-steps that are done, those before an interruption included."""
    fresh: int
    """Those of them that were computed now."""


@dataclass(frozen=True)
class Outcome:
    """A run that a worker has finished."""

    key: str
    status: Status
    device: str
    versions: dict[str, str]
    wall_seconds: float
    note: str
    measures: tuple[str, ...]
    history: str
    """Its part's blob (records/parts.py) in base 64."""
    devices: DeviceTable | None = None
    """What every device scored in the last round."""

    @staticmethod
    def encoded(columns: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
        part = Part.from_columns(columns)
        return part.names, base64.b64encode(part.to_blob()).decode()

    def columns(self) -> dict[str, Any]:
        part = Part.from_blob(tuple(self.measures), base64.b64decode(self.history))
        return dict(zip(("round", *part.names), part.matrix, strict=True))


@dataclass(frozen=True)
class Done:
    """A stack is at its end. Outcomes are empty where the rows are in the store already."""

    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class TooBig:
    """A stack did not fit into memory."""

    message: str
    error: Exception | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Failed:
    """A stack met an error of its own: it would meet it again."""

    message: str
    whole_world: bool = False
    """Whether every lane of the world would."""
    error: Exception | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Lost:
    """The worker is gone; elsewhere the stack may come to its end."""

    message: str


@dataclass(frozen=True)
class Stuck:
    """A worker cannot write its records, so no other could."""

    message: str


News = Tick | Done | TooBig | Failed | Lost | Stuck

_KINDS = {kind.__name__: kind for kind in (Tick, Done, TooBig, Failed, Lost, Stuck)}


def news_of(error: Exception) -> News:
    """What an error in a stack means for the rest of the sweep."""
    if is_out_of_memory(error):
        error.__traceback__ = error.__context__ = None  # they hold the tensors that filled it
        return TooBig(f"out of memory ({one_line(error)})", error)
    if isinstance(error, RecordsError):
        return Stuck(str(error))
    return Failed(said(error), error=error)


def said(error: Exception) -> str:
    """An error in a line."""
    return "; ".join(error.faults) if isinstance(error, SkerryError) else one_line(error)


def to_line(news: News) -> str:
    table = {f.name: getattr(news, f.name) for f in fields(news) if f.name != "error"}
    if isinstance(news, Done):
        table["outcomes"] = [asdict(outcome) for outcome in news.outcomes]
    return json.dumps({"news": type(news).__name__, **table})


def from_line(line: str) -> News:
    table = json.loads(line)
    kind = _KINDS[table.pop("news")]
    if kind is Done:
        return Done(tuple(Outcome(**outcome) for outcome in table["outcomes"]))
    return kind(**table)
