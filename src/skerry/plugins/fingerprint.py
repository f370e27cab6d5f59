"""Names and fingerprints of functions that are given from Python instead of by name.

An experiment is text: it is compared, recorded and sent as such. A function of an importable module
is written as `package.module:name`. Any other, from a notebook or a script, gets a name that
identifies it: `given:halfway@3f2a91c0d4e5`, its own name and a fingerprint of its code and values.
"""

import functools
import hashlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

Function = Callable[..., Any]

PREFIX = "given:"
DIGITS = 12
SHOWN_DIGITS = 4
"""Digits of the fingerprint in a short name, enough to distinguish versions of a function."""
PLAIN = (bool, int, float, complex, str, bytes, type(None))

_functions: dict[str, Function] = {}
"""Functions given from Python in this process, by the names that stand for them."""


def as_text(value: Any) -> Any:
    """The name of a function; any other value unchanged."""
    return function_name(value) if callable(value) else value


def function_name(function: Function) -> str:
    """The name that stands for a function in an experiment."""
    if place := _place_in_module(function):
        return place
    name = f"{PREFIX}{_own_name(function)}@{fingerprint_function(function)}"
    _functions[name] = function
    return name


def is_function_name(name: str) -> bool:
    """Whether the name stands for a function given from Python. No module name contains `@`."""
    return name.startswith(PREFIX) and "@" in name


def find_function(name: str) -> Function | None:
    """The function that `function_name` gave this name in this process, or None."""
    return _functions.get(name)


def register_functions(functions: Mapping[str, Function]) -> None:
    """Add functions that were named in another process."""
    _functions.update(functions)


def registered_functions(names: Iterable[str]) -> dict[str, Function]:
    """The functions given in this process, of these names."""
    return {name: _functions[name] for name in names if name in _functions}


def short_name(name: str) -> str:
    """A short form of the name for tables: `halfway@3f2a`."""
    own, _, digits = name.removeprefix(PREFIX).rpartition("@")
    return f"{own}@{digits[:SHOWN_DIGITS]}"


def _place_in_module(function: Function) -> str | None:
    """`package.module:name`, if another process can import this function under it."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        return None
    found = getattr(sys.modules.get(module), name, None)
    return f"{module}:{name}" if found is function else None


def _own_name(function: Function) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__).strip("<>")
    return name if name.isidentifier() else "function"


def fingerprint_function(function: Function) -> str:
    """A hash of a function's source, defaults, closure, and of the functions and values of its own
    module that it uses. Functions of other modules count by name only."""
    digest = hashlib.sha256()
    for part in _Walk(getattr(function, "__module__", None)).through(function):
        digest.update(part if isinstance(part, bytes) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:DIGITS]


class _Walk:
    """Yields the parts of a value that decide what it computes, each object once."""

    def __init__(self, module: str | None):
        self._module = module
        self._seen: dict[int, Any] = {}  # keeps objects alive, so that no id is used twice

    def through(self, value: Any) -> Iterator[str | bytes]:
        yield type(value).__name__
        if isinstance(value, PLAIN):
            yield repr(value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, functools.partial):
            yield from self._each(value.func, value.args, value.keywords)
        elif isinstance(value, MethodType):
            yield from self._each(value.__func__, value.__self__)
        elif isinstance(value, FunctionType | BuiltinFunctionType | type):
            yield from self._named(value)
        elif isinstance(value, Mapping):
            yield from self._each(*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            yield from self._each(*value)
        else:
            yield from self._thing(value)

    def _each(self, *values: Any) -> Iterator[str | bytes]:
        for value in values:
            yield from self.through(value)

    def _named(self, value: Any) -> Iterator[str | bytes]:
        """A function or class: its module, or its source where the module is the user's own."""
        yield f"{value.__qualname__}"
        if isinstance(value, BuiltinFunctionType) or not self._is_own(value):
            yield f"{value.__module__}"
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        else:
            yield _source_of(value)
            yield from self._each(*value.__bases__)
            for name, part in vars(value).items():
                inner = getattr(part, "__func__", part)  # of a static or class method
                if isinstance(inner, FunctionType):
                    yield from self._function(inner)
                elif not name.startswith("__") and isinstance(inner, PLAIN):
                    yield from self.through(inner)

    def _function(self, function: FunctionType) -> Iterator[str | bytes]:
        code = function.__code__
        text = _source_of(function)
        yield text
        if not text or function.__name__ == "<lambda>":  # two may be in one line
            yield from self._code(code)
        yield from self._each(function.__defaults__, function.__kwdefaults__, vars(function))
        for cell in function.__closure__ or ():
            try:
                yield from self.through(cell.cell_contents)
            except ValueError:  # not filled yet: a function that will hold itself
                yield "empty"
        around = function.__globals__
        for name in sorted(_names_in(code)):
            if name in around:
                yield name
                yield from self.through(around[name])

    def _code(self, code: CodeType) -> Iterator[str | bytes]:
        yield code.co_code
        yield repr(code.co_names)
        for constant in code.co_consts:
            yield from self._code(constant) if isinstance(constant, CodeType) else [repr(constant)]

    def _is_own(self, value: Any) -> bool:
        """Whether the value is defined beside the function or in `__main__`, so that its source is
        part of the fingerprint."""
        module = getattr(value, "__module__", None)
        return module in (self._module, "__main__") and not str(module).startswith("skerry.")

    def _thing(self, value: Any) -> Iterator[str | bytes]:
        """An object: arrays and tensors by content, others by class and attributes."""
        array = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        if hasattr(array, "tobytes"):
            yield f"{getattr(array, 'dtype', '')}{getattr(array, 'shape', '')}"
            yield array.tobytes()
            return
        if self._is_own(type(value)):
            yield from self._each(type(value), getattr(value, "__dict__", {}))
            return
        yield f"{type(value).__module__}"
        try:
            yield pickle.dumps(value, protocol=4)
        except Exception:  # a file, a lock: what cannot be kept cannot be compared
            return


def _source_of(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""


def _names_in(code: CodeType) -> set[str]:
    """Every global name that a function or one inside it uses."""
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*(_names_in(one) for one in inner))
