"""Results: the runs of a study and what came of them."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry import labels
from skerry.analysis.statistics import estimate
from skerry.errors import SkerryError, unknown
from skerry.experiment import Experiment
from skerry.measures import traits
from skerry.records.parts import History, last_values
from skerry.records.store import Run, Store

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Lane:
    """One run and what came of it."""

    key: str
    experiment: Experiment
    status: str
    final: dict[str, float]
    """The last value of every measure."""
    history: dict[str, np.ndarray]
    """`round` (rounds done) and one column per measure, NaN where it was not measured."""
    note: str = ""
    """Why it diverged or failed."""

    @property
    def label(self) -> str:
        return self.experiment.server.label

    def to_json(self, history: bool = True) -> dict[str, Any]:
        table: dict[str, Any] = {
            "key": self.key,
            "experiment": self.experiment.model_dump(mode="json"),
            "status": self.status,
            "final": {name: _plain(name, value) for name, value in self.final.items()},
        }
        if self.note:
            table["note"] = self.note
        if history:
            table["history"] = {
                name: [_plain(name, value) for value in values.tolist()]
                for name, values in self.history.items()
            }
        return table


@dataclass(frozen=True)
class Results(Sequence[Lane]):
    """The lanes of a study, in the order they were asked for."""

    lanes: tuple[Lane, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.lanes[index]

    def __len__(self) -> int:
        return len(self.lanes)

    def __repr__(self) -> str:
        seeds = len({lane.experiment.seed for lane in self.lanes})
        return f"<Results: {len(self)} lanes, {', '.join(self.labels())}, seeds: {seeds}>"

    def of(self, primitive: str) -> "Results":
        """Only the lanes of this primitive, such as "s2a", "blend:0.5" or "blend(0.5)"."""
        wanted = labels.meant(primitive, self.labels())
        return Results(tuple(lane for lane in self.lanes if lane.label == wanted))

    def labels(self) -> list[str]:
        return list(dict.fromkeys(lane.label for lane in self.lanes))

    def final(self, measure: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The final value in every lane (NaN where it was not measured)."""
        return np.array([lane.final.get(measure, np.nan) for lane in self.lanes])

    def frame(self) -> "pd.DataFrame":
        """All histories as one pandas frame: a row per lane and round."""
        import pandas as pd

        parts = [
            pd.DataFrame(
                {"key": lane.key, "label": lane.label, "seed": lane.experiment.seed} | lane.history
            )
            for lane in self.lanes
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def summary(self, *measures: str) -> "pd.DataFrame":
        """A row per label: mean over seeds of the final values, and half of the 95 % interval."""
        import pandas as pd

        there = dict.fromkeys(measure for lane in self for measure in lane.final)
        for measure in measures:
            if measure not in there:
                raise SkerryError(unknown("measure", measure, there))
        rows = {}
        for name in self.labels():
            lanes = self.of(name)
            rows[name] = {
                column: value
                for measure in measures or there
                for column, value in _mean_and_half(measure, lanes.final(measure))
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def to_json(self, histories: bool = True) -> dict[str, Any]:
        return {"lanes": [lane.to_json(histories) for lane in self.lanes]}


def _mean_and_half(measure: str, values: Any) -> list[tuple[str, float]]:
    found = estimate(values)
    return [(measure, found.mean), (f"{measure} ±", found.half_width)]


def results_of(store: Store, keys: Iterable[str]) -> Results:
    """What is recorded of these runs, in their order."""
    wanted = dict.fromkeys(keys)
    lanes = {run.key: _lane(run, history) for run, history in store.histories(wanted.keys())}
    return Results(tuple(lanes[key] for key in wanted))


def _lane(run: Run, history: History) -> Lane:
    return Lane(run.key, run.experiment, run.status, last_values(history), history, run.note)


def _plain(name: str, value: float) -> float | int | None:
    """JSON has no NaN or infinity; counts are whole numbers."""
    if not math.isfinite(value):
        return None
    return int(value) if name == "round" or traits(name).is_count else value


def recorded(folder: Path) -> list[Results]:
    """What a folder holds: runs that differ only in seed and primitive form one study."""
    with Store.read(folder) as store:
        studies: dict[str, list[Lane]] = {}
        for run, history in store.histories():
            server = run.experiment.server.model_copy(
                update={"primitive": labels.BLEND, "beta": 0.5}
            )
            plain = run.experiment.model_copy(update={"seed": 0, "server": server})
            study = json.dumps(plain.deciding(), sort_keys=True) + run.name
            studies.setdefault(study, []).append(_lane(run, history))
    return [Results(tuple(lanes)) for lanes in studies.values()]
