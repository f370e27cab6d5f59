"""Results: the runs of a study with their histories and final values."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from skerry.analysis.frame import summary_type
from skerry.analysis.names import LABEL_SOURCE, Fields, fields_of_runs, tell_apart
from skerry.analysis.run_table import STUDY, RunTable
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

V = TypeVar("V")
MOST_LABELS = 8  # labels that one line names at most


class ByMeasure(dict[str, V]):
    """Values by measure. A name that is none raises an error with the most similar one."""

    def __missing__(self, name: str) -> V:
        raise SkerryError(unknown("measure", name, self))


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
    apart: str = field(default="", compare=False)
    """The end of the label, by which the results tell experiments apart."""

    def __repr__(self) -> str:
        about = f"{self.label}, seed {self.experiment.seed}, {self.status}"
        first = headline(self.final)
        return f"<Lane: {about}{f', {first} {self.final[first]:.4g}' if first else ''}>"

    def _repr_html_(self) -> str:
        return str(registry.view("html_of_lane")(self))

    @property
    def materials(self) -> Mapping[str, str]:
        """Fingerprints of the graph, data and model that are not in the experiment's text."""
        return self.run.materials if self.run else {}

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of software that computed the run, and hashes of the user's own code."""
        return self.run.versions if self.run else {}

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

        folder = None if "models" in self.kept else self.folder
        if folder and models_file(folder, self.key).exists():
            return FinalModels.load(folder, self.key)
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
        """The primitive or preset, and the fields in which experiments of a list differ: `s2s`, or
        `s2s · period 5` beside `s2s · period 10`."""
        return self.experiment.server.label + self.apart

    def as_asked(self, asked: Experiment) -> "Lane":
        """A copy of the lane with the `server.name` and the paths of an experiment of its key."""
        found = self.experiment
        for path, value in {"server.name": asked.server.name, **asked.paths()}.items():
            section, _, field = path.partition(".")
            part = getattr(found, section)
            if getattr(part, field) != value:
                changed = part.model_copy(update={field: value})
                found = found.model_copy(update={section: changed})
        return self if found is self.experiment else replace(self, experiment=found)

    def to_json(self, history: bool = True) -> dict[str, Any]:
        table: dict[str, Any] = {
            "key": self.key,
            "experiment": self.experiment.as_written("json"),
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
    """The lanes of a study, in the order in which they were requested. Experiments that differ in
    more than seed and primitive have labels that tell them apart, and are never averaged."""

    lanes: tuple[Lane, ...]
    measures: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """The measures that any lane has, or any lane of the results that these are a part of."""

    def __post_init__(self) -> None:
        if not self.measures:  # else these are a part of other results, and keep their labels
            fields = fields_of_runs(self.lanes)
            ends = tell_apart([fields[lane.key] for lane in self.lanes])
            told = zip(self.lanes, ends, strict=True)
            object.__setattr__(self, "lanes", tuple(replace(one, apart=end) for one, end in told))
            known = (name for lane in self.lanes for name in (*lane.final, *lane.history))
            object.__setattr__(self, "measures", frozenset(known) - {"round"})

    @overload
    def __getitem__(self, index: int) -> Lane: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Lane, ...]: ...
    def __getitem__(self, index: int | slice) -> Lane | tuple[Lane, ...]:
        return self.lanes[index]

    def __len__(self) -> int:
        return len(self.lanes)

    def __repr__(self) -> str:
        seeds, found = len({lane.experiment.seed for lane in self.lanes}), self.labels()
        more = f" and {len(found) - MOST_LABELS} more labels" if len(found) > MOST_LABELS else ""
        shown = ", ".join(found[:MOST_LABELS])
        return f"<Results: {len(self)} lanes, {shown}{more}, seeds: {seeds}>"

    def _repr_html_(self) -> str:
        return str(registry.view("html_of_results")(self))

    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """Draw the curves of all lanes, or any kind of `skerry figure` (curves, gap, sensitivity,
        front, cost, timeline, bound, network, labels) with its options: `plot("curves",
        measure="own_accuracy", over="seconds", clock="wifi_home")`. A notebook shows the result;
        its `.save("a.pdf")` writes it, `.figure` is the matplotlib figure, `.notes` say what it
        leaves out."""
        return registry.view("plot")(self, kind, **options)

    def keeping(self, **tables: Mapping[str, Any]) -> "Results":
        """A copy of the results with kept models or device scores, given by lane key."""
        if not any(tables.values()):
            return self

        def kept(key: str) -> dict[str, Any]:
            found = {what: table.get(key) for what, table in tables.items()}
            return {what: one for what, one in found.items() if one is not None}

        return self._only(replace(lane, kept=kept(lane.key)) for lane in self)

    def once(self) -> "Results":
        """Each run once, also where it was requested twice."""
        first: dict[str, Lane] = {}
        for lane in self.lanes:
            first.setdefault(lane.key, lane)
        return self._only(first.values())

    def table(self) -> RunTable:
        """The recorded lanes as a table of runs, for tables and figures."""
        lanes = self.once()
        return RunTable(
            tuple(replace(lane.run, experiment=lane.experiment) for lane in lanes if lane.run),
            {lane.key: lane.history for lane in lanes},
            (Path("these results"),),
        )

    def of(self, primitive: str | Callable[..., Any]) -> "Results":
        """Only the lanes of one label, such as "s2a", "blend:0.5" or "s2s · period 5", or of your
        own function. Where experiments differ, "s2a" means the lanes of all of them."""
        name = labels.write_label(as_text(primitive)) if callable(primitive) else primitive
        bare = list(dict.fromkeys(lane.experiment.server.label for lane in self.lanes))
        if labels.APART in name:
            wanted, among = labels.find_label(name, self.labels()), self.lanes
            return self._only(lane for lane in among if lane.label == wanted)
        wanted = labels.find_label(name, bare)
        return self._only(lane for lane in self.lanes if lane.experiment.server.label == wanted)

    def _only(self, lanes: Iterable[Lane]) -> "Results":
        return replace(self, lanes=tuple(lanes))

    def labels(self) -> list[str]:
        return list(dict.fromkeys(lane.label for lane in self.lanes))

    def by_label(self) -> dict[str, "Results"]:
        """By label its runs, each once: these differ only in the seed."""
        lanes: dict[str, list[Lane]] = {}
        for lane in self.once():
            lanes.setdefault(lane.label, []).append(lane)
        return {label: self._only(found) for label, found in lanes.items()}

    def final(self, measure: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The final value in every lane (NaN where it was not measured). A measure that no lane has
        raises an error."""
        if self.measures and measure not in self.measures:
            raise SkerryError(unknown("measure", measure, self.measures))
        return np.array([lane.final.get(measure, np.nan) for lane in self.lanes])

    def frame(self) -> "pd.DataFrame":
        """All histories as one pandas frame: a row per run and round."""
        import pandas as pd

        parts = [
            pd.DataFrame(
                {"key": lane.key, "label": lane.label, "seed": lane.experiment.seed}
                | {"status": lane.status}
                | lane.history
            )
            for lane in self.once()
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def summary(self, *measures: str) -> "pd.DataFrame":
        """A row per label: mean over seeds of the final values, and half of the 95 % interval.
        Without arguments it has all measures, and shows the most important ones, as many as fit."""
        import pandas as pd

        known = dict.fromkeys(measure for lane in self for measure in lane.final)
        rows: dict[str, dict[str, float]] = {}
        for name, lanes in self.by_label().items():
            row = rows.setdefault(name, {})
            for measure in measures or known:
                found = estimate(lanes.final(measure))
                row |= {measure: found.mean, f"{measure} ±": found.half_width}
        frame = pd.DataFrame.from_dict(rows, orient="index")
        return frame if measures or frame.empty else summary_type()(frame)

    def to_json(self, histories: bool = True) -> dict[str, Any]:
        return {"lanes": [lane.to_json(histories) for lane in self.lanes]}


def results_of(store: Store, keys: Iterable[str]) -> Results:
    """The recorded runs with these keys, in the order of the keys; a key may be there twice."""
    keys = list(keys)
    table = RunTable.from_store(store, keys)
    lanes = {run.key: _lane(run, table) for run in table.runs}
    return Results(tuple(lanes[key] for key in keys))


def _lane(run: Run, table: RunTable) -> Lane:
    history, [path] = table.histories[run.key], table.paths
    return Lane(
        run.key,
        run.experiment,
        run.status,
        ByMeasure(last_values(history)),
        ByMeasure(history),
        run.note,
        run,
        folder=path if path.is_dir() else path.parent,
    )


def _plain(name: str, value: float) -> float | int | None:
    """A value for JSON, which has no NaN or infinity; counts are whole numbers."""
    if not math.isfinite(value):
        return None
    return int(value) if name == "round" or traits(name).is_count else value


def read_studies(folder: Path) -> list[Results]:
    """The runs of a store, grouped into studies: all runs that differ only in seed, primitive and
    preset are one study. Other versions of data or code make another study."""
    table = RunTable.read(folder).numbered()
    studies: list[_Study] = []
    known: dict[str, _Study] = {}
    for run in table.runs:
        own = _Study.of(run, table.fields[run.key])
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

    fields: dict[str, str]  # the fields that all of its runs have in common, as JSON
    hidden: set[str]  # the fields that are known only through the name of a preset
    lanes: list[Lane]

    @classmethod
    def of(cls, run: Run, cell: Fields) -> "_Study":
        """The study that contains only this run. `cell` are its fields in the table of runs."""
        same = {"primitive": labels.BLEND, "beta": 0.5, "beta_schedule": schedules.CONSTANT}
        server = run.experiment.server.model_copy(update=same)
        plain = run.experiment.model_copy(update={"seed": 0, "server": server})
        fields = {"name": run.name, **{n: str(cell.get(n)) for n in (STUDY, "network.graph")}}
        fields |= {n: v for n, v in cell.items() if n.endswith(".source") and n != LABEL_SOURCE}
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
