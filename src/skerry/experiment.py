"""The experiment: what is run, in words. Typed, frozen, TOML in and out; its checks live here."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, ValidationInfo, model_validator

from skerry import registry
from skerry.errors import ExperimentError
from skerry.explain import any_inside, explain, faulty_paths, without_faulty
from skerry.sections import (
    WHOLE,
    Count,
    Data,
    Evaluate,
    Model,
    Network,
    Section,
    Server,
    Training,
)
from skerry.tables import apply_settings, parse_tables, read_tables, toml_key, toml_value

__all__ = [
    "Count",
    "Data",
    "Evaluate",
    "Experiment",
    "Model",
    "Network",
    "Section",
    "Server",
    "Training",
]


class Experiment(Section):
    """One run: a fleet, its data, its model, how it trains, and how the server helps."""

    name: str = "two islands"
    """A label for people; it does not change the result."""
    seed: Annotated[int, Field(ge=0), WHOLE] = 0
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
    def _rules(self, info: ValidationInfo) -> Self:
        """Rules between fields; those about a field that is faulty itself are left out."""
        faulty: Collection[str] = info.context or ()
        faults = [line for fields, line in self._faults() if not any_inside(fields, faulty)]
        if faults:
            raise ExperimentError(*faults)
        return self

    def _faults(self) -> Iterable[tuple[tuple[str, ...], str]]:
        """Every broken rule: the fields it is about, and the line that tells it."""
        network, server, data = self.network, self.server, self.data
        for line in data.option_faults():
            yield ("data.dataset",), line
        for line in self.model.option_faults():
            yield ("model.name",), line
        if data.dataset == "npz" and not data.path:
            yield (
                ("data.dataset", "data.path"),
                'data.path must name a .npz file when data.dataset = "npz". Set data.path.',
            )
        if network.is_file:
            # Sizes come from the file; the fleet checks them when it reads it.
            if network.dynamic:
                yield (
                    ("network.topology", "network.dynamic"),
                    "network.dynamic = true needs a topology to draw from (got the graph file "
                    f"{network.topology}). Set network.dynamic = false; network.link_failure makes "
                    "a given graph vary.",
                )
            return
        yield from network.size_faults()
        if server.is_there and server.sampled > network.devices:
            yield (
                ("server.primitive", "server.sampled", "network.devices"),
                f"server.sampled must be between 1 and network.devices (got {server.sampled} "
                f"of {network.devices} devices). Lower server.sampled or raise network.devices.",
            )

    # Reading and writing

    @classmethod
    def parse(cls, table: Mapping[str, Any], settings: Iterable[str] = ()) -> "Experiment":
        """An experiment from nested tables, with `section.field=value` settings on top."""
        table, faults = apply_settings(table, settings)
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

    def deciding(self) -> dict[str, Any]:
        """The fields that play a part in the result: not the label, not the degree of a ring."""
        table = self.model_dump(exclude={"name"})
        table["network"]["components"] = list(self.network.sizes)
        for path, matters in _CONDITIONAL.items():
            if not matters(self):
                section, field = path.split(".")
                del table[section][field]
        return table

    def canonical(self) -> dict[str, Any]:
        """What decides the result: the fields that do, and the sources of a user's own parts."""
        table = self.deciding()
        sources = {path: registry.source(name) for path, name in self._users_own()}
        return table | ({"sources": sources} if sources else {})

    def _users_own(self) -> Iterable[tuple[str, str]]:
        """The fields that name a user's own `package.module:name`."""
        for section, field in _PLUG_INS:
            name = getattr(getattr(self, section), field)
            if ":" in name and not (field == "topology" and self.network.is_file):
                yield f"{section}.{field}", name

    def key(self, materials: Mapping[str, str] | None = None) -> str:
        """The content key that names the run; `materials` are fingerprints of what lies outside
        the file: a graph, a data set, a model given from Python or read from a path."""
        return self._known("experiment", materials or {}, self.canonical)

    def world_key(self, materials: Mapping[str, str] | None = None) -> str:
        """Runs with the same world key can be lanes of one stack: they share data, partition,
        model, initial point, minibatches and random streams."""
        return self._known("world", materials or {}, self._shared)

    def _shared(self) -> dict[str, Any]:
        """What decides the world."""
        table = self.canonical()
        del table["server"]
        # What components a graph file has is known only once it is read.
        table["network"] = table["network"]["topology" if self.network.is_file else "components"]
        for field in ("stepsize", "schedule", "decay_every", "decay_factor"):
            table["training"].pop(field, None)
        table["sources"] = {
            path: source for path, source in table.get("sources", {}).items() if path in _SHARED
        }
        return table

    @cached_property
    def known_digests(self) -> dict[Any, str]:
        """Digests computed before: a sweep asks for the same ones many times."""
        return {}

    def _known(
        self, kind: str, materials: Mapping[str, str], content: Callable[[], dict[str, Any]]
    ) -> str:
        question = kind, frozenset(materials.items())
        if question not in self.known_digests:
            self.known_digests[question] = _digest({kind: content(), "materials": dict(materials)})
        return self.known_digests[question]

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """The fields; what is remembered is none."""
        return ((name, value) for name, value in super().__iter__() if name != "known_digests")

    def __copy__(self) -> Self:
        """A copy may be about to change: it knows nothing yet."""
        copied = super().__copy__()
        copied.__dict__.pop("known_digests", None)
        return copied


_PLUG_INS = (
    ("network", "topology"),
    ("network", "mixing"),
    ("data", "dataset"),
    ("data", "inter"),
    ("data", "intra"),
    ("model", "name"),
    ("training", "schedule"),
    ("training", "sampling"),
    ("server", "primitive"),
    ("server", "optimizer"),
)
_SHARED = ("data.dataset", "data.inter", "data.intra", "model.name", "training.sampling")
"""The plug-ins that all lanes of a world have in common."""

# A field that plays no part must not change the key. A user's own plug-in may read any of them.
_CONDITIONAL: dict[str, Callable[[Experiment], bool]] = {
    "network.devices": lambda e: False,  # the sizes say it
    "network.components": lambda e: not e.network.is_file,  # the graph says it
    "network.degree": lambda e: (
        e.network.topology in ("regular", "watts_strogatz", "barabasi_albert")
        or not registry.is_builtin("topology", e.network.topology)
    ),
    "network.edge_prob": lambda e: (
        e.network.topology == "erdos_renyi"
        or not registry.is_builtin("topology", e.network.topology)
    ),
    "network.rewire_prob": lambda e: (
        e.network.topology == "watts_strogatz"
        or not registry.is_builtin("topology", e.network.topology)
    ),
    "data.path": lambda e: e.data.dataset not in ("digits", "synthetic"),
    "data.alpha": lambda e: (
        e.data.intra == "dirichlet"
        or (e.data.inter == "dirichlet" and e.data.inter_alpha is None)
        or not registry.is_builtin("inter partition", e.data.inter)
        or not registry.is_builtin("intra partition", e.data.intra)
    ),
    "data.inter_alpha": lambda e: (
        e.data.inter == "dirichlet" or not registry.is_builtin("inter partition", e.data.inter)
    ),
    "data.shards": lambda e: (
        e.data.intra == "shards" or not registry.is_builtin("intra partition", e.data.intra)
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


def _fields() -> dict[str, list[str]]:
    """The fields of every section, and under the empty name those of the experiment itself."""
    return {"": list(Experiment.model_fields)} | {
        name: list(kind.model_fields)
        for name, field in Experiment.model_fields.items()
        if isinstance(kind := field.annotation, type) and issubclass(kind, Section)
    }
