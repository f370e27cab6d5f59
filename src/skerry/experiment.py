"""The experiment: what is run, in words. Typed, frozen, TOML in and out; its checks live here."""

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from skerry import registry
from skerry.errors import ExperimentError, unknown

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

Count = Annotated[int, Field(ge=1)]
GRAPH_FILES = (".edgelist", ".edges", ".txt", ".csv", ".graphml")

# What can be measured, by what is computed together; users may ask for a group or for one name.
MEASURES = {
    "average": ("average_accuracy", "average_loss"),
    "devices": (
        "device_accuracy",
        "device_accuracy_std",
        "device_accuracy_min",
        "device_accuracy_max",
        "own_accuracy",
        "own_accuracy_weighted",
        "component_accuracy",
    ),
    "training": ("train_loss",),
    "consensus": (
        "disagreement",
        "disagreement_intra",
        "disagreement_inter",
        "disagreement_before",
        "disagreement_intra_before",
        "disagreement_inter_before",
        "bias",
        "disagreement_ratio",
        "bias_ratio",
    ),
    "communication": (
        "uplink_messages",
        "downlink_messages",
        "d2d_messages",
        "uplink_bytes",
        "downlink_bytes",
        "d2d_bytes",
    ),
}


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _named(kind: str) -> AfterValidator:
    """A field that holds a built-in name of this kind or a user's `package.module:name`."""

    def check(name: str) -> str:
        if fault := registry.name_fault(kind, name):
            raise ValueError(fault)
        return name

    return AfterValidator(check)


def _topology(name: str) -> str:
    if not name.lower().endswith(GRAPH_FILES) and (fault := registry.name_fault("topology", name)):
        raise ValueError(f"{fault} A graph file ends in {', '.join(GRAPH_FILES)}.")
    return name


def _measure(name: str) -> str:
    available = [*MEASURES, *(one for group in MEASURES.values() for one in group)]
    if name not in available:
        raise ValueError(unknown("measure", name, available))
    return name


class _Explained(ModelMetaclass):
    """Building a section from Python explains its faults as a file's are explained."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as error:
            raise ExperimentError(_explain(error)) from None


class Section(BaseModel, metaclass=_Explained):
    """A frozen table of an experiment; unknown fields are faults."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @property
    def options(self) -> dict[str, Any]:
        """Fields beyond the section's own: the options of the named model or data set."""
        return dict(self.model_extra or {})


class Network(Section):
    devices: Count = 100
    """How many devices there are (n)."""
    components: Count | Annotated[tuple[Count, ...], Field(min_length=1)] = 2
    """How many islands (C), or the list of their sizes."""
    topology: Annotated[str, AfterValidator(_topology)] = "ring"
    """How devices are linked inside a component: a name, a graph file (edge list or GraphML),
    or your own "package.module:function"."""
    degree: Count = 4
    """Links per device in regular and watts_strogatz; about as many in barabasi_albert."""
    edge_prob: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Probability of each link in erdos_renyi."""
    rewire_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Probability that watts_strogatz moves a link."""
    dynamic: bool = False
    """Draw a fresh graph every round."""
    link_failure: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a link is down in a round; W is recomputed from the links that are up."""
    mixing: Annotated[str, _named("mixing")] = "metropolis"
    """Weights of W: metropolis, max_degree, laplacian, lazy, or your own function."""

    @property
    def is_file(self) -> bool:
        return self.topology.lower().endswith(GRAPH_FILES)

    def takes_from_file(self, field: str) -> bool:
        """Whether the graph file, not the experiment, says what this field is."""
        return self.is_file and field in {"devices", "components"} - self.model_fields_set

    @property
    def sizes(self) -> tuple[int, ...]:
        """Devices in each component: as given, or as equal as possible."""
        if isinstance(self.components, tuple):
            return self.components
        small, larger = divmod(self.devices, self.components)
        return tuple(small + (c < larger) for c in range(self.components))


class Data(Section):
    model_config = ConfigDict(extra="allow")

    dataset: Annotated[str, _named("dataset")] = "digits"
    """digits, synthetic, mnist, fashion_mnist, cifar10, cifar100, npz, or your own function."""
    path: str = ""
    """Where the data set lies, if you have it already (required for npz)."""
    inter: Annotated[str, _named("inter partition")] = "non_iid"
    """Split across components: iid, non_iid (disjoint sets of classes), dirichlet."""
    intra: Annotated[str, _named("intra partition")] = "iid"
    """Split inside a component: iid, dirichlet, shards."""
    alpha: Annotated[float, Field(gt=0)] = 0.1
    """Concentration of dirichlet splits: small is very different, large is alike."""
    inter_alpha: Annotated[float, Field(gt=0)] | None = None
    """Concentration of the inter split, where it differs from alpha."""
    shards: Count = 2
    """Shards of sorted labels per device for intra = "shards"."""
    min_samples: Count = 1
    """Fewest training samples a device may have."""
    scaling: Literal["standard", "unit"] = "standard"
    """standard: minus the training mean, over the standard deviation; unit: raw [0, 1]."""


class Model(Section):
    model_config = ConfigDict(extra="allow")

    name: Annotated[str, _named("model")] = "linear"
    """linear, mlp, cnn_cifar10, cnn_cifar100, quadratic, or your own "package.module:factory"."""


class Training(Section):
    batch: Count = 128
    """Samples in a minibatch."""
    stepsize: Annotated[float, Field(gt=0)] = 0.1
    """Stepsize of local SGD (eta)."""
    schedule: Annotated[str, _named("schedule")] = "constant"
    """How the stepsize changes over the rounds: constant, step, cosine, inverse_sqrt."""
    decay_every: Count = 30
    """Rounds between the drops of the step schedule."""
    decay_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Factor of each drop of the step schedule."""
    local_steps: Count = 1
    """SGD steps on every device between two mixings."""
    sampling: Annotated[str, _named("sampling")] = "replacement"
    """Minibatches: drawn with replacement, or shuffled epochs."""


class Server(Section):
    primitive: Annotated[str, _named("primitive")] = "s2s"
    """Who receives the average: s2s (the sampled), s2a (all), blend (all, in part), none."""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.5
    """blend: how far an unsampled device moves to the average (0 is s2s, 1 is s2a)."""
    sampled: Count = 20
    """Devices the server samples (K)."""
    period: Count = 5
    """Rounds between two server rounds (H)."""
    offset: Annotated[int, Field(ge=0)] = 0
    """The first server round; they are the rounds t >= offset with (t - offset) mod period = 0."""
    optimizer: Annotated[str, _named("server optimizer")] = "fedavg"
    """What the server does with the average: fedavg delivers it, fedavgm adds momentum."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum of fedavgm."""


class Evaluate(Section):
    every: Count = 1
    """Rounds between two evaluations (the last round is always evaluated)."""
    measures: Annotated[
        tuple[Annotated[str, AfterValidator(_measure)], ...],
        BeforeValidator(_one_or_many),
        Field(min_length=1),
    ] = tuple(MEASURES)
    """What is measured: single names such as own_accuracy, or whole groups."""

    @property
    def wanted(self) -> frozenset[str]:
        """The single measures asked for."""
        return frozenset(one for name in self.measures for one in MEASURES.get(name, (name,)))


class Experiment(Section):
    """One run: a fleet, its data, its model, how it trains, and how the server helps."""

    name: str = "two islands"
    """A label for people; it does not change the result."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Every random draw follows from it."""
    rounds: Count = 100
    """Rounds (T)."""
    network: Network = Network()
    data: Data = Data()
    model: Model = Model()
    training: Training = Training()
    server: Server = Server()
    evaluate: Evaluate = Evaluate()

    @model_validator(mode="after")
    def _rules(self) -> Self:
        faults = [*self._option_faults(), *self._rule_faults()]
        if faults:
            raise ExperimentError(faults)
        return self

    def _option_faults(self) -> Iterable[str]:
        yield from registry.option_faults("dataset", self.data.dataset, self.data.options)
        yield from registry.option_faults("model", self.model.name, self.model.options)

    def _rule_faults(self) -> Iterable[str]:
        network, server, data = self.network, self.server, self.data
        if data.dataset == "npz" and not data.path:
            yield 'data.path must name a .npz file when data.dataset = "npz". Set data.path.'
        if network.is_file:
            return  # sizes come from the file; the fleet checks them when it reads it
        n = network.devices
        if isinstance(network.components, tuple) and sum(network.components) != n:
            yield (
                f"network.components must add up to network.devices (got "
                f"{sum(network.components)} of {n} devices). Change the sizes or "
                "network.devices."
            )
        elif len(network.sizes) > n:
            yield (
                f"network.components must be at most network.devices (got {len(network.sizes)} "
                f"components for {n} devices). Lower network.components."
            )
        if server.primitive != "none" and server.sampled > n:
            yield (
                f"server.sampled must be between 1 and network.devices (got {server.sampled} "
                f"of {n} devices). Lower server.sampled or raise network.devices."
            )
        smallest = min(network.sizes)
        if network.topology == "regular":
            if network.degree >= smallest:
                yield (
                    f"network.degree must be below the size of every component (got "
                    f"{network.degree} with a component of {smallest}). Lower network.degree."
                )
            odd = [m for m in network.sizes if m * network.degree % 2]
            if odd:
                yield (
                    f"network.degree times a component's size must be even for a regular graph "
                    f"(got {network.degree} x {odd[0]}). Change network.degree by one."
                )
        if network.topology in ("watts_strogatz", "barabasi_albert") and network.degree >= smallest:
            yield (
                f"network.degree must be below the size of every component (got "
                f"{network.degree} with a component of {smallest}). Lower network.degree."
            )

    # Reading and writing

    @classmethod
    def parse(cls, table: Mapping[str, Any], settings: Iterable[str] = ()) -> "Experiment":
        """An experiment from nested tables, with `section.field=value` settings on top."""
        table, faults = _with_settings(table, settings)
        try:
            experiment = cls.model_validate(table)
        except ExperimentError as error:
            faults += error.faults
        except ValidationError as error:
            faults += [*_explain(error), *_rules_beyond(table, error)]
        if faults:
            raise ExperimentError(faults)
        return experiment

    @classmethod
    def from_toml(cls, text: str, settings: Iterable[str] = ()) -> "Experiment":
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ExperimentError([f"not valid TOML: {error}."]) from None
        return cls.parse(table, settings)

    @classmethod
    def load(cls, path: str | Path, settings: Iterable[str] = ()) -> "Experiment":
        """Read a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ExperimentError(
                [f"no file {path}. Make one with: skerry new > {Path(path).name}"]
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError([f"cannot read {path}: {error}."]) from None
        return cls.from_toml(text, settings)

    def with_settings(self, *settings: str) -> "Experiment":
        """A copy with some fields changed: `experiment.with_settings("server.period=10")`."""
        return type(self).parse(self.model_dump(exclude_unset=True), settings)

    def to_toml(self, comments: bool = False) -> str:
        """The whole experiment as TOML; with comments, each field says what it is."""
        lines = _toml_lines(self, comments)
        for name, section in self._sections():
            lines += ["", f"[{name}]", *_toml_lines(section, comments)]
        return "\n".join(lines) + "\n"

    def _sections(self) -> Iterable[tuple[str, Section]]:
        return ((name, value) for name, value in self if isinstance(value, Section))

    # Identity

    def canonical(self) -> dict[str, Any]:
        """What decides the result: every field but the label and those that play no part."""
        table = self.model_dump(exclude={"name"})
        table["network"]["components"] = list(self.network.sizes)
        for path, matters in _CONDITIONAL.items():
            if not matters(self):
                section, field = path.split(".")
                del table[section][field]
        return table

    def key(self, materials: Mapping[str, str] | None = None) -> str:
        """The content key that names the run; `materials` are fingerprints of what lies outside
        the file: a graph, a data set, a model given from Python or read from a path."""
        return _digest({"experiment": self.canonical(), "materials": dict(materials or {})})

    def world_key(self, materials: Mapping[str, str] | None = None) -> str:
        """Runs with the same world key can be lanes of one stack: they share data, partition,
        model, initial point, minibatches and random streams."""
        table = self.canonical()
        del table["server"]
        table["network"] = table["network"]["components"]
        for field in ("stepsize", "schedule", "decay_every", "decay_factor"):
            table["training"].pop(field, None)
        return _digest({"world": table, "materials": dict(materials or {})})


def _builtin(kind: str, name: str) -> bool:
    return name in registry.KINDS[kind]


# A field that plays no part must not change the key. A user's own plug-in may read any of them.
_CONDITIONAL: dict[str, Callable[[Experiment], bool]] = {
    "network.devices": lambda e: False,  # the sizes say it
    "network.degree": lambda e: (
        e.network.topology in ("regular", "watts_strogatz", "barabasi_albert")
        or not _builtin("topology", e.network.topology)
    ),
    "network.edge_prob": lambda e: (
        e.network.topology == "erdos_renyi" or not _builtin("topology", e.network.topology)
    ),
    "network.rewire_prob": lambda e: (
        e.network.topology == "watts_strogatz" or not _builtin("topology", e.network.topology)
    ),
    "data.alpha": lambda e: (
        "dirichlet" in (e.data.inter, e.data.intra)
        or not (
            _builtin("inter partition", e.data.inter) and _builtin("intra partition", e.data.intra)
        )
    ),
    "data.inter_alpha": lambda e: (
        e.data.inter == "dirichlet" or not _builtin("inter partition", e.data.inter)
    ),
    "data.shards": lambda e: (
        e.data.intra == "shards" or not _builtin("intra partition", e.data.intra)
    ),
    "training.decay_every": lambda e: (
        e.training.schedule not in ("constant", "cosine", "inverse_sqrt")
    ),
    "training.decay_factor": lambda e: (
        e.training.schedule not in ("constant", "cosine", "inverse_sqrt")
    ),
    "server.beta": lambda e: e.server.primitive not in ("s2s", "s2a", "none"),
    "server.sampled": lambda e: e.server.primitive != "none",
    "server.period": lambda e: e.server.primitive != "none",
    "server.offset": lambda e: e.server.primitive != "none",
    "server.optimizer": lambda e: e.server.primitive != "none",
    "server.momentum": lambda e: e.server.primitive != "none" and e.server.optimizer != "fedavg",
}


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_settings(
    table: Mapping[str, Any], settings: Iterable[str]
) -> tuple[dict[str, Any], list[str]]:
    result: dict[str, Any] = json.loads(json.dumps(table, default=str))
    faults = []
    for setting in settings:
        path, equals, text = setting.partition("=")
        parents, _, field = path.strip().rpartition(".")
        if not equals or not field or parents.count("."):
            faults.append(
                f"a setting reads section.field=value (got '{setting}'). "
                "Example: --set server.period=10"
            )
            continue
        where = result.setdefault(parents, {}) if parents else result
        if not isinstance(where, dict):
            faults.append(f"{parents} must be a section, with fields such as {path.strip()}.")
            continue
        where[field] = _value(text.strip())
    return result, faults


def _value(text: str) -> Any:
    """A setting's value as TOML reads it; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


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
        lines.append(f"{name} = {_toml_value(value)}" if value is not None else f"# {name} =")
    return lines


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


_RULES = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "finite_number": "must be a finite number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "string_type": "must be text in quotes",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be a section",
    "model_attributes_type": "must be a section",
    "literal_error": "must be one of {expected}",
    "too_short": "must not be empty",
}


def _rules_beyond(table: dict[str, Any], error: ValidationError) -> list[str]:
    """Faults between fields that are sound themselves, so that a file is mended in one go."""
    faulty = {_path(fault["loc"]) for fault in error.errors()}
    for path in faulty:
        section, _, field = path.rpartition(".")
        where = table.get(section, {}) if section else table
        if isinstance(where, dict):
            where.pop(field, None)
    try:
        Experiment.model_validate(table)
    except ExperimentError as further:
        return [line for line in further.faults if not any(path in line for path in faulty)]
    except ValidationError:
        pass  # a list with a faulty item: its own line has been given
    return []


def _path(loc: tuple[int | str, ...]) -> str:
    """What the user typed: without the names pydantic gives the branches of a union."""
    return ".".join(str(part) for part in loc[:2] if not _is_branch(part))


def _explain(error: ValidationError) -> list[str]:
    """Every pydantic error as one line: what, rule, got, fix."""
    lines: dict[str, str] = {}
    for fault in error.errors(include_url=False):
        path = _path(fault["loc"])
        if fault["type"] == "extra_forbidden":
            lines[path] = _unknown_field(path)
            continue
        if fault["type"] == "value_error":
            lines[path] = str(fault["ctx"]["error"])
            continue
        rule = _RULES.get(fault["type"], fault["msg"]).format(**fault.get("ctx", {}))
        if path in lines and lines[path].startswith(f"{path} "):
            head, _, tail = lines[path].partition(" (got ")
            bare = rule.removeprefix("must be ")
            lines[path] = lines[path] if bare in head else f"{head}, or {bare} (got {tail}"
        else:
            lines[path] = f"{path} {rule} (got {json.dumps(fault['input'], default=str)[:80]})."
    return list(lines.values())


def _is_branch(part: int | str) -> bool:
    return isinstance(part, str) and (
        "[" in part or part in ("int", "float", "str", "constrained-int")
    )


def _unknown_field(path: str) -> str:
    section_name, _, field = path.rpartition(".")
    section = Experiment
    if section_name in Experiment.model_fields:
        section = Experiment.model_fields[section_name].annotation  # type: ignore[assignment]
    known = list(section.model_fields)
    close = get_close_matches(field, known, n=1, cutoff=0.5)
    hint = f" did you mean '{close[0]}'?" if close else ""
    where = f"[{section_name}]" if section_name else "an experiment"
    return f"unknown field '{path}';{hint} {where} takes: {', '.join(known)}."
