"""The experiment: what is run, in words. Typed, frozen, TOML in and out; its checks live here."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError, ValidationInfo, model_validator

from skerry.config import methods, schedules
from skerry.config.explain import any_inside, explain, faulty_paths, without_faulty
from skerry.config.fields import (
    AtLeastZero,
    Count,
    Data,
    Evaluate,
    Fleet,
    Method,
    Model,
    Network,
    Server,
    Task,
    Training,
)
from skerry.config.section import Fault, Section, Takes, usual
from skerry.config.toml import apply_settings, parse_tables, read_tables, toml_key, toml_value
from skerry.errors import ExperimentError
from skerry.plugins import registry

__all__ = [
    "Count",
    "Data",
    "Evaluate",
    "Experiment",
    "Fleet",
    "Method",
    "Model",
    "Network",
    "Section",
    "Server",
    "Task",
    "Training",
]


class Experiment(Section):
    """One run: a fleet, its data, its model, how it trains, and how the server helps."""

    name: str = "two islands"
    """A label for people; it does not change the result."""
    seed: AtLeastZero = 0
    """Every random draw follows from it."""
    rounds: Count = 100
    """Rounds (T)."""
    network: Takes[Network | Mapping[str, Any], Network] = usual(Network())
    data: Takes[Data | Mapping[str, Any], Data] = usual(Data())
    task: Takes[Task | Mapping[str, Any], Task] = usual(Task())
    model: Takes[Model | Mapping[str, Any], Model] = usual(Model())
    training: Takes[Training | Mapping[str, Any], Training] = usual(Training())
    server: Takes[Server | Mapping[str, Any], Server] = usual(Server())
    fleet: Takes[Fleet | Mapping[str, Any], Fleet] = usual(Fleet())
    method: Takes[Method | Mapping[str, Any], Method] = usual(Method())
    evaluate: Takes[Evaluate | Mapping[str, Any], Evaluate] = usual(Evaluate())

    @model_validator(mode="after")
    def _rules(self, info: ValidationInfo) -> Self:
        """Rules between fields; those about a field that is faulty itself are left out."""
        faulty: Collection[str] = info.context or ()
        faults = [line for fields, line in self._faults() if not any_inside(fields, faulty)]
        if faults:
            raise ExperimentError(*faults)
        return self

    def _faults(self) -> Iterable[Fault]:
        """Every broken rule: of options, of a section, between sections."""
        for name, section in self._sections():
            for line in section.option_faults(name, _fields()):
                yield tuple(f"{name}.{field}" for field in section.naming.values()), line
        for _, section in self._sections():
            yield from section.faults()
        network, server = self.network, self.server
        if not network.mix_with_server and schedules.adapts(server, "period"):
            yield (
                ("network.mix_with_server", "server.period_schedule"),
                "network.mix_with_server = false needs server rounds that are known beforehand "
                f'(got server.period_schedule = "{server.period_schedule}"). Change one of them.',
            )
        yield from methods.method_faults(self)
        if network.is_file or self.data.split == "given":
            return  # The file or the data say how many devices there are: it is checked with them.
        yield from network.size_faults()
        for field in ("sampled", "sampled_end") if server.is_there else ():
            sampled = getattr(server, field)
            if sampled is not None and sampled > network.devices:
                yield (
                    ("server.primitive", f"server.{field}", "network.devices"),
                    f"server.{field} must be between 1 and network.devices (got {sampled} of "
                    f"{network.devices} devices). Lower server.{field} or raise network.devices.",
                )

    # Reading and writing

    @classmethod
    def parse(cls, table: Mapping[str, Any], settings: Iterable[str] = ()) -> "Experiment":
        """An experiment from nested tables, with `section.field=value` settings on top."""
        return cls._read(*apply_settings(table, settings))

    @classmethod
    def _read(cls, table: dict[str, Any], faults: list[str]) -> "Experiment":
        """From plain tables; beside the faults found already, all others are told."""
        try:
            experiment = cls.model_validate(table)
        except ExperimentError as error:
            faults += error.faults
        except ValidationError as error:
            faults += [*explain(error, _fields()), *_further_faults(table, error)]
        if faults:
            raise ExperimentError(*faults)
        return experiment

    @classmethod
    def from_toml(
        cls, text: str, settings: Iterable[str] = (), source: str = "the text"
    ) -> "Experiment":
        return cls.parse(parse_tables(text, source), settings)

    @classmethod
    def load(cls, path: str | Path, settings: Iterable[str] = ()) -> "Experiment":
        """Read a TOML file."""
        return cls.parse(read_tables(path), settings)

    def with_settings(self, *settings: str) -> "Experiment":
        """A copy with some fields changed: `experiment.with_settings("server.period=10")`."""
        return self._changed(self.model_dump(exclude_unset=True), settings)

    def replace(self, **changes: Any) -> "Experiment":
        """The same from Python values: `experiment.replace(rounds=5, server={"period": 10})`.

        A dict changes some fields of a section; a section, `server=Server(period=10)`, takes the
        place of the whole.
        """
        table = self.model_dump(exclude_unset=True)
        for name, value in changes.items():
            before = table.get(name, {})
            if isinstance(value, Section):
                table[name] = value.model_dump(exclude_unset=True)
            elif isinstance(value, Mapping) and isinstance(before, dict):
                table[name] = {**before, **value}
            else:
                table[name] = value
        return self._changed(table)

    def _changed(self, table: Mapping[str, Any], settings: Iterable[str] = ()) -> "Experiment":
        """A function that is named no longer takes its options with it."""
        changed, faults = apply_settings(table, settings)
        for name, section in self._sections():
            there = changed.get(name)
            if section.options and isinstance(there, dict):
                before, _ = apply_settings(section.options, ())
                for option in type(section).stray_options(there):
                    if there[option] == before.get(option):
                        del there[option]
        return self._read(changed, faults)

    def to_toml(self, comments: bool = False) -> str:
        """The whole experiment as TOML; with comments, each field says what it is."""
        lines = _toml_lines(self, comments)
        for name, section in self._sections():
            lines += ["", f"[{name}]", *_toml_lines(section, comments)]
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        return str(registry.view("experiment")(self))

    def _sections(self) -> Iterable[tuple[str, Section]]:
        return [(name, getattr(self, name)) for name in _kinds()]

    # Identity

    def deciding(self) -> dict[str, Any]:
        """The fields that play a part in the result: not the label, not the degree of a ring."""
        table = self.model_dump()
        del table["name"]
        table["network"]["components"] = list(self.network.sizes)
        for name, section in self._sections():
            for field in {*section.idle_fields(), *section.unchanged_fields()}:
                del table[name][field]
            if not table[name]:
                del table[name]
        return table

    def idle_paths(self) -> set[str]:
        """The paths of the fields that play no part in the result."""
        return {f"{name}.{f}" for name, section in self._sections() for f in section.idle_fields()}

    def canonical(self) -> dict[str, Any]:
        """What decides the result: the fields that do, the sources of a user's own parts, and what
        a trace says."""
        table = self.deciding()
        sources = {path: registry.source(name) for path, name in self.users_own()}
        if isinstance(self.fleet.awake, str):
            sources["fleet.awake"] = _content_of(self.fleet.awake)
        return {**table, "sources": sources} if sources else table

    def users_own(self) -> Iterable[tuple[str, str]]:
        """The fields that name a user's own `package.module:name`."""
        for place, section in self._sections():
            for kind, field in section.naming.items():
                name = getattr(section, field)
                if ":" in name and kind in section.functions:
                    yield f"{place}.{field}", name
        for name in self.evaluate.own:
            yield f"{OWN_MEASURES}{name}", name

    def key(self, materials: Mapping[str, str] | None = None) -> str:
        """The content key that names the run; `materials` are fingerprints of what lies outside
        the file: a graph, a data set, a model given from Python or read from a path."""
        return self._digests(materials or {})[0]

    def world_key(self, materials: Mapping[str, str] | None = None) -> str:
        """Runs with the same world key can be lanes of one stack: they share data, partition,
        model, initial point, minibatches and random streams."""
        return self._digests(materials or {})[1]

    def _shared(self, canonical: dict[str, Any]) -> dict[str, Any]:
        """What decides the world, of what decides the result."""
        table = {n: part for n, part in canonical.items() if n not in ("server", "fleet", "method")}
        # What components a graph file has is known only once it is read.
        table["network"] = table["network"]["topology" if self.network.is_file else "components"]
        own = self.training.fields_of_a_lane()
        table["training"] = {n: value for n, value in table["training"].items() if n not in own}
        sources = canonical.get("sources", {})
        shared = [*_SHARED, *(path for path in sources if path.startswith(OWN_MEASURES))]
        table["sources"] = {path: sources[path] for path in shared if path in sources}
        return table

    @cached_property
    def known_digests(self) -> dict[Any, tuple[str, str]]:
        """Digests computed before: a sweep asks for the same ones many times."""
        return {}

    def _digests(self, materials: Mapping[str, str]) -> tuple[str, str]:
        """Of the experiment and of its world: who asks for one asks for the other, too."""
        outside = dict(materials)
        question = frozenset(outside.items())
        if question not in self.known_digests:
            content = self.canonical()
            self.known_digests[question] = (
                _digest({"experiment": content, "materials": outside}),
                _digest({"world": self._shared(content), "materials": outside}),
            )
        return self.known_digests[question]

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """The fields; what is remembered is none."""
        return ((name, value) for name, value in super().__iter__() if name != "known_digests")

    def __copy__(self) -> Self:
        """A copy may be about to change: it knows nothing yet."""
        copied = super().__copy__()
        copied.__dict__.pop("known_digests", None)
        return copied


_SHARED = (
    "data.dataset",
    "data.inter",
    "data.intra",
    "task.loss",
    "task.score",
    "model.name",
    "training.sampling",
)
"""The plug-ins that all lanes of a world have in common."""


OWN_MEASURES = "evaluate.own."


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _digest(content: Any) -> str:
    return hashlib.sha256(_JSON.encode(content).encode()).hexdigest()[:16]


def _content_of(file: str) -> str:
    """The hash of a file; empty where it is not here."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except (OSError, ValueError):
        return ""


def _toml_lines(section: Section, comments: bool) -> list[str]:
    lines = []
    for name, value in section:
        if isinstance(value, Section):
            continue
        if isinstance(section, Network) and section.takes_from_file(name):
            continue
        field = type(section).model_fields.get(name)
        if comments and field is not None and field.description:
            lines += [f"# {line.strip()}" for line in field.description.splitlines()]
        # TOML has no null: a field left open stays a comment.
        setting = f"{toml_key(name)} ="
        lines.append(f"{setting} {toml_value(value)}" if value is not None else f"# {setting}")
    return lines


def _further_faults(table: dict[str, Any], error: ValidationError) -> list[str]:
    """Faults between the fields that are sound themselves, so that a file is mended in one go."""
    try:
        Experiment.model_validate(without_faulty(table, error), context=faulty_paths(error))
    except ExperimentError as further:
        return further.faults
    return []


def fit_options(tables: Sequence[dict[str, Any]]) -> None:
    """Where tables of one study name different functions, an option of one plays no part in the
    others, and is left out of them. One that no function takes stays, to be told."""
    for name, kind in _kinds().items():
        sections = [one for table in tables if isinstance(one := table.get(name, {}), dict)]
        strays = [kind.stray_options(section) for section in sections]
        nobodys = set[str]().union(*strays).intersection(*strays)
        for section, stray in zip(sections, strays, strict=True):
            for option in stray - nobodys:
                del section[option]


@cache
def _kinds() -> dict[str, type[Section]]:
    """The sections."""
    return {
        name: kind
        for name, field in Experiment.model_fields.items()
        if isinstance(kind := field.annotation, type) and issubclass(kind, Section)
    }


@cache
def _fields() -> dict[str, list[str]]:
    """The fields of every section, and under the empty name those of the experiment itself."""
    sections = {name: list(kind.model_fields) for name, kind in _kinds().items()}
    return {"": list(Experiment.model_fields)} | sections
