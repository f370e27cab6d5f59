"""Inputs as they should not be: fields with strange values, and files with damaged bytes."""

import math
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from skerry.config.experiment import Experiment, Section
from skerry.config.toml import toml_key, toml_value
from skerry.runs.sweep import Sweep


@dataclass(frozen=True)
class Raw:
    """A value that only TOML text can hold: a date, a number in base 16."""

    text: str


SECTIONS = {
    name: list(field.annotation.model_fields)
    for name, field in Experiment.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
FIELDS = [
    *(name for name in Experiment.model_fields if name not in SECTIONS),
    *(f"{section}.{name}" for section, names in SECTIONS.items() for name in names),
]
OPTIONS = {
    "data.samples": ("data.dataset", "synthetic"),
    "data.test_samples": ("data.dataset", "synthetic"),
    "data.features": ("data.dataset", "synthetic"),
    "data.classes": ("data.dataset", "synthetic"),
    "data.difficulty": ("data.dataset", "synthetic"),
    "data.data_seed": ("data.dataset", "synthetic"),
    "data.noise": ("data.dataset", "synthetic_regression"),
    "data.curve": ("data.dataset", "synthetic_regression"),
    "data.length": ("data.dataset", "synthetic_tokens"),
    "data.vocabulary": ("data.dataset", "synthetic_tokens"),
    "data.dialects": ("data.dataset", "synthetic_tokens"),
    "model.hidden": ("model.name", "mlp"),
    "model.curvature": ("model.name", "quadratic"),
    "model.conditioning": ("model.name", "quadratic"),
}
"""Options of built-in data sets and models, each with the field that names whose it is."""
SWEEP_FIELDS = [f"sweep.{name}" for name in Sweep.table_fields()]

# Numbers are small, or too large for anything: what lies between is slow, but sound.
numbers = st.one_of(
    st.integers(-3, 60),
    st.sampled_from([10**12, 10**18, 2**63, -(2**64), 10**30, 10**99, 10**101, 10**400]),
    st.floats(-2, 60),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0]),
)
words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", "nan", "true", "1", "[1]", "ring", "none", "blend", "s2s", "mnist", "shards",
         "x" * 5000, "a\x00b", "é\n\x1b[31m", "{0}", "%s", "{ge}", "~nosuchuser/x.npz",
         "gone.csv", "gone.graphml", "n" * 400 + ".csv", "a\x00b.csv", "json:dumps", "math:sqrt",
         "nope:f", "bad_plugins:raises", "bad_plugins:nothing", ":", "a:", ":b", "a:b:c", "a.:b"]
    ),
)  # fmt: skip
plain = st.one_of(numbers, words, st.booleans())
raw = st.sampled_from(
    ["2024-01-01", "12:30:00", "2024-01-01T00:00:00Z", "0x1F", "0b1", "1_000", "'''\na'''",
     f"0x{'f' * 5000}", "9" * 5000, "[" * 30 + "]" * 30, "[" * 3000 + "]" * 3000, "{a = {b = 1}}",
     "1e400", "-0", "+1"]
).map(Raw)  # fmt: skip
nested = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc.-é ", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
values = st.one_of(plain, nested, raw)

misspelt = st.sampled_from(FIELDS).flatmap(
    lambda path: st.sampled_from([path[:-1], f"{path}s", path.replace(".", "_"), f"x.{path}"])
)


def text_of(value: Any) -> str:
    return value.text if isinstance(value, Raw) else toml_value(value)


def toml_of(table: dict[str, Any]) -> str:
    """TOML text of fields by their paths: `{"server.period": 5}`; a path without a section, such as
    `network`, may be given a value where a section belongs."""
    lines, sections = [], dict[str, list[str]]()
    for path, value in table.items():
        section, _, name = path.rpartition(".")
        line = f"{toml_key(name)} = {text_of(value)}"
        if section:
            sections.setdefault(section, []).append(line)
        else:
            lines.append(line)
    for section, inside in sections.items():
        lines += [f"[{section}]", *inside]
    return "\n".join(lines) + "\n"


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes of a file after an accident, or several."""
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(result) - 1)))
        match draw(st.sampled_from(["cut", "flip", "set", "insert", "delete", "repeat"])):
            case "cut":
                del result[place:]
            case "flip" if result:
                result[place] ^= 1 << draw(st.integers(0, 7))
            case "set":
                ones = draw(st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\x80"]))
                result[place : place + len(ones)] = ones
            case "insert":
                result[place:place] = draw(st.binary(min_size=1, max_size=20))
            case "delete":
                del result[place : place + draw(st.integers(1, 50))]
            case "repeat":
                result[place:place] = result[place : place + draw(st.integers(1, 50))]
    return bytes(result)
