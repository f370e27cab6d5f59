"""The options of a plug-in: keyword-only parameters, which an experiment sets beside its name.

`[model] name = "mlp"`, `hidden = 32` calls `mlp(problem, hidden=32)`. The registry declares the
options of a built-in; those of a user's own function are read from its signature.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from skerry.plugins import registry

CONTEXT = "context"
"""The parameter by which a plug-in receives a Context (plugins/context.py)."""
WITH_CONTEXT = frozenset(
    ("topology", "mixing", "schedule", "primitive", "selection", "server optimizer", "stop rule")
)
"""Kinds whose functions may take a Context. Others are called before there are rounds, or get the
same facts in another argument: for them `context` is an option like any other."""


@dataclass(frozen=True)
class Options:
    """The options that a function takes."""

    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    """Options without a default; not known for built-ins."""
    takes_any: bool = False

    def takes(self, option: str) -> bool:
        return self.takes_any or option in self.names


def options_of(kind: str, name: str) -> Options:
    """The options of the function behind a name. Imports a user's module, no built-in."""
    if registry.is_given(kind, name):
        return Options(takes_any=True)
    if registry.is_builtin(kind, name):
        return _declared_options(registry.KINDS[kind][name])
    with registry.users_own(kind, name):
        found = _signature_options(_called(kind, name))
    if kind not in WITH_CONTEXT:
        return found
    names, required = ([n for n in some if n != CONTEXT] for some in (found.names, found.required))
    return Options(tuple(names), tuple(required), found.takes_any)


def takes_context(kind: str, name: str) -> bool:
    """Whether a user's own function has a parameter `context` and its kind receives one."""
    if kind not in WITH_CONTEXT or ":" not in name:
        return False
    with registry.users_own(kind, name):
        try:
            return CONTEXT in inspect.signature(_called(kind, name)).parameters
        except ValueError:
            return False


@cache
def _declared_options(reference: str) -> Options:
    _, _, written = reference.partition("(")
    return Options(tuple(written.removesuffix(")").split(", ")) if written.strip(")") else ())


def _called(kind: str, name: str) -> Any:
    """The function whose parameters are options; for a server optimizer, a method of its class."""
    found = registry.resolve(kind, name)
    return found.deliver if kind == "server optimizer" else found


def _signature_options(function: Callable[..., Any]) -> Options:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C, without a signature
        return Options()
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return Options(
        names=tuple(p.name for p in options),
        required=tuple(p.name for p in options if p.default is p.empty),
        takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )
