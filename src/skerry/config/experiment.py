"""The experiment: all settings of one run, read from TOML or Python, with their content key."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from skerry.config import methods, stopping, toml
from skerry.config.explain import any_inside, explain, faulty_paths, without_faulty
from skerry.config.fields import Availability as Availability
from skerry.config.fields import ClockChoice as ClockChoice
from skerry.config.fields import Data as Data
from skerry.config.fields import Evaluate as Evaluate
from skerry.config.fields import MethodChoice as MethodChoice
from skerry.config.fields import Model as Model
from skerry.config.fields import Network as Network
from skerry.config.fields import Server as Server
from skerry.config.fields import Task as Task
from skerry.config.fields import Training as Training
from skerry.config.measures import GROUPS
from skerry.config.section import AtLeastZero, Fault, KeyedIfSet, Named, Takes, default, fields_of
from skerry.config.section import Count as Count
from skerry.config.section import Section as Section
from skerry.errors import ExperimentError, OtherCommandError
from skerry.files import beside, plain_path, refuse_special, written
from skerry.plugins import registry
from skerry.plugins.fingerprint import as_text

KEYS_VERSION = 2
"""Version of content keys. Version 1 left out fields that older versions of skerry did not have."""


class Experiment(Section, ignored_types=(cached_property,)):
    """The settings of one run: network, data, model, training, and what the server does."""

    name: str = "two islands"
    """A title in tables and figures; it does not change the result."""
    seed: AtLeastZero = 0
    """Seed of all random draws."""
    rounds: Count = 100
    """Number of rounds (T)."""
    stop: Annotated[
        Named, BeforeValidator(as_text), AfterValidator(stopping.check_stop), KeyedIfSet()
    ] = default("")
    """A rule that ends the run before its last round: "average_accuracy >= 90", "no gain in 20
    rounds", several joined by and / or, or your own "package.module:function"; empty: none."""
    network: Takes[Network | Mapping[str, Any], Network] = default(Network())
    data: Takes[Data | Mapping[str, Any], Data] = default(Data())
    task: Takes[Task | Mapping[str, Any], Task] = default(Task())
    model: Takes[Model | Mapping[str, Any], Model] = default(Model())
    training: Takes[Training | Mapping[str, Any], Training] = default(Training())
    server: Takes[Server | Mapping[str, Any], Server] = default(Server())
    availability: Takes[Availability | Mapping[str, Any], Availability] = default(Availability())
    method: Takes[MethodChoice | Mapping[str, Any], MethodChoice] = default(MethodChoice())
    evaluate: Takes[Evaluate | Mapping[str, Any], Evaluate] = default(Evaluate())
    clock: Takes[ClockChoice | Mapping[str, Any], ClockChoice] = default(ClockChoice())

    @property
    def fleet(self) -> Availability:
        """The section [availability] by its former name."""
        return self.availability

    @model_validator(mode="before")
    @classmethod
    def _former_names(cls, table: Any) -> Any:
        if not isinstance(table, Mapping):
            return table
        found = toml.current_names(table)
        clock = found.get("clock")
        return {**found, "clock": {"file": clock}} if isinstance(clock, str | Path) else found

    @model_validator(mode="after")
    def _rules(self, info: ValidationInfo) -> Self:
        """Check the rules between fields, except those about fields that are faulty themselves."""
        faulty: Collection[str] = info.context or ()
        if faults := [line for fields, line in self._faults() if not any_inside(fields, faulty)]:
            raise ExperimentError(*faults)
        return self

    def _faults(self) -> Iterable[Fault]:
        """Every broken rule about options, within a section, and between sections."""
        for name, section in self._sections():
            for line in section.option_faults(name, fields_of(Experiment)):
                yield tuple(f"{name}.{field}" for field in section.naming.values()), line
        for _, section in self._sections():
            yield from section.faults()
        network, server = self.network, self.server
        if not network.mix_with_server and server.is_adaptive("period"):
            yield (
                ("network.mix_with_server", "server.period_schedule"),
                "network.mix_with_server = false needs server rounds that are known beforehand "
                f'(got server.period_schedule = "{server.period_schedule}"). Change one of them.',
            )
        yield from methods.method_faults(self)
        yield from self._clock_faults()
        for line in stopping.measure_faults(self.stop, self.wanted):
            yield ("stop", "evaluate.measures", "evaluate.own"), line
        if network.is_file or self.data.split == "given":
            return  # The file or the data set the number of devices, checked when they are read.
        wrong_sizes = [*network.size_faults()]
        yield from wrong_sizes or server.island_faults(network.sizes)
        for field in ("sampled", "sampled_end") if server.is_there else ():
            sampled = getattr(server, field)
            if sampled is not None and sampled > network.devices:
                yield (
                    ("server.primitive", f"server.{field}", "network.devices"),
                    f"server.{field} must be between 1 and network.devices (got {sampled} of "
                    f"{network.devices} devices). Lower server.{field} or raise network.devices.",
                )
        yield from server.call_faults(network.devices)

    def _clock_faults(self) -> Iterable[Fault]:
        """Faults of fields that need a clock, if the experiment has none."""
        if self.clock.file:
            return
        server, clock = self.server, "Set clock.file to a clock file, or to an example: wifi_home."
        if server.is_there and server.is_timed:
            field = "over_sample" if server.deadline is None else "deadline"
            yield (
                (f"server.{field}", "clock.file"),
                f"server.{field} needs a clock, which says when messages arrive (got none). "
                + clock,
            )
        timed = [name for name in ("clock", *GROUPS["clock"]) if name in self.evaluate.measures]
        if timed:
            yield (
                ("evaluate.measures", "clock.file"),
                f"evaluate.measures names {timed[0]}, which needs a clock (got none). {clock}",
            )

    @property
    def wanted(self) -> frozenset[str]:
        """The names of all measures of the run: with a clock, also seconds and joules."""
        timed = GROUPS["clock"] if self.clock.file else ()
        return self.evaluate.wanted.union(timed)

    # Reading and writing

    @classmethod
    def parse(cls, table: Mapping[str, Any], settings: Iterable[str] = ()) -> "Experiment":
        """An experiment from nested tables, with `section.field=value` settings applied to them."""
        return cls._read(*toml.apply_settings(table, settings))

    @classmethod
    def _read(cls, table: dict[str, Any], faults: list[str]) -> "Experiment":
        """From plain tables; raises all faults, those found already included."""
        try:
            experiment = cls.model_validate(table)
        except ExperimentError as error:
            faults += error.faults
        except ValidationError as error:
            faults += [*explain(error, fields_of(Experiment)), *_further_faults(table, error)]
        if faults:
            raise ExperimentError(*faults)
        return experiment

    @classmethod
    def from_toml(
        cls, text: str, settings: Iterable[str] = (), source: str = "the text"
    ) -> "Experiment":
        """An experiment from TOML text; `source` names the text in error messages."""
        return cls.parse(toml.parse_tables(text, source), settings)

    @classmethod
    def load(cls, path: str | Path, settings: Iterable[str] = ()) -> "Experiment":
        """An experiment from a TOML file. Relative paths in it start from the folder of the file,
        or from the current folder if nothing is there; those of settings from the current folder.
        """
        if "sweep" in (table := toml.read_tables(path)):
            words = f"{path} has a [sweep], so it is many runs."
            raise OtherCommandError(words, "sweep", path, settings)
        return cls.parse(table, settings)

    def with_settings(self, *settings: str) -> "Experiment":
        """A copy with some fields changed: `experiment.with_settings("server.period=10")`."""
        return self._changed(self.model_dump(exclude_unset=True), settings)

    def replace(self, **changes: Any) -> "Experiment":
        """A copy with Python values: `experiment.replace(rounds=5, server={"period": 10})`.

        A dict changes some fields of a section; a section, `server=Server(period=10)`, replaces
        the whole section.
        """
        table = self.model_dump(exclude_unset=True)
        for given, value in changes.items():
            name = toml.FORMER_SECTIONS.get(given, given)
            before = table.get(name, {})
            if isinstance(value, Section):
                if not isinstance(value, kind := _kinds().get(name, Section)):
                    raise ExperimentError(
                        f"{given} takes a skerry.{kind.__name__} or a dict of its fields (got a "
                        f"skerry.{type(value).__name__}). Give each section under its own name."
                    )
                table[name] = value.model_dump(exclude_unset=True)
            elif isinstance(value, Mapping) and isinstance(before, dict):
                table[name] = {**before, **value}
            else:
                table[name] = value
        return self._changed(table)

    def _changed(self, tables: Mapping[str, Any], settings: Iterable[str] = ()) -> "Experiment":
        """Apply settings; options of functions that are no longer named are dropped."""
        changed, faults = toml.apply_settings(tables, settings)
        for name, section in self._sections():
            table = changed.get(name)
            if section.options and isinstance(table, dict):
                before, _ = toml.apply_settings(section.options, ())
                for option in type(section).stray_options(table):
                    if table[option] == before.get(option):
                        del table[option]
        return self._read(changed, faults)

    def to_toml(self, comments: bool = False) -> str:
        """The whole experiment as TOML; with comments, each field is described."""
        lines = _toml_lines(self, comments)
        for name, section in self._sections():
            lines += ["", f"[{name}]", *_toml_lines(section, comments)]
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        return str(registry.view("html_of_experiment")(self))

    def _sections(self) -> Iterable[tuple[str, Section]]:
        return [(name, getattr(self, name)) for name in _kinds()]

    # Identity

    def deciding(self) -> dict[str, Any]:
        """The fields that change the result: not the name, not the degree of a ring."""
        table = self.as_written()
        for field in ("name", *self.unkeyed_fields()):
            del table[field]
        table["network"]["components"] = list(self.network.sizes)
        for name, section in self._sections():
            for field in section.unkeyed_fields():
                del table[name][field]
            if not table[name]:
                del table[name]
        return table

    def as_written(self, mode: str = "python") -> dict[str, Any]:
        """All fields as nested tables, with paths as the experiment file has them."""
        table = self.model_dump(mode=mode)
        for path, text in self.paths().items():
            section, _, field = path.partition(".")
            table[section][field] = written(text)
        return table

    def paths(self) -> dict[str, str]:
        """The texts of the fields that may hold a path."""
        texts = {path: attrgetter(path)(self) for path in toml.PATHS}
        return {path: text for path, text in texts.items() if isinstance(text, str)}

    def unused_paths(self) -> set[str]:
        """The paths of the fields that do not change the result."""
        return {f"{name}.{f}" for name, part in self._sections() for f in part.unused_fields()}

    def canonical(self) -> dict[str, Any]:
        """All that decides the result: fields, and hashes of a user's own code and files."""
        table, sources = self.deciding(), self.sources()
        return {**table, "sources": sources} if sources else table

    def sources(self) -> dict[str, str]:
        """Hashes of a user's own code, a trace file and a clock file, by the path of the field that
        names them."""
        sources = {path: registry.source_fingerprint(name) for path, name in self.users_own()}
        if isinstance(self.availability.awake, str):
            sources["availability.awake"] = _file_hash(self.availability.awake)
        if self.clock.file:
            sources["clock.file"] = _clock_hash(self.clock.file)
        return sources

    def users_own(self) -> Iterable[tuple[str, str]]:
        """The paths of the fields that name a user's own code, and the names."""
        for place, section in self._sections():
            for kind, field in section.naming.items():
                name = getattr(section, field)
                if ":" in name and kind in section.functions:
                    yield f"{place}.{field}", name
        if stopping.names_function(self.stop):
            yield "stop", self.stop
        for name in self.evaluate.own:
            yield f"{OWN_MEASURES}{name}", name

    def key(self, materials: Mapping[str, str] | None = None) -> str:
        """The content key, which identifies the run. `materials` are fingerprints of inputs outside
        the experiment: a graph, data set or model given from Python or read from a path."""
        return self._digests(materials or {})[0]

    def world_key(self, materials: Mapping[str, str] | None = None) -> str:
        """The key of the world. Runs with equal world keys can be lanes of one stack: they share
        data, partition, model, initial point, minibatches and random streams."""
        return self._digests(materials or {})[1]

    def _shared(self, canonical: dict[str, Any]) -> dict[str, Any]:
        """The part of `canonical` that decides the world."""
        table = {name: part for name, part in canonical.items() if name not in _OF_A_LANE}
        # The islands of a graph file are known only once it is read.
        table["network"] = table["network"]["topology" if self.network.is_file else "components"]
        own = self.training.fields_of_a_lane()
        table["training"] = {n: value for n, value in table["training"].items() if n not in own}
        sources = canonical.get("sources", {}).items()
        table["sources"] = {path: value for path, value in sources if path.startswith(_SHARED)}
        return table

    @cached_property
    def _known_digests(self) -> dict[Any, tuple[str, str]]:
        """A cache of keys; a sweep needs the same ones many times."""
        return {}

    def _digests(self, materials: Mapping[str, str]) -> tuple[str, str]:
        """The key of the experiment and that of its world."""
        outside = dict(materials)
        question = frozenset(outside.items())
        if question not in self._known_digests:
            content = self.canonical()
            self._known_digests[question] = (
                _digest({"experiment": content, "materials": outside}),
                _digest({"world": self._shared(content), "materials": outside}),
            )
        return self._known_digests[question]

    def __copy__(self) -> Self:
        """A copy without the cache of keys, because its fields may be changed next."""
        copied = super().__copy__()
        copied.__dict__.pop("_known_digests", None)
        return copied


OWN_MEASURES = "evaluate.own."
_SHARED = ("data.", "task.", "model.", "training.sampling", OWN_MEASURES)
"""The beginnings of the paths of plug-ins that all lanes of a world share."""
_OF_A_LANE = ("server", "availability", "method", "clock", "stop")
"""Sections and fields in which lanes of a world may differ."""
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _digest(content: dict[str, Any]) -> str:
    text = _JSON.encode({"keys": KEYS_VERSION, **content})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file_hash(file: str) -> str:
    """The hash of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(refuse_special(Path(plain_path(file))).read_bytes()).hexdigest()[:16]
    except (OSError, ValueError):
        return ""


def _clock_hash(file: str) -> str:
    """The hash of an example clock, or of a clock file and the table of devices that it names."""
    if file in toml.EXAMPLE_CLOCKS:
        text = files("skerry").joinpath("clock", "examples", f"{file}.toml").read_bytes()
        return hashlib.sha256(text).hexdigest()[:16]
    own = _file_hash(file)
    try:
        devices = toml.read_tables(plain_path(file)).get("devices")
    except ExperimentError:  # reading the clock reports what is wrong
        return own
    if not isinstance(devices, str) or not devices:
        return own
    table = _file_hash(beside(Path(plain_path(file)).parent, devices))
    return hashlib.sha256(f"{own} {table}".encode()).hexdigest()[:16]


def _toml_lines(section: Section, comments: bool) -> list[str]:
    lines = []
    for name, value in section:
        from_file = isinstance(section, Network) and section.takes_from_file(name)
        if isinstance(value, Section) or from_file:
            continue
        if comments and name in type(section).model_fields:
            lines += [f"# {line.strip()}" for line in section.describe(name).splitlines()]
        # TOML has no null: a field without a value stays a comment.
        setting = f"{toml.toml_key(name)} ="
        value = written(value) if isinstance(value, str) else value
        lines.append(f"{setting} {toml.toml_value(value)}" if value is not None else f"# {setting}")
    return lines


def _further_faults(table: dict[str, Any], error: ValidationError) -> list[str]:
    """Broken rules between the valid fields, so that all faults of a file are reported at once."""
    try:
        Experiment.model_validate(without_faulty(table, error), context=faulty_paths(error))
    except ExperimentError as further:
        return further.faults
    return []


def fit_options(tables: Sequence[dict[str, Any]]) -> None:
    """Remove options that only some tables of a study need from the tables whose functions do not
    take them. An option that no function takes stays, to be reported."""
    for name, kind in _kinds().items():
        sections = [one for table in tables if isinstance(one := table.get(name, {}), dict)]
        strays = [kind.stray_options(section) for section in sections]
        unknown = set[str]().union(*strays).intersection(*strays)
        for section, stray in zip(sections, strays, strict=True):
            for option in stray - unknown:
                del section[option]


@cache
def _kinds() -> dict[str, type[Section]]:
    """The section classes by name."""
    return {
        name: kind
        for name, field in Experiment.model_fields.items()
        if isinstance(kind := field.annotation, type) and issubclass(kind, Section)
    }
