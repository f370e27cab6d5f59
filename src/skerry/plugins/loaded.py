"""Whether a loaded module of the user is what its file says.

Runs are recorded under the hash of a file, but computed with what is in memory. Only modules that
Python loads from source are compared: what pytest and others rewrite has other code than its file.
"""

import ast
import reprlib
import sys
import types
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from importlib.machinery import SourceFileLoader
from inspect import getattr_static
from pathlib import Path
from typing import Any

from skerry.errors import SkerryError

PLAIN = (bool, int, float, complex, str, bytes, type(None), tuple)
Key = tuple[Any, ...]


def refuse_other_code(module: str, text: bytes) -> None:
    """Raise SkerryError if a loaded module has functions that its file does not have."""
    loaded, file = _compared(module)
    if loaded is None:
        return
    try:
        in_file = set(_all_keys(compile(text, file, "exec", dont_inherit=True)))
        defaults = _defaults(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError):  # it is being written
        in_file, defaults = set(), {}
    for function in _functions(vars(loaded).values(), module, set()):
        code = function.__code__
        if code.co_filename != file:
            continue
        stated, held = defaults.get(code.co_qualname, {}), _held_defaults(function)
        same = all(_constant(held.get(name, one)) == _constant(one) for name, one in stated.items())
        if not same or _key(code) not in in_file:
            raise SkerryError(
                f"{Path(file).name} was edited after it was imported (function "
                f"{function.__qualname__} differs). Restart Python, or reload the module."
            )


def refuse_other_values(module: str, text: bytes) -> None:
    """Raise SkerryError if a plain value at the top of a module is not what its file says."""
    loaded, file = _compared(module)
    for name, value in _literals(text).items():
        held = vars(loaded).get(name, value) if loaded else value
        if _constant(held) != _constant(value):
            raise SkerryError(
                f"{module}.{name} is {reprlib.repr(held)}, but {Path(file).name} says {value!r}, "
                "and runs are recorded by the file. Change it there and restart Python, or make it "
                "an option."
            )


def _compared(module: str) -> tuple[types.ModuleType | None, str]:
    loaded = sys.modules.get(module)
    spec = getattr(loaded, "__spec__", None)
    if not isinstance(loaded, types.ModuleType) or type(getattr(spec, "loader", None)) is not (
        SourceFileLoader
    ):
        return None, ""
    return loaded, str(getattr(spec, "origin", ""))


def _all_keys(code: types.CodeType) -> Iterator[Key]:
    yield _key(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _all_keys(inner)


def _key(code: types.CodeType) -> Key:
    """The code of a function without the numbers of its lines."""
    constants = tuple(map(_constant, code.co_consts))
    names = code.co_names, code.co_varnames, code.co_freevars
    return code.co_qualname, code.co_code, constants, names


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _key(value)
    if isinstance(value, tuple | frozenset):  # whose order differs between processes
        return type(value), type(value)(map(_constant, value))
    return type(value), repr(value)


def _defaults(body: Iterable[ast.stmt], place: str = "") -> dict[str, dict[str, Any]]:
    """By function, the plain defaults of its parameters; of functions that are defined once."""
    found: dict[str, dict[str, Any]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= _defaults(node.body, f"{place}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            args, name = node.args, f"{place}{node.name}"
            first = len(args.posonlyargs + args.args) - len(args.defaults)
            by_place = zip((args.posonlyargs + args.args)[first:], args.defaults, strict=True)
            pairs = [*by_place, *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
            plain = {arg.arg: one.value for arg, one in pairs if isinstance(one, ast.Constant)}
            found[name] = {} if name in found else plain
    return found


def _held_defaults(function: types.FunctionType) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = reversed(code.co_varnames[: code.co_argcount])
    return dict(zip(names, reversed(values), strict=False)) | (function.__kwdefaults__ or {})


def _functions(values: Iterable[Any], module: str, seen: set[int]) -> Iterator[types.FunctionType]:
    """The functions among values and below decorators, and those of classes of the module."""
    for value in values:
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            if value.__module__ == module:
                yield from _functions(list(vars(value).values()), module, seen)
            continue
        if isinstance(value, types.FunctionType):
            yield value
        if isinstance(value, property | cached_property | partial | types.MethodType):
            names = ("fget", "fset", "func", "__func__")
            yield from _functions((getattr(value, one, None) for one in names), module, seen)
        elif isinstance(below := getattr_static(value, "__wrapped__", None), types.FunctionType):
            yield from _functions([below], module, seen)


def _literals(text: bytes) -> dict[str, Any]:
    """Plain values that a text assigns once, at the top, to names that no function assigns."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found, bound = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            bound += node.names * 2
        elif isinstance(node, ast.ImportFrom) and any(one.name == "*" for one in node.names):
            return {}
    ahead: list[ast.AST] = list(tree.body)
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.append(node.name)
            continue
        if isinstance(node, ast.alias):
            bound.append(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.append(node.id)
        ahead += ast.iter_child_nodes(node)
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name):
            try:
                value = ast.literal_eval(node.value)
            except (ValueError, TypeError, RecursionError):
                continue
            if bound.count(target.id) == 1 and isinstance(value, PLAIN):
                found[target.id] = value
    return found
