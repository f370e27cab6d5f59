"""How a plug-in is called: its options, and the context if it has a parameter of that name.

Options are keyword-only parameters, which an experiment sets beside the name: `[model] name =
"mlp"`, `hidden = 32` calls `mlp(problem, hidden=32)`. The registry declares the options of a
built-in; those of a user's own function are read from its signature. Every kind is called with its
arrays in order and, if the function has a parameter `context`, with a `Context` by that name.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from skerry.plugins import registry
from skerry.plugins.context import Context

CONTEXT = "context"
"""The parameter by which a plug-in receives a Context."""


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
        return _signature_options(_called(kind, name))


def takes_context(kind: str, name: str) -> bool:
    """Whether the function behind a name has a parameter `context`."""
    with registry.users_own(kind, name):
        return has_context(_called(kind, name))


def bind(
    kind: str, function: Callable[..., Any], options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The call `(*arrays, context)` of a plug-in: with its options, and the context if it takes
    one. This is how plug-ins of every kind are called."""
    given = dict(options or {})
    if not has_context(function):
        return lambda *arrays, context: function(*arrays, **given)

    def call(*arrays: Any, context: Context) -> Any:
        return function(*arrays, context=context.for_plugin(kind, given), **given)

    return call


def has_context(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `context`."""
    try:
        return _reads_context(getattr(function, "__func__", function))
    except TypeError:  # an object that cannot be hashed
        return _reads_context.__wrapped__(function)


@lru_cache(maxsize=256)
def _reads_context(function: Callable[..., Any]) -> bool:
    try:
        return CONTEXT in inspect.signature(function).parameters
    except ValueError:  # written in C, without a signature
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
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != CONTEXT]
    return Options(
        names=tuple(p.name for p in options),
        required=tuple(p.name for p in options if p.default is p.empty),
        takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )
