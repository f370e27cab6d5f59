"""Labels of primitives: `s2s`, `blend(0.25)`, or the name of a user's own function.

All labels are written and parsed here; `blend:0.25` and `blend(0.25)` mean the same.
"""

import re
from collections.abc import Sequence

from skerry.errors import SkerryError, unknown
from skerry.plugins import fingerprint, registry

BLEND = "blend"
ON_THE_DIAL = ("s2s", BLEND, "s2a")
NO_SERVER = "none"
APART = " · "
"""Separates a label from the fields that tell its experiment from others: `s2s · period 5`."""
_WITH_BETA = re.compile(r"(?P<name>\w+)(?::(?P<plain>.*)|\((?P<braced>.*)\))")


def write_label(primitive: str, beta: float | str | None = None) -> str:
    """The label of a primitive: a blend with its beta to six digits, a function by a short name."""
    if fingerprint.is_function_name(primitive):
        return fingerprint.short_name(primitive)
    if primitive != BLEND or beta is None:
        return primitive
    return f"{BLEND}({beta if isinstance(beta, str) else f'{beta:g}'})"


def command_line_label(primitive: str, beta: float | None = None) -> str:
    """The label as it is typed on a command line, where parentheses would need quotes."""
    return f"{BLEND}:{beta!r}" if primitive == BLEND and beta is not None else primitive


def read_label(label: str) -> tuple[str, float | None]:
    """The primitive and beta of a label such as `blend:0.25`, `blend(0.25)`, `blend` or `s2a`.
    A user's own `package.module:function` is returned unchanged."""
    label = label.strip()
    found = _WITH_BETA.fullmatch(label)
    if found is None or found["name"] not in registry.PRIMITIVES:
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


def find_label(name: str, among: Sequence[str]) -> str:
    """The label among these that a name refers to. `blend` alone is enough where there is one
    blend, and `halfway` where there is one function of that name given from Python."""
    primitive, beta = read_any_label(name)
    if name in among:
        return name
    versions = [label for label in among if label.partition("@")[0] == name]
    if len(versions) == 1:
        return versions[0]
    blends = [label for label in among if beta_of(label) is not None]
    if name == BLEND and len(blends) == 1:
        return blends[0]
    label = write_label(primitive, beta)
    if label not in among:
        raise SkerryError(unknown("primitive", name, among))
    return label


def dial_position(primitive: str, beta: float | None = None) -> float | None:
    """The place of a primitive between S2S, at 0, and S2A, at 1; None for any other primitive."""
    return {"s2s": 0.0, "s2a": 1.0, BLEND: beta}.get(primitive)


def check_dial(primitive: str) -> None:
    """Raise SkerryError unless the theory covers this primitive: S2S, S2A, or a blend of both."""
    if primitive in ON_THE_DIAL:
        return
    if primitive in registry.PRIMITIVES:
        raise SkerryError(
            f"no bound is known for the primitive '{primitive}'. Choose one of "
            f"{', '.join(ON_THE_DIAL)}."
        )
    raise SkerryError(unknown("primitive", primitive, ON_THE_DIAL))


def label_order(label: str) -> float:
    """A sort key: S2S, blends by beta, S2A, other primitives, no server. Sorting is stable: labels
    of one place keep their order."""
    primitive, beta = read_any_label(label.partition(APART)[0])
    position = dial_position(primitive, beta)
    return position if position is not None else 3.0 if primitive == NO_SERVER else 2.0


def beta_of(label: str) -> float | None:
    """The beta of a blend's label: 0.25 of `blend(0.25)`; None for any other label."""
    return read_any_label(label)[1]


def read_any_label(label: str) -> tuple[str, float | None]:
    """As `read_label`, but a malformed blend counts as a user's own name."""
    try:
        return read_label(label)
    except SkerryError:
        return label, None
