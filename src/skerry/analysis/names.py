"""Fields of experiments as tables, grids and users name them."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from skerry.config import labels, schedules
from skerry.config.experiment import Experiment, Section
from skerry.config.presets import fields_of_preset
from skerry.errors import SkerryError, argument, unknown
from skerry.records.store import Run

Fields = dict[str, Any]
"""`section.field` and its value; lists as text, which can be grouped and compared."""
UNSET = "unset"

FULL_ONLY = {
    f"training.{name}" for name in ("optimizer", "momentum", "second_momentum", "smallest")
}
"""Fields that go by their full names alone: a field of the server had the short one first."""

Where = Mapping[str, Sequence[str]]
"""By field the values that are wanted, as typed."""


def flat(experiment: Experiment) -> Fields:
    """Every field of an experiment."""
    fields: Fields = {}
    for name, value in experiment:
        if isinstance(value, Section):
            fields |= {f"{name}.{field}": _plain(one) for field, one in value}
        else:
            fields[name] = value
    return fields


def fields_of(run: Run) -> Fields:
    """What tells cells apart; None where it plays no part, such as the degree of a ring."""
    idle = run.experiment.unused_paths() - {"network.devices"}
    fields = {n: None if n in idle else value for n, value in flat(run.experiment).items()}
    for name in ("name", "seed", "server.primitive", "server.name"):
        del fields[name]
    # Two graphs given from Python, or in files of one name, are two networks.
    fields["network.graph"] = run.materials.get("graph", "as named")[:8]
    return fields | dict.fromkeys(told_by_label(run.experiment))


def told_by_label(experiment: Experiment) -> set[str]:
    """The fields that a run's label tells: those that a preset sets, or how far a blend goes. Runs
    that differ in them stand in one cell, beside each other."""
    server = experiment.server
    if server.name:
        return fields_of_preset(experiment)
    if server.dial is not None:
        return {"server.beta"}
    if server.primitive != labels.BLEND:
        return set()
    told = {"beta", "beta_schedule", "beta_end"}
    if ":" not in server.beta_schedule:
        standing = server.model_copy(update={"beta_schedule": schedules.CONSTANT})
        told |= standing.unused_fields() - server.unused_fields()
    return {f"server.{field}" for field in told}


def varying_fields(fields: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells cells apart. Whether a field plays a part is told by other fields."""
    names = dict.fromkeys(name for each in fields for name in each)
    return [name for name in names if len({each.get(name) for each in fields} - {None}) > 1]


def full_name(name: str, fields: Sequence[str], others: Sequence[str] = ()) -> str:
    """The field that a user means: `period` is `server.period`. `others` may be named too."""
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
    """`period` for `server.period`, where nothing else is called so."""
    short = {one: one if one in FULL_ONLY else one.rpartition(".")[2] for one in fields}
    times = Counter(short.values())
    return {
        field: name if times[name] == 1 and name not in taken else field
        for field, name in short.items()
    }


def word(value: Any) -> str:
    """A field's value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


# Conditions that users type


def parse_where(texts: Sequence[str]) -> Where:
    """`period=5`; the same field twice means either value."""
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


def is_one_of(value: Any, texts: Sequence[str]) -> bool:
    """Typed values are text; what plays no part meets any condition."""
    return value is None or any(_is(value, text) for text in texts)


def check_met(where: object, name: str, texts: Sequence[str], there: Iterable[Any]) -> None:
    recorded = list(dict.fromkeys(value for value in there if value is not None))
    if recorded and not any(is_one_of(value, texts) for value in recorded):
        raise SkerryError(
            f"no run in {where} has {name} = {' or '.join(texts)} (got "
            f"{', '.join(map(str, recorded))[:200]}). Choose from those."
        )


def _is(value: Any, text: str) -> bool:
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
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
