"""What a primitive is called beside others: `s2s`, `blend(0.25)`, a user's own.

Names are written and read here and nowhere else; `blend:0.25` and `blend(0.25)` are the same.
"""

import re
from collections.abc import Sequence

from skerry.errors import SkerryError, unknown
from skerry.plugins import callables

BLEND = "blend"
ON_THE_DIAL = ("s2s", BLEND, "s2a")
NO_SERVER = "none"
BUILT_IN = ("s2s", "s2a", BLEND, NO_SERVER)
_WITH_BETA = re.compile(r"(?P<name>\w+)(?::(?P<plain>.*)|\((?P<braced>.*)\))")


def write(primitive: str, beta: float | str | None = None) -> str:
    """The label: a blend's with its beta, to six digits; short for a function given from Python."""
    if callables.is_given(primitive):
        return callables.label(primitive)
    if primitive != BLEND or beta is None:
        return primitive
    return f"{BLEND}({beta if isinstance(beta, str) else f'{beta:g}'})"


def typed(primitive: str, beta: float | None = None) -> str:
    """As it is typed on a command line, where parentheses would need quotes."""
    return f"{BLEND}:{beta:g}" if primitive == BLEND and beta is not None else primitive


def read(label: str) -> tuple[str, float | None]:
    """The primitive that a user means, and its beta: `blend:0.25`, `blend(0.25)`, `blend`, `s2a`.
    A user's own `package.module:function` is returned as it is."""
    label = label.strip()
    found = _WITH_BETA.fullmatch(label)
    if found is None or found["name"] not in BUILT_IN:
        return label, None
    if found["name"] != BLEND:
        raise SkerryError(f"only blend takes a beta (got '{label}'). Example: blend:0.25")
    text = found["plain"] if found["plain"] is not None else found["braced"]
    try:
        beta = float(text)
    except ValueError:
        beta = float("nan")
    if not 0 <= beta <= 1:
        raise SkerryError(
            f"a blend's beta lies from 0, which is s2s, to 1, which is s2a (got '{label}'). "
            "Example: blend:0.25"
        )
    return BLEND, beta


def meant(name: str, among: Sequence[str]) -> str:
    """The one of these labels that a user means; `blend` alone, where there is one blend, and
    `halfway`, where there is one function given from Python that is called so."""
    primitive, beta = read_any(name)
    versions = [label for label in among if label.partition("@")[0] == name]
    if len(versions) == 1:
        return versions[0]
    blends = [label for label in among if beta_of(label) is not None]
    if name == BLEND and len(blends) == 1:
        return blends[0]
    label = name if name in among else write(primitive, beta)
    if label not in among:
        raise SkerryError(unknown("primitive", name, among))
    return label


def dial(primitive: str, beta: float | None = None) -> float | None:
    """Where a primitive stands between S2S, at 0, and S2A, at 1; None for one that is neither."""
    return {"s2s": 0.0, "s2a": 1.0, BLEND: beta}.get(primitive)


def rank(label: str) -> float:
    """In order: S2S, the blends by their beta, S2A, users' own, no server."""
    primitive, beta = read_any(label)
    place = dial(primitive, beta)
    return place if place is not None else 3.0 if primitive == NO_SERVER else 2.0


def beta_of(label: str) -> float | None:
    """A blend's beta: 0.25 of `blend(0.25)`; None for anything else."""
    return read_any(label)[1]


def read_any(label: str) -> tuple[str, float | None]:
    """As `read`; what only looks like a blend is a user's own."""
    try:
        return read(label)
    except SkerryError:
        return label, None
