"""Results: the runs of a study with their histories and final values."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from skerry.analysis.run_table import RunTable
from skerry.analysis.statistics import estimate
from skerry.config import labels, schedules
from skerry.config.experiment import Experiment
from skerry.config.measures import headline, traits
from skerry.config.presets import fields_of_preset
from skerry.errors import SkerryError, unknown
from skerry.plugins import registry
from skerry.plugins.fingerprint import as_text
from skerry.records.parts import last_values
from skerry.records.store import Run, Store, models_file

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from torch import Tensor

    from skerry.engine.world import Materials
    from skerry.plugins.context import Parameter
    from skerry.records.final_models import FinalModels


@dataclass(frozen=True)
class Lane:
    """One run, with its experiment, status, history and final values."""

    key: str
    experiment: Experiment
    status: str
    final: dict[str, float]
    """The last value of every measure."""
    history: dict[str, np.ndarray]
    """`round` (rounds done) and one column per measure, NaN where it was not measured."""
    note: str = ""
    """Why it stopped early, diverged or failed."""
    run: Run | None = field(default=None, compare=False)
    """The entry of the run in the store."""
    kept: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Models and device scores, where the caller asked to keep them."""
    folder: Path | None = field(default=None, compare=False, repr=False)
    """The folder of the store that the run was read from."""

    def __repr__(self) -> str:
        about = f"{self.label}, seed {self.experiment.seed}, {self.status}"
        first = headline(self.final)
        return f"<Lane: {about}{f', {first} {self.final[first]:.4g}' if first else ''}>"

    def _repr_html_(self) -> str:
        return str(registry.view("html_of_lane")(self))

    @property
    def models(self) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """The models of all devices at the end as flat vectors, [devices, parameters]."""
        return self._models.X_nd.numpy()

    @property
    def parameters(self) -> "tuple[Parameter, ...]":
        """Names, shapes and places of the parameters in a row of `models`."""
        return self._models.parameters

    def state_dict(
        self, device: str | int = "average", *, island: str | None = None
    ) -> "dict[str, Tensor]":
        """The final weights of a device (its name or row), or the average over all devices or over
        those of an island, by their names in the module."""
        return self._models.state_dict(device, island)

    def model(
        self, device: str | int = "average", *, island: str | None = None
    ) -> "torch.nn.Module":
        """A new nn.Module with the weights that `state_dict` gives, on the CPU, in eval mode.

        x, y = lane.data("test")
        accuracy = 100 * (lane.model("average")(x).argmax(1) == y).float().mean()
        """
        from skerry.analysis.modules import load_module

        known = {} if self.run is None else self.run.materials
        if "materials" not in self.kept and self.experiment.key(known) != self.key:
            raise SkerryError(
                f"the code that run {self.key} names has changed since, or another version of "
                "skerry recorded it. Take lane.state_dict(...) and load it into a module of yours."
            )
        state, recorded = self.state_dict(device, island=island), known.get("dataset")
        return load_module(self.experiment, self._materials, state, recorded)

    def data(self, part: Literal["train", "test"] = "test") -> "tuple[Tensor, Tensor]":
        """Inputs and targets, scaled as the models of this run get them (`data.scaling`). Test data
        are those that all devices are scored on."""
        from skerry.analysis.modules import load_samples

        recorded = None if self.run is None else self.run.materials.get("dataset")
        return load_samples(self.experiment, self._materials, part, recorded)

    @property
    def _materials(self) -> "Materials":
        from skerry.engine.world import Materials

        return self.kept.get("materials") or Materials()

    @cached_property
    def _models(self) -> "FinalModels":
        from skerry.records.final_models import FinalModels

        if (
            "models" not in self.kept
            and self.folder
            and models_file(self.folder, self.key).exists()
        ):
            return FinalModels.load(self.folder, self.key)
        models: FinalModels = self._kept("models")
        return models

    @property
    def devices(self) -> "pd.DataFrame":
        """The scores of every device at the end, with its island, name and number of samples."""
        import pandas as pd

        return pd.DataFrame(self._kept("devices"))

    def _kept(self, what: str) -> Any:
        if what == "models" and self.status not in ("finished", "running"):
            raise SkerryError(f"run {self.key} has {self.status}, so it has no final models.")
        if what not in self.kept:
            raise SkerryError(
                f"the {what} of run {self.key} were not kept. Call skerry.run(..., "
                f"keep_{what}=True), with again=True if the run is already recorded."
            )
        return self.kept[what]

    @property
    def label(self) -> str:
        return self.experiment.server.label

    def named(self, name: str) -> "Lane":
        """A copy of the lane with another `server.name`."""
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
    """The lanes of a study, in the order in which they were requested."""

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
        return str(registry.view("html_of_results")(self))

    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """Draw the curves of all lanes, or any kind of `skerry figure` (curves, gap, sensitivity,
        front, cost, bound, network, labels) with its options: `plot("curves",
        measure="own_accuracy", by="period")`. A notebook shows the result; its `.save("a.pdf")`
        writes it, `.figure` is the matplotlib figure, `.notes` say what it leaves out."""
        return registry.view("plot")(self, kind, **options)

    def keeping(self, **tables: Mapping[str, Any]) -> "Results":
        """A copy of the results with kept models or device scores, given by lane key."""
        if not any(tables.values()):
            return self
        kept = {
            lane.key: {
                what: table[lane.key]
                for what, table in tables.items()
                if table.get(lane.key) is not None
            }
            for lane in self
        }
        return Results(tuple(replace(lane, kept=kept[lane.key]) for lane in self))

    def table(self) -> RunTable:
        """The recorded lanes as a table of runs, for tables and figures."""
        return RunTable(
            tuple(replace(lane.run, experiment=lane.experiment) for lane in self if lane.run),
            {lane.key: lane.history for lane in self},
            Path("these results"),
        )

    def of(self, primitive: str | Callable[..., Any]) -> "Results":
        """Only the lanes of one primitive, such as "s2a", "blend:0.5", "blend(0.5)", or your own
        function."""
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
                {"key": lane.key, "label": lane.label, "seed": lane.experiment.seed}
                | {"status": lane.status}
                | lane.history
            )
            for lane in self.lanes
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def summary(self, *measures: str) -> "pd.DataFrame":
        """A row per label: mean over seeds of the final values, and half of the 95 % interval."""
        import pandas as pd

        known = dict.fromkeys(measure for lane in self for measure in lane.final)
        for measure in measures:
            if measure not in known:
                raise SkerryError(unknown("measure", measure, known))
        rows: dict[str, dict[str, float]] = {}
        for name in self.labels():
            row = rows.setdefault(name, {})
            for measure in measures or known:
                found = estimate(self.of(name).final(measure))
                row |= {measure: found.mean, f"{measure} ±": found.half_width}
        return pd.DataFrame.from_dict(rows, orient="index")

    def to_json(self, histories: bool = True) -> dict[str, Any]:
        return {"lanes": [lane.to_json(histories) for lane in self.lanes]}


def results_of(store: Store, keys: Iterable[str]) -> Results:
    """The recorded runs with these keys, in the order of the keys."""
    table = RunTable.from_store(store, keys)
    return Results(tuple(_lane(run, table) for run in table.runs))


def _lane(run: Run, table: RunTable) -> Lane:
    history = table.histories[run.key]
    final, path = last_values(history), table.path
    folder = path if path.is_dir() else path.parent
    return Lane(run.key, run.experiment, run.status, final, history, run.note, run, folder=folder)


def _plain(name: str, value: float) -> float | int | None:
    """A value for JSON, which has no NaN or infinity; counts are whole numbers."""
    if not math.isfinite(value):
        return None
    return int(value) if name == "round" or traits(name).is_count else value


def read_studies(folder: Path) -> list[Results]:
    """The runs of a store, grouped into studies: all runs that differ only in seed, primitive and
    preset are one study."""
    table = RunTable.read(folder)
    studies: list[_Study] = []
    known: dict[str, _Study] = {}
    for run in table.runs:
        own = _Study.of(run)
        study = known.get(own.text)
        if study is None:
            study = next((one for one in studies if one.may_hold(own)), None)
        if study is None:
            studies.append(study := own)
        elif study.hidden and not own.hidden:
            study.fields, study.hidden = own.fields, own.hidden
        known.setdefault(own.text, study)
        study.lanes.append(_lane(run, table))
    return [Results(tuple(study.lanes)) for study in studies]


@dataclass
class _Study:
    """Runs that differ only in seed, primitive and preset, while the runs are being grouped."""

    fields: dict[str, str]
    """The fields that all of its runs have in common, as JSON."""
    hidden: set[str]
    """The fields that are known only through the name of a preset."""
    lanes: list[Lane]

    @classmethod
    def of(cls, run: Run) -> "_Study":
        """The study that contains only this run."""
        same = {"primitive": labels.BLEND, "beta": 0.5, "beta_schedule": schedules.CONSTANT}
        server = run.experiment.server.model_copy(update=same)
        plain = run.experiment.model_copy(update={"seed": 0, "server": server})
        fields = {"name": run.name}
        for section, value in plain.deciding().items():
            pairs = value if isinstance(value, dict) else {"": value}
            fields |= {f"{section}.{name}".rstrip("."): json.dumps(v) for name, v in pairs.items()}
        return cls(fields, fields_of_preset(run.experiment), [])

    @property
    def text(self) -> str:
        return json.dumps([sorted(self.fields.items()), sorted(self.hidden)])

    def may_hold(self, other: "_Study") -> bool:
        """Whether the runs of both agree in all fields that no preset sets."""
        hidden = self.hidden | other.hidden
        if not hidden:
            return False  # without presets, runs of one study have the same `text`
        # An option is in one table only if the functions differ, which other fields show.
        names = (self.fields.keys() & other.fields.keys()) - hidden
        return all(self.fields.get(name) == other.fields.get(name) for name in names)
