"""Names and fingerprints of functions that are given from Python instead of by name.

An experiment is text: it is compared, recorded and sent as such. A function of an importable module
is written as `package.module:name`. Any other, from a notebook or a script, gets a name that
identifies it: `given:halfway@3f2a91c0d4e5`, its own name and a fingerprint of its code and values.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from skerry.errors import SkerryError
from skerry.plugins.content import fingerprint, place_in_module
from skerry.plugins.sources import refuse_changed_module, source_hash

Function = Callable[..., Any]

PREFIX = "given:"
DIGITS = 12
SHOWN_DIGITS = 4
"""Digits of the fingerprint in a short name, enough to distinguish versions of a function."""

FUNCTIONS: dict[str, Function] = {}
"""Functions given from Python in this process, by the names that stand for them."""


def as_text(value: Any) -> Any:
    """The name of a function; any other value unchanged."""
    return function_name(value) if callable(value) else value


def function_name(function: Function) -> str:
    """The name that stands for a function in an experiment."""
    if place := _place(function):
        return place
    name = f"{PREFIX}{_own_name(function)}@{fingerprint_function(function)}"
    FUNCTIONS[name] = function
    return name


def refuse_changed(names: Iterable[str], imported_again: bool = False) -> None:
    """Raise SkerryError if a user's own code is no longer what its name or file says, so that its
    runs would be recorded under the key of another one."""
    for name in dict.fromkeys(names):
        if name not in FUNCTIONS:
            refuse_changed_module(name.partition(":")[0], imported_again)
            continue
        own, _, digits = name.removeprefix(PREFIX).rpartition("@")
        if fingerprint_function(FUNCTIONS[name]) != digits:
            raise SkerryError(
                f"the function {own} has changed since the experiment was built (something that it "
                "uses has another value). Build the experiment again."
            )


def is_function_name(name: str) -> bool:
    """Whether the name stands for a function given from Python. No module name contains `@`."""
    return name.startswith(PREFIX) and "@" in name


def short_name(name: str) -> str:
    """A short form of the name for tables: `halfway@3f2a`."""
    own, _, digits = name.removeprefix(PREFIX).rpartition("@")
    return f"{own}@{digits[:SHOWN_DIGITS]}"


def _own_name(function: Function) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__).strip("<>")
    return name if name.isidentifier() else "function"


def fingerprint_function(function: Function) -> str:
    """A hash of all that decides what a function computes; see `skerry.plugins.content`."""
    return fingerprint(function, _own_name(function), DIGITS)


def identity(function: Function) -> str:
    """The identity of a function in a content key: its place and the source of its module, if it
    can be imported; else its fingerprint."""
    place = _place(function)
    if place is None:
        return fingerprint_function(function)
    return f"{place} {source_hash(place.partition(':')[0])}"


def _place(function: Function) -> str | None:
    """`package.module:name` of a function that another process can import and whose source can be
    read, so that an edited version has another key."""
    place = place_in_module(function)
    return place if place and source_hash(place.partition(":")[0]) else None
