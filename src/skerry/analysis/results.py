"""Results: the runs of a study and what came of them."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from skerry.analysis.recorded import Recorded
from skerry.analysis.statistics import estimate
from skerry.config import labels, schedules
from skerry.config.experiment import Experiment
from skerry.config.measures import headline, traits
from skerry.config.presets import fields_of_preset
from skerry.errors import SkerryError, unknown
from skerry.plugins import registry
from skerry.plugins.fingerprint import as_text
from skerry.records.parts import History, last_values
from skerry.records.store import Run, Store

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Picture(Protocol):
    """What `plot` gives."""

    @property
    def figure(self) -> "Figure":
        """Matplotlib's, to change it by hand."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What it does not show."""

    def save(self, path: str | Path, dpi: int = 200) -> Path:
        """Write it as .png, .pdf or .svg."""


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
    run: Run | None = field(default=None, compare=False)
    """Its entry in the records."""
    kept: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was kept on request: models, devices."""

    def __repr__(self) -> str:
        told = f"{self.label}, seed {self.experiment.seed}, {self.status}"
        first = headline(self.final)
        return f"<Lane: {told}{f', {first} {self.final[first]:.4g}' if first else ''}>"

    def _repr_html_(self) -> str:
        return str(registry.view("lane")(self))

    @property
    def models(self) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """The models of all devices at the end, a row of flat parameters for each, with the places
        between layers that nothing is kept in."""
        models: np.ndarray[Any, np.dtype[np.float32]] = self._on_request("models")
        return models

    @property
    def devices(self) -> "pd.DataFrame":
        """What every device scored at the end: island, device, samples, and its scores."""
        import pandas as pd

        return pd.DataFrame(self._on_request("devices"))

    def _on_request(self, what: str) -> Any:
        if what not in self.kept:
            raise SkerryError(
                f"{what} are kept on request (run {self.key}). Call skerry.run(..., "
                f"keep_{what}=True); a run that is recorded already needs again=True, too."
            )
        return self.kept[what]

    @property
    def label(self) -> str:
        return self.experiment.server.label

    def named(self, name: str) -> "Lane":
        """The same run under another `server.name`."""
        server = self.experiment.server
        if server.name == name:
            return self
        renamed = server.model_copy(update={"name": name})
        return replace(self, experiment=self.experiment.model_copy(update={"server": renamed}))

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

    @overload
    def __getitem__(self, index: int) -> Lane: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Lane, ...]: ...
    def __getitem__(self, index: int | slice) -> Lane | tuple[Lane, ...]:
        return self.lanes[index]

    def __len__(self) -> int:
        return len(self.lanes)

    def __repr__(self) -> str:
        seeds = len({lane.experiment.seed for lane in self.lanes})
        return f"<Results: {len(self)} lanes, {', '.join(self.labels())}, seeds: {seeds}>"

    def _repr_html_(self) -> str:
        return str(registry.view("results")(self))

    def plot(self, kind: str | None = None, **options: Any) -> Picture:
        """A picture: the curves of a first look, or any kind of `skerry figure` (curves, gap,
        sensitivity, front, cost, bound, network, labels) with its options: `plot("curves",
        measure="own_accuracy", by="period")`. A notebook shows it; `.save("a.pdf")` writes it."""
        picture: Picture = registry.view("plot")(self, kind, **options)
        return picture

    def keeping(self, **tables: Mapping[str, Any]) -> "Results":
        """With what was kept of some lanes, by their keys."""
        if not any(tables.values()):
            return self
        return Results(
            tuple(
                replace(
                    lane,
                    kept={
                        what: table[lane.key]
                        for what, table in tables.items()
                        if table.get(lane.key) is not None
                    },
                )
                for lane in self
            )
        )

    def as_recorded(self) -> Recorded:
        """The same runs as those of a store, for tables and figures."""
        return Recorded(
            Path("these results"),
            tuple(replace(lane.run, experiment=lane.experiment) for lane in self if lane.run),
            {lane.key: lane.history for lane in self},
        )

    def of(self, primitive: str | Callable[..., Any]) -> "Results":
        """Only the lanes of this primitive, such as "s2a", "blend:0.5", "blend(0.5)", or a function
        of yours."""
        name = labels.write_label(as_text(primitive)) if callable(primitive) else primitive
        wanted = labels.find_label(name, self.labels())
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
    final = last_values(history)
    return Lane(run.key, run.experiment, run.status, final, history, run.note, run)


def _plain(name: str, value: float) -> float | int | None:
    """JSON has no NaN or infinity; counts are whole numbers."""
    if not math.isfinite(value):
        return None
    return int(value) if name == "round" or traits(name).is_count else value


def recorded(folder: Path) -> list[Results]:
    """What a folder holds: runs that differ only in seed, primitive and preset form one study."""
    with Store.read(folder) as store:
        found = store.histories()
    studies: list[_Study] = []
    known: dict[str, _Study] = {}
    for run, history in found:
        mine = _Study.of(run)
        study = known.get(mine.text)
        # A preset says nothing of the fields that it sets: it goes with any study but for them.
        if study is None:
            study = next((one for one in studies if one.may_hold(mine)), None)
        if study is None:
            studies.append(study := mine)
        elif study.told and not mine.told:
            study.table, study.told = mine.table, mine.told
        known.setdefault(mine.text, study)
        study.lanes.append(_lane(run, history))
    return [Results(tuple(study.lanes)) for study in studies]


@dataclass
class _Study:
    table: dict[str, str]
    """What all its runs have in common, by field."""
    told: set[str]
    """The fields of which only a preset's name is known."""
    lanes: list[Lane]

    @classmethod
    def of(cls, run: Run) -> "_Study":
        """The study that a run alone would be."""
        same = {"primitive": labels.BLEND, "beta": 0.5, "beta_schedule": schedules.CONSTANT}
        server = run.experiment.server.model_copy(update=same)
        plain = run.experiment.model_copy(update={"seed": 0, "server": server})
        table = {"name": run.name}
        for section, value in plain.deciding().items():
            fields = value if isinstance(value, dict) else {"": value}
            table |= {f"{section}.{name}".rstrip("."): json.dumps(v) for name, v in fields.items()}
        return cls(table, fields_of_preset(run.experiment), [])

    @property
    def text(self) -> str:
        return json.dumps([sorted(self.table.items()), sorted(self.told)])

    def may_hold(self, other: "_Study") -> bool:
        told = self.told | other.told
        if not told:
            return False  # they are two studies, or `text` would be the same
        # An option is in one table only where their functions differ, which other fields tell.
        fields = (self.table.keys() & other.table.keys()) - told
        return all(self.table.get(one) == other.table.get(one) for one in fields)
