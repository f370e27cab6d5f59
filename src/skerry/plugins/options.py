"""How a plug-in is called: its options, and the context if it has a parameter of that name.

Options are keyword-only parameters, which an experiment sets beside the name: `[model] name =
"mlp"`, `hidden = 32` calls `mlp(problem, hidden=32)`. The registry declares the options of a
built-in; those of a user's own function are read from its signature. Every kind is called with its
arrays in order and, if the function has a parameter `context`, with a `Context` by that name.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from skerry.plugins import registry
from skerry.plugins.context import Context

CONTEXT = "context"
"""The parameter by which a plug-in receives a Context."""
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "topology": ("size",),
    "mixing": ("graph",),
    "dataset": (),
    "inter partition": ("labels", "classes", "sizes"),
    "intra partition": ("labels", "indices", "size"),
    "sampling": ("partition", "batch"),
    "loss": ("outputs", "targets"),
    "score": ("outputs", "targets"),
    "schedule": (),
    "local optimizer": ("gradient", "state"),
    "primitive": ("X_nld", "sampled_k", "delivered_ld"),
    "selection": (),
    "beta schedule": (),
    "sampled schedule": (),
    "period schedule": (),
    "server optimizer": ("memory", "average_ld"),
    "measure": ("models",),
    "stop rule": ("values",),
}
"""What a plug-in of each kind is called with, beside the context and its options. Models, methods
and compressions have rules of their own."""


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
    with registry.errors_of(kind, name):
        return _signature_options(_called(kind, name))


def takes_context(kind: str, name: str) -> bool:
    """Whether the function behind a name has a parameter `context`."""
    with registry.errors_of(kind, name):
        return has_context(_called(kind, name))


def bind(
    kind: str, function: Callable[..., Any], options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The call `(*arrays, context)` of a plug-in: with its options, and the context if it takes
    one. This is how plug-ins of every kind are called."""
    given, place = dict(options or {}), _context_place(function)
    if place is None:
        return lambda *arrays, context: function(*arrays, **given)

    def call(*arrays: Any, context: Context) -> Any:
        own = context.for_plugin(kind, given)
        if place <= len(arrays):
            return function(*arrays[:place], own, *arrays[place:], **given)
        return function(*arrays, context=own, **given)

    return call


def has_context(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `context`."""
    return _context_place(function) is not None


def call_fault(kind: str, name: str) -> str | None:
    """Why a user's own function cannot be called as one of its kind, or None."""
    with registry.errors_of(kind, name):
        function = _called(kind, name)
        parameters = _parameters(function)
    own = [p for p in parameters or () if p.name == CONTEXT]
    if own and kind in ("method", "compression"):
        hooks = {"method": "lanes.context in its hooks", "compression": "context in compress"}
        return f"{kind} '{name}' is built with its options, without a context. Use {hooks[kind]}."
    if parameters is None or kind not in ARGUMENTS:
        return None
    if kind == "server optimizer":
        start = _parameters(registry.resolve(kind, name).start)
        if any(found and found[0].name == "self" for found in (start, parameters)):
            return (
                f"{kind} '{name}' is a class whose start and deliver are called without an "
                "instance (got the parameter self). Write @staticmethod above both, without self."
            )
    if own and own[0].default not in (inspect.Parameter.empty, None):
        return (
            f"{kind} '{name}' has a parameter 'context' with the value {own[0].default!r:.40}, but "
            "that name is for the skerry.Context. Rename the parameter."
        )
    arrays = [p for p in parameters if p.kind in POSITIONAL and p.name != CONTEXT]
    needed = [p for p in arrays if p.default is p.empty]
    has_room = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    wanted = ARGUMENTS[kind]
    if len(needed) <= len(wanted) and (has_room or len(wanted) <= len(arrays)):
        return None
    got, called = (", ".join(names) for names in ([p.name for p in parameters], wanted))
    return (
        f"{kind} '{name}' is called with ({called}), by position, and with context= if it has a "
        f"parameter of that name (got the parameters ({got})). Options are keyword-only "
        "parameters, after a *."
    )


def _context_place(function: Callable[..., Any]) -> int | None:
    """Place of the parameter `context`, or None; behind all others if it is keyword-only."""
    for place, parameter in enumerate(_parameters(function) or ()):
        if parameter.name == CONTEXT:
            return place if parameter.kind in POSITIONAL else sys.maxsize
    return None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return _signature(function)
    except TypeError:  # an object that cannot be hashed
        return _signature.__wrapped__(function)


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters, which a sweep needs many times."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except ValueError:  # written in C, without a signature
        return None


@cache
def _declared_options(reference: str) -> Options:
    _, _, written = reference.partition("(")
    return Options(tuple(written.removesuffix(")").split(", ")) if written.strip(")") else ())


def _called(kind: str, name: str) -> Any:
    """The function whose parameters are options; for a server optimizer, a method of its class."""
    found = registry.resolve(kind, name)
    return found.deliver if kind == "server optimizer" else found


def _signature_options(function: Callable[..., Any]) -> Options:
    parameters = _parameters(function) or []
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != CONTEXT]
    return Options(
        names=tuple(p.name for p in options),
        required=tuple(p.name for p in options if p.default is p.empty),
        takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )
