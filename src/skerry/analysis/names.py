"""The fields of experiments: their full and short names, their values, and conditions on them."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from skerry.config import labels, schedules
from skerry.config.experiment import Experiment, Section
from skerry.config.presets import fields_of_preset
from skerry.errors import SkerryError, argument, unknown
from skerry.files import written
from skerry.records.reading import SOURCE_OF

Fields = dict[str, Any]  # by `section.field`; lists are text, to be grouped and compared
UNSET = "unset"
LABEL_SOURCE = "server.primitive.source"  # of a user's own primitive: part of its label
FOLDER = "folder"  # where runs of several stores were recorded
LABEL_FOLDER = "folder.told"  # the folder, where it is part of the label
BESIDE_CELLS = {LABEL_SOURCE, FOLDER, LABEL_FOLDER}  # these do not separate cells
UNKNOWN = "unknown"
SHOWN_DIGITS = 8
MOST_TOLD = 3  # fields in the label of an experiment of a list, unless it needs more

FULL_ONLY = {
    *(f"training.{one}" for one in ("optimizer", "momentum", "second_momentum", "smallest")),
    "clock.file",
}
"""Fields without a short name, because it means a field of the server, or does not say what."""

Where = Mapping[str, Sequence[str]]  # by field, the wanted values as the user typed them


def flat_fields(experiment: Experiment) -> Fields:
    """Every field of an experiment by its full name."""
    fields: Fields = {}
    for name, value in experiment:
        if isinstance(value, Section):
            fields |= {f"{name}.{field}": _plain(one) for field, one in value}
        else:
            fields[name] = value
    return fields


class Recorded(Protocol):
    """A run or lane: an experiment, and fingerprints of what is not in its text."""

    @property
    def key(self) -> str: ...
    @property
    def experiment(self) -> Experiment: ...
    @property
    def materials(self) -> Mapping[str, str]: ...
    @property
    def versions(self) -> Mapping[str, str]: ...


def fields_of_runs(
    runs: Iterable[Recorded], known: Mapping[str, Fields] | None = None
) -> Mapping[str, Fields]:
    """By run key, the fields that separate cells, including `field.source` where a user's code or
    file has several versions: runs of an edited plug-in or table are not seeds of one cell.
    `known` are the `cell_fields` of the runs, where the caller has them already."""
    runs = list(runs)
    fields = {run.key: dict(known[run.key]) if known else cell_fields(run) for run in runs}
    sources = {run.key: _sources(run) for run in runs}
    versions: dict[tuple[str, str], set[str]] = {}
    for found in sources.values():
        for path, (named, source) in found.items():
            versions.setdefault((path, named), set()).add(source)
    for key, found in sources.items():
        for path, (named, source) in found.items():
            if len(versions[path, named]) > 1:
                fields[key][f"{path}.source"] = source[:SHOWN_DIGITS]
    return fields


def _sources(run: Recorded) -> dict[str, tuple[str, str]]:
    """By field, what it names and the hash of that: a user's own code, data or weights."""
    experiment, given = run.experiment, run.materials
    found = {
        path: (name, run.versions.get(f"{SOURCE_OF}{path}", UNKNOWN))
        for path, name in experiment.users_own()
    }
    files = {
        "availability.awake": experiment.availability.awake,
        "clock.file": experiment.clock.file,
    }
    for path, file in files.items():
        if isinstance(file, str) and file:
            found[path] = written(file), run.versions.get(f"{SOURCE_OF}{path}", UNKNOWN)
    # A function may return other data for every seed; its code is compared instead.
    if "dataset" in given and "data.dataset" not in found:
        found["data.dataset"] = str(experiment.deciding()["data"]), given["dataset"]
    for path, material in (("model.name", "factory"), ("model.weights", "weights")):
        if material in given:
            found[path] = str(flat_fields(experiment)[path]), given[material]
    if "devices" in given:
        found["network.devices"] = given.get("graph", ""), given["devices"]
    return found


def run_label(run: Recorded, fields: Fields) -> str:
    """The label of a run in a table: its primitive or preset, the version of a primitive that was
    edited between runs, and the folder of a setting that several folders hold:
    `mine:half · source 3f2a91c0`, `s2s · older`."""
    source, folder = fields.get(LABEL_SOURCE), fields.get(LABEL_FOLDER)
    ends = [f"source {source}"] * bool(source) + [str(folder)] * bool(folder)
    return labels.APART.join([run.experiment.server.label, *ends])


def tell_apart(fields: Sequence[Fields]) -> list[str]:
    """For each experiment of a list, the fields by which it differs from the others, as the end of
    a label: ` · period 5`. Of many fields it has those that are needed, `MOST_TOLD` at least, and
    ` · ...`. Experiments of equal fields have equal ends."""
    varying = varying_fields(fields)
    needed: list[str] = []
    kinds = 1
    for name in varying:
        found = len({tuple(each.get(one) for one in (*needed, name)) for each in fields})
        if found > kinds:
            needed, kinds = [*needed, name], found
    others = [name for name in varying if name not in needed]
    telling = [*needed, *others[: max(MOST_TOLD - len(needed), 0)]]
    more = f"{labels.APART}..." if len(telling) < len(varying) else ""
    telling.sort(key=varying.index)
    short = short_names(telling)
    return [
        "".join(
            f"{labels.APART}{short[name].replace('_', ' ')} {format_value(each[name])}"
            for name in telling
            if each.get(name) is not None
        )
        + more
        for each in fields
    ]


def cell_fields(run: Recorded) -> Fields:
    """The fields that separate cells; None where a run ignores one, as a ring its degree."""
    idle = run.experiment.unused_paths() - {"network.devices"}
    fields = {n: None if n in idle else value for n, value in flat_fields(run.experiment).items()}
    for name in ("name", "seed", "server.primitive", "server.name"):
        del fields[name]
    # Two graphs from Python, or from files with the same name, are different networks.
    fields["network.graph"] = run.materials.get("graph", "as named")[:8]
    return fields | dict.fromkeys(_fields_in_label(run.experiment))


def _fields_in_label(experiment: Experiment) -> set[str]:
    """The fields that the label of a run stands for: those that a preset sets, or the beta of a
    blend. Runs that differ in them are compared within one cell."""
    server = experiment.server
    if server.name:
        return fields_of_preset(experiment)
    if server.dial is not None:
        return {"server.beta"}
    if server.primitive != labels.BLEND:
        return set()
    implied = {"beta", "beta_schedule", "beta_end"}
    if ":" not in server.beta_schedule:
        constant = server.model_copy(update={"beta_schedule": schedules.CONSTANT})
        implied |= constant.unused_fields() - server.unused_fields()
    return {f"server.{field}" for field in implied}


def varying_fields(fields: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields with more than one value. None does not count as a value."""
    names = dict.fromkeys(name for each in fields for name in each)
    return [name for name in names if len({each.get(name) for each in fields} - {None}) > 1]


def full_name(name: str, fields: Sequence[str], others: Sequence[str] = ()) -> str:
    """The full name of a field: `period` is `server.period`. `others` are not suggested."""
    known = [*fields, *others]
    found = [
        path
        for path in known
        if path == name or (path.endswith(f".{name}") and path not in FULL_ONLY)
    ]
    if len(found) > 1:
        raise SkerryError(f"'{name}' may be {' or '.join(found)}. Give the full name.")
    if not found:
        raise SkerryError(unknown("field", name, fields or known))
    return found[0]


def short_names(fields: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """By full name the short one, `period` for `server.period`, where it is unique."""
    short = {one: one if one in FULL_ONLY else one.rpartition(".")[2] for one in fields}
    times = Counter(short.values())
    return {
        field: name if times[name] == 1 and name not in taken else field
        for field, name in short.items()
    }


def format_value(value: Any) -> str:
    """The value of a field as a table shows it."""
    if value is None:
        return "-"
    if value == "":
        return UNSET
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else written(str(value))


def parse_where(texts: Sequence[str]) -> Where:
    """Parse conditions such as `period=5`; the same field twice means either value."""
    wanted: dict[str, list[str]] = {}
    for text in texts:
        field, equals, value = (part.strip() for part in text.partition("="))
        if not (field and equals and value):
            raise SkerryError(f"a condition reads field=value (got '{text}'). Example: period=5")
        if field.rpartition(".")[2] == "primitive":
            raise SkerryError(
                f"primitives are chosen by {argument('compare')}, not {argument('where')} (got "
                f"{text}). Use {argument('compare')} {value}"
            )
        wanted.setdefault(field, []).append(value)
    return wanted


def matches_any(value: Any, texts: Sequence[str]) -> bool:
    """Whether a field's value equals one of these texts. None, an ignored field, always does."""
    return value is None or any(_equals(value, text) for text in texts)


def check_met(where: object, name: str, texts: Sequence[str], values: Iterable[Any]) -> None:
    """Raise an error if none of the recorded values of a field meets its condition."""
    recorded = list(dict.fromkeys(value for value in values if value is not None))
    if recorded and not any(matches_any(value, texts) for value in recorded):
        raise SkerryError(
            f"no run in {where} has {name} = {' or '.join(texts)} (got "
            f"{', '.join(map(str, recorded))[:200]}). Choose one of these values."
        )


def _equals(value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, int | float):
        try:
            return math.isclose(value, float(text), rel_tol=1e-6)
        except ValueError:
            return False
    return str(value) == text


def _plain(value: Any) -> Any:
    if value is None:
        return UNSET
    if isinstance(value, str):
        return written(value)
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
