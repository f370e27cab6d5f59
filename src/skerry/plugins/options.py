"""The options of a plug-in: its keyword-only parameters, which an experiment sets beside its name.

`[model] name = "mlp"`, `hidden = 32` calls `mlp(problem, hidden=32)`. Nothing else says which
options there are: a built-in and a user's own function are asked in the same way.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from skerry.plugins import registry

_OURS = Path(__file__).parent.parent
_METHODS = {"server optimizer": "deliver"}
"""Where not the class itself is called with the options, but one of its methods."""
CONTEXT = "context"
"""The parameter by which a plug-in asks for what it may know (plugins/context.py)."""
WITHOUT_CONTEXT = frozenset(
    [
        "dataset",
        "inter partition",
        "intra partition",
        "sampling",
        "model",
        "loss",
        "score",
        "method",
        "beta schedule",
        "sampled schedule",
        "period schedule",
        "local optimizer",
        "compression",
        "measure",
    ]
)
"""Kinds that are asked before there are rounds, or are told the same in another way; to them it is
an option like others."""


@dataclass(frozen=True)
class Options:
    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    """Those without a default."""
    takes_any: bool = False

    def takes(self, option: str) -> bool:
        return self.takes_any or option in self.names


def options_of(kind: str, name: str) -> Options:
    """What the function behind a name can be told. Imports a user's own, no built-in."""
    if registry.is_given(kind, name):
        return Options(takes_any=True)
    if registry.is_builtin(kind, name):
        return _as_written(registry.KINDS[kind][name], _METHODS.get(kind, "__init__"))
    with registry.users_own(kind, name):
        found = _of_signature(_called(kind, name))
    if kind in WITHOUT_CONTEXT:
        return found
    names, required = ([n for n in some if n != CONTEXT] for some in (found.names, found.required))
    return Options(tuple(names), tuple(required), found.takes_any)


def asks_context(kind: str, name: str) -> bool:
    """Whether a user's own function is to be told where a run stands."""
    if kind in WITHOUT_CONTEXT or ":" not in name:
        return False
    with registry.users_own(kind, name):
        try:
            return CONTEXT in inspect.signature(_called(kind, name)).parameters
        except ValueError:
            return False


def _called(kind: str, name: str) -> Callable[..., Any]:
    found = registry.resolve(kind, name)
    called: Callable[..., Any] = getattr(found, _METHODS[kind]) if kind in _METHODS else found
    return called


def _of_signature(function: Callable[..., Any]) -> Options:
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


@cache
def _as_written(reference: str, method: str) -> Options:
    """The same of one of our own functions, from its source. Every content key depends on what the
    named functions take; importing torch and networkx to know it would take seconds."""
    module, _, name = reference.partition(":")
    known = _definitions(_parsed(module))
    found = known.get(name)
    while isinstance(found, ast.ClassDef):  # what it does not say itself, one it inherits from does
        parents = [base.id for base in found.bases if isinstance(base, ast.Name)]
        found = _definitions(found).get(method) or known.get(parents[0] if parents else "")
    if not isinstance(found, ast.FunctionDef):
        return Options()
    written, defaults = found.args.kwonlyargs, found.args.kw_defaults
    return Options(
        names=tuple(a.arg for a in written),
        required=tuple(a.arg for a, d in zip(written, defaults, strict=True) if d is None),
        takes_any=found.args.kwarg is not None,
    )


@cache
def _parsed(module: str) -> ast.Module:
    file = _OURS.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _definitions(inside: ast.Module | ast.ClassDef) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    return {s.name: s for s in inside.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
