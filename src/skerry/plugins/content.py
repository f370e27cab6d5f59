"""Fingerprints of functions, classes and values given from Python: a hash of all that decides.

A function counts by its source, defaults, closure and the globals that it uses; a class by its
source, bases, metaclass and attributes; an object by its class and by what it holds; arrays and
tensors by content. Parts of Python, Skerry and installed packages count by name. Whatever has no
content to compare (an open file, a lock, a generator) is refused.
"""

import copyreg
import dis
import functools
import hashlib
import inspect
import operator
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from tokenize import TokenError
from typing import Any

from skerry.errors import SkerryError, one_line
from skerry.plugins.sources import is_own, source_hash

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))
ADDED = {"__module__", "__doc__", "__firstlineno__", "__static_attributes__", "_abc_impl"}
"""Attributes of classes that Python adds."""
VERSION = "version"
"""The attribute by which a user names the version of something that has no content to compare."""
METHODS = (types.FunctionType, staticmethod, classmethod, property)
Part = str | bytes
WRAPPED: list[tuple[Any, tuple[str, ...]]] = [
    ((functools.partial, functools.partialmethod), ("func", "args", "keywords", "__dict__")),
    (functools._lru_cache_wrapper, ("__wrapped__",)),
    (functools.cached_property, ("func",)),
    (property, ("fget", "fset", "fdel")),
    ((staticmethod, classmethod), ("__func__",)),
    (types.MethodType, ("__func__", "__self__")),
]
"""Types that hold other values, and the attributes that do."""


def fingerprint(value: Any, name: str, digits: int) -> str:
    """A hash of all that decides what a function, class or object computes. The same in every
    process; what cannot be compared raises SkerryError, unless `value` has a `version`."""
    version = getattr(value, VERSION, None)
    version = version if isinstance(version, str | int) else None
    walk = _Walk(getattr(value, "__module__", None), name, version is not None)
    try:
        return _hash([*walk.through(value), repr(version)])[:digits]
    except RecursionError as error:
        raise walk.refusal(value, error) from error


def place_in_module(value: Any) -> str | None:
    """`package.module:name`, if another process can import this function or class under it."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or module == "__main__" or not str(name).isidentifier():
        return None
    found = getattr(sys.modules.get(module), name, None)
    return f"{module}:{name}" if found is value else None


def _hash(parts: Iterable[Part]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


class _Walk:
    """Yields the parts of a value that decide what it computes. What has an identity (functions,
    classes, objects, lists) is walked once and counts by its number afterwards."""

    def __init__(self, module: str | None, name: str, has_version: bool):
        self._module, self._name, self._has_version = module, name, has_version
        self._seen: dict[int, tuple[int, Any]] = {}  # keeps objects alive: no id is used twice
        self._path: list[str] = []

    def through(self, value: Any, at: str = "") -> Iterator[Part]:
        kind = type(value)
        yield kind.__name__
        if kind in PLAIN:
            yield repr(value)
        elif kind is tuple:
            yield from self._each(value)
        elif id(value) in self._seen:
            yield f"number {self._seen[id(value)][0]}"
        else:
            self._seen[id(value)] = len(self._seen), value
            self._path.append(at)
            yield from self._parts(value)
            self._path.pop()

    def _parts(self, value: Any) -> Iterator[Part]:
        names = next((names for kind, names in WRAPPED if isinstance(value, kind)), None)
        parts = next((parts for kind, parts in _PARTS if isinstance(value, kind)), None)
        if names is not None:
            yield from self._each(getattr(value, name) for name in names)
        elif parts is not None:
            yield from parts(self, value)
        elif type(value) in (dict, types.MappingProxyType):
            yield from self._mapping(value)
        elif type(value) is OrderedDict or type(value) is list:
            yield from self._each(value.items() if type(value) is OrderedDict else value)
        elif isinstance(value, set | frozenset):
            yield from self._each([type(value), getattr(value, "__dict__", None)])
            yield from self._each(self._in_order(value))
        elif (content := _array_content(value)) is not None:
            yield from content if isinstance(content, tuple) else self._each(content)
        else:
            yield from self._object(value)

    def _each(self, values: Iterable[Any]) -> Iterator[Part]:
        values = list(values)
        yield str(len(values))
        for value in values:
            yield from self.through(value)

    def _in_order(self, values: Iterable[Any]) -> list[Any]:
        """Members of a set or keys of a dict in an order that is the same in every process."""

        def rank(value: Any) -> str:
            walk = _Walk(self._module, self._name, self._has_version)
            return repr(value) if type(value) in PLAIN else _hash(walk.through(value))

        return sorted(values, key=lambda value: (type(value).__name__, rank(value)))

    def _mapping(self, mapping: Any) -> Iterator[Part]:
        yield str(len(mapping))
        for key in self._in_order(mapping):
            yield from self.through(key)
            yield from self.through(mapping[key], str(key) if isinstance(key, str) else "")

    def _module_parts(self, module: types.ModuleType) -> Iterator[Part]:
        yield module.__name__
        if is_own(module.__name__):
            yield source_hash(module.__name__)

    def _outside(self, value: Any) -> str | None:
        """The identity of a function or class of another module: its name, and the module's source
        where it is the user's own; None for what has to be walked."""
        module = getattr(value, "__module__", None)
        if not is_own(module):
            return None if "<locals>" in value.__qualname__ else f"{module}:{value.__qualname__}"
        if module in (self._module, "__main__") or not (place := place_in_module(value)):
            return None
        return f"{place} {source}" if (source := source_hash(str(module))) else None

    def _class(self, kind: type) -> Iterator[Part]:
        yield kind.__qualname__
        if (outside := self._outside(kind)) is not None:
            yield outside
            return
        yield _source_of(kind)
        yield from self._each([type(kind), *kind.__bases__])
        for name, part in vars(kind).items():
            # Python and libraries keep caches and tables of their own in other dunder attributes.
            is_special = name.startswith("__") and not isinstance(part, (*PLAIN, *METHODS, tuple))
            is_slot = isinstance(part, types.MemberDescriptorType | types.GetSetDescriptorType)
            if name not in ADDED and not is_special and not is_slot:
                yield name
                yield from self.through(part, name)

    def _function(self, function: types.FunctionType) -> Iterator[Part]:
        yield function.__qualname__
        if (outside := self._outside(function)) is not None:
            yield outside
            return
        code = function.__code__
        text = _source_of(function)
        yield text
        if not text or function.__name__ == "<lambda>":  # two may be in one line
            yield from self._code(code)
        yield from self._each([function.__defaults__, function.__kwdefaults__])
        yield from self._mapping({k: v for k, v in vars(function).items() if k != "__wrapped__"})
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:  # not filled yet: a function that will hold itself
                yield "empty"
            else:
                yield from self.through(held, name)
        yield from self._globals(function)

    def _globals(self, function: types.FunctionType) -> Iterator[Part]:
        names, attributes = _names_in(function.__code__)
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            yield name
            yield from self.through(value, name)
            if isinstance(value, types.ModuleType) and is_own(value.__name__):
                # Values may be set after the import: settings.strength = 0.3
                for one in sorted(attributes & vars(value).keys()):
                    if not isinstance(
                        held := vars(value)[one], types.FunctionType | type | types.ModuleType
                    ):
                        yield from self.through(held, f"{name}.{one}")

    def _code(self, code: types.CodeType) -> Iterator[Part]:
        yield code.co_code
        yield repr((code.co_names, code.co_freevars))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._code(constant)
            else:
                yield from self.through(constant)

    def _builtin(self, function: Any) -> Iterator[Part]:
        yield f"{getattr(function, '__module__', '')}:{function.__qualname__}"
        owner = getattr(function, "__self__", None)
        if not isinstance(owner, types.ModuleType):
            yield from self.through(owner)

    def _object(self, value: Any) -> Iterator[Part]:
        """An object by its class and by what its pickle would hold."""
        yield from self.through(type(value))
        if isinstance(value, Enum):
            yield value.name
            yield from self.through(value.value)
            return
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            state: Any = reduce(value) if reduce else value.__reduce_ex__(4)
            if isinstance(state, str):
                state = _by_name(value, state)
        except Exception as error:  # a file, a lock, a generator: nothing to compare
            if not self._has_version:
                raise self.refusal(value, error) from error
            return
        made, arguments, held, listed, pairs = (*state, None, None, None)[:5]
        yield from self._each([made, tuple(arguments)])
        computed = _cached_properties(type(value))
        for part in held if isinstance(held, tuple) and len(held) == 2 else (held,):
            if isinstance(part, dict):
                yield from self._mapping({k: one for k, one in part.items() if k not in computed})
            else:
                yield from self.through(part)
        yield from self._each(listed or ())
        yield from self._mapping(dict(pairs or ()))

    def refusal(self, value: Any, error: Exception) -> SkerryError:
        place = ".".join(filter(None, self._path))
        kind = type(value)
        what = f"{place or 'it'} ({kind.__module__}.{kind.__qualname__})"
        return SkerryError(
            f"{self._name} cannot be told apart from another version of it, because {what} has no "
            f"content to compare ({one_line(error)}). Pass what decides as an option, or give it a "
            f"version of your own, which you change with it: {self._name}.{VERSION} = '1'."
        )


_PARTS: list[tuple[Any, Callable[[_Walk, Any], Iterator[Part]]]] = [
    (types.ModuleType, _Walk._module_parts),
    (types.FunctionType, _Walk._function),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _Walk._builtin),
    (type, _Walk._class),
    (types.CodeType, _Walk._code),
]
"""How a value of these types is divided into parts."""


def _by_name(value: Any, name: str) -> tuple[Any, ...]:
    """The place of an object that is pickled by name, such as a ufunc of numpy."""
    module = pickle.whichmodule(value, name)  # type: ignore[attr-defined]
    if operator.attrgetter(name)(sys.modules[module]) is not value:
        raise TypeError(f"it is not {module}.{name}")
    return getattr, (module, name)


def _cached_properties(kind: type) -> set[str]:
    """The attributes whose values are computed from others when they are first asked for."""
    parts = ((name, part) for base in kind.__mro__ for name, part in vars(base).items())
    return {name for name, part in parts if isinstance(part, functools.cached_property)}


def _array_content(value: Any) -> tuple[Part, ...] | list[Any] | None:
    """The content of an array or tensor: type, shape and bytes, or the objects of an object array;
    None for any other value."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_meta:
            return None
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        data = plain.view(torch.uint8).numpy().tobytes()
        return f"{value.dtype}{tuple(value.shape)}{value.requires_grad}", data
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
        return None
    if isinstance(value, numpy.ma.MaskedArray):
        return None
    if value.dtype.hasobject:
        return [str(value.dtype), value.shape, value.tolist()]
    return f"{value.dtype.descr}{value.shape}", value.tobytes()


def _source_of(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError, SyntaxError, IndexError, TokenError):  # its text is not at hand
        return ""


def _names_in(code: types.CodeType) -> tuple[set[str], set[str]]:
    """The global names that a function or one inside it uses, and all names, with attributes."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL")
    names = {one.argval for one in dis.get_instructions(code) if one.opname in loads}
    every = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            inner_names, inner_every = _names_in(inner)
            names, every = names | inner_names, every | inner_every
    return names, every
