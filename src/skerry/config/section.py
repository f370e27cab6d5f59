"""The base class of the sections of an experiment, and the types of their fields.

Some fields name functions, others are options of those functions: `Names` and `OptionOf` mark them.
The options that the named functions take (`plugins/options.py`) decide which fields are used and
which further fields a section has.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from skerry.config.explain import Fields, explain, unknown_field
from skerry.errors import ExperimentError, SkerryError
from skerry.plugins import fingerprint, registry
from skerry.plugins.options import call_fault, options_of

Fault = tuple[tuple[str, ...], str]
"""A broken rule: the fields it is about, and the error message."""

Given = TypeVar("Given")
Held = TypeVar("Held")

if TYPE_CHECKING:
    from typing import overload

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

    class Takes(Generic[Given, Held]):
        """A field that accepts one type and holds another, for type checkers."""

        @overload
        def __get__(self, owner: None, kind: type) -> Self: ...
        @overload
        def __get__(self, owner: object, kind: type) -> Held: ...
        def __get__(self, owner: object, kind: type) -> Any: ...
        def __set__(self, owner: object, value: Given) -> None: ...

    class Named(Takes[str | Callable[..., Any], str]):
        """A field that holds the name of a function and accepts the function, too."""

else:

    class Takes:
        """The type that a field holds; validators convert what it accepts."""

        def __class_getitem__(cls, types: tuple[Any, Any]) -> Any:
            return types[1]

    Named = str


def default(value: Any) -> Any:
    """The default of a field whose type is `Takes` or `Named`."""
    return value


def _not_a_bool(rule: Literal["int_type", "float_type"]) -> BeforeValidator:
    """Refuse true and false, which Python would take for 1 and 0."""

    def check(value: Any) -> Any:
        if isinstance(value, bool):
            raise PydanticKnownError(rule)
        return value

    return BeforeValidator(check)


OneOrMany = BeforeValidator(
    lambda value: [value] if isinstance(value, str) or callable(value) else value
)
"""Marks a field with a list of names that accepts a single name, too."""
WHOLE, REAL = _not_a_bool("int_type"), _not_a_bool("float_type")
LARGEST = 10**9
"""The largest count; a larger one is a typing error and would need an impossible array."""

AtLeastZero = Annotated[int, Field(ge=0), WHOLE]
AtLeastOne = Annotated[int, Field(ge=1), WHOLE]
Count = Annotated[AtLeastOne, Field(le=LARGEST)]
Round = Annotated[int, Field(ge=0, le=LARGEST), WHOLE]
"""A round, counted from 0."""

NotNegative = Annotated[float, Field(ge=0), REAL]
Positive = Annotated[float, Field(gt=0), REAL]
UpToOne = Annotated[float, Field(ge=0, le=1), REAL]
BelowOne = Annotated[float, Field(ge=0, lt=1), REAL]
Share = Annotated[float, Field(gt=0, le=1), REAL]
"""A share or probability above 0."""


@dataclass(frozen=True)
class Names:
    """Marks a field that names a function of a plug-in kind: a built-in, or a user's own
    `package.module:name`. From Python the field accepts the function itself."""

    kind: str

    def fault(self, name: str) -> str | None:
        """Why the name cannot be used, or None."""
        return registry.name_fault(self.kind, name)

    def __get_pydantic_core_schema__(
        self, source: Any, build: "GetCoreSchemaHandler"
    ) -> CoreSchema:
        checked = core_schema.no_info_after_validator_function(self._checked, build(source))
        return core_schema.no_info_before_validator_function(fingerprint.as_text, checked)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, build: "GetJsonSchemaHandler"
    ) -> dict[str, Any]:
        return {**build(schema), "examples": list(registry.KINDS.get(self.kind, ()))}

    def _checked(self, name: str) -> str:
        if fault := self.fault(name):
            raise ValueError(fault)
        return name


class OptionOf:
    """Marks a field that is an option of functions of these kinds. The section declares its
    default, range and meaning; the field is used only with functions that take it."""

    def __init__(self, *kinds: str):
        self.kinds = kinds


class KeyedIfSet:
    """Marks a field that content keys contain only if it differs from its default. A new field is
    marked so, because runs recorded before it existed must keep their keys."""


if TYPE_CHECKING:  # so that type checkers see fields as arguments
    from pydantic._internal._model_construction import ModelMetaclass as _Explained
else:

    class _Explained(type(BaseModel)):
        """Explains the faults of a section built from Python as those of a file."""

        def __call__(cls, *args, **kwargs):
            try:
                made = super().__call__(*args, **kwargs)
            except ValidationError as error:
                raise ExperimentError(*explain(error, fields_of(cls), owner=cls.__name__)) from None
            if faults := made.option_faults("", fields_of(cls)):
                raise ExperimentError(*faults)
            return made


class Section(BaseModel, metaclass=_Explained):
    """A frozen table of fields; unknown fields are faults. A section that names functions is
    declared with `extra="allow"`: its further fields are options of those functions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    naming: ClassVar[dict[str, str]] = {}
    """The field that names a function, by plug-in kind."""
    option_fields: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The plug-in kinds whose functions take a field as an option, by field."""
    keyed_if_set: ClassVar[tuple[str, ...]] = ()
    """The fields that content keys contain only if they differ from their default."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        marks = [(name, mark) for name, f in cls.model_fields.items() for mark in f.metadata]
        cls.naming = {mark.kind: name for name, mark in marks if isinstance(mark, Names)}
        cls.option_fields = {n: mark.kinds for n, mark in marks if isinstance(mark, OptionOf)}
        cls.keyed_if_set = tuple(name for name, mark in marks if isinstance(mark, KeyedIfSet))

    @classmethod
    def describe(cls, field: str) -> str:
        """The description of a field; built-in names that it leaves out are added."""
        text = cls.model_fields[field].description or ""
        kind = next((kind for kind, name in cls.naming.items() if name == field), "")
        names = registry.KINDS.get(kind, {})
        missing = [name for name in names if not re.search(rf"\b{name}\b", text)]
        also = "Also built in" if len(missing) < len(names) else "Built in"
        line = fill(f"{also}: {', '.join(missing)}.", 96)
        return f"{text}\n{line}" if missing else text

    @property
    def functions(self) -> dict[str, str]:
        """The names of the functions, by plug-in kind."""
        return {kind: getattr(self, field) for kind, field in self.naming.items()}

    @property
    def options(self) -> dict[str, Any]:
        """The further fields: options that the section does not declare."""
        return dict(self.model_extra or {})

    def options_for(self, kind: str) -> dict[str, Any]:
        """The options of the function of this kind, with their values."""
        known = options_of(kind, self.functions[kind])
        declared = [field for field in self.options_declared(kind) if field in known.names]
        return {field: getattr(self, field) for field in declared} | {
            option: value for option, value in self.options.items() if known.takes(option)
        }

    @classmethod
    @cache
    def options_declared(cls, kind: str) -> list[str]:
        """The declared fields that are options of this kind."""
        return [field for field, kinds in cls.option_fields.items() if kind in kinds]

    def unused_fields(self) -> frozenset[str]:
        """The fields that do not change the result, because no function takes them."""
        if not self.naming:
            return frozenset()
        names = [getattr(self, field) for field in self.naming.values()]
        return _untaken(type(self), tuple(self.__pydantic_extra__ or ()), *names)

    def unkeyed_fields(self) -> frozenset[str]:
        """The fields that are not part of content keys."""
        fields = type(self).model_fields
        unset = (name for name in self.keyed_if_set if getattr(self, name) == fields[name].default)
        return self.unused_fields() | {*unset}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only the fields that differ from their default."""
        fields = type(self).model_fields
        for name, value in super().__repr_args__():
            if name not in fields or value != fields[name].default:
                yield name, value

    def __dir__(self) -> list[str]:
        """The fields, and what the section itself defines, for completion: no names of pydantic."""
        own = [n for n in super().__dir__() if n.startswith("__") or not hasattr(Section, n)]
        return [*(n for n in own if n[0] != "_" or n[1] == "_"), *self.options]

    def faults(self) -> Iterable[Fault]:
        """The broken rules between fields of this section."""
        return ()

    def option_faults(self, section: str, fields: Fields) -> list[str]:
        """A message for every option that is unknown, missing or not allowed."""
        if self._is_plain():
            return []
        functions, at = self.functions.items(), f"{section}.".lstrip(".")
        faults = [line for function in functions for line in self._function_faults(*function, at)]
        more = [option for function in functions for option in options_of(*function).names]
        adds = [line for function in functions if (line := self._added(*function))]
        unknown = self.unknown_options()
        owner = type(self).__name__
        return faults + [unknown_field(at + o, fields, owner, more, adds) for o in unknown]

    def _is_plain(self) -> bool:
        """Whether all functions are built in and only declared fields are set."""
        named = self.naming.items()
        return not self.__pydantic_extra__ and all(
            getattr(self, field) in registry.KINDS[kind] for kind, field in named
        )

    def _function_faults(self, kind: str, name: str, at: str) -> Iterator[str]:
        """Faults in the options of a user's own function; tests check built-in ones."""
        if registry.is_builtin(kind, name):
            return
        if not registry.is_given(kind, name) and (fault := call_fault(kind, name)):
            yield fault
            return
        known, declared = options_of(kind, name), type(self).model_fields
        for option in known.names:
            if option not in declared:
                if option in known.required and option not in self.options:
                    yield f"{kind} '{name}' needs the option '{option}'. Set {at}{option}."
            elif option not in self.options_declared(kind):
                yield (
                    f"{kind} '{name}' cannot have an option '{option}', because {at}{option} is a "
                    "field with another use. Rename the parameter."
                )
            elif option not in known.required:
                yield (
                    f"{kind} '{name}' must not give '{option}' a default, because {at}{option} has "
                    "one. Leave out the parameter's."
                )

    def unknown_options(self) -> list[str]:
        """The further fields that no function takes."""
        known = [options_of(kind, name) for kind, name in self.functions.items()]
        return [o for o in self.options if not any(each.takes(o) for each in known)]

    def _added(self, kind: str, name: str) -> str:
        """The options that a function adds to its section: `model 'mlp' adds: hidden`."""
        if names := self._additions(kind, name):
            return f"{kind} '{name}' adds: {', '.join(names)}"
        alike = registry.KINDS[kind] if registry.is_builtin(kind, name) else ()
        none_adds = alike and not any(self._additions(kind, other) for other in alike)
        return "" if none_adds else f"{kind} '{name}' adds none"

    def _additions(self, kind: str, name: str) -> list[str]:
        return [o for o in options_of(kind, name).names if o not in type(self).model_fields]

    @classmethod
    def stray_options(cls, table: Mapping[str, Any]) -> set[str]:
        """The options in a table of this section that none of its functions takes. Other faults of
        the table are reported when it is read."""
        further = [name for name in table if name not in cls.model_fields]
        names = (table.get(field, "") for field in cls.naming.values())
        if not further or not all(isinstance(name, str) for name in names):
            return set()
        try:
            return set(cls.model_construct(**table).unknown_options())
        except SkerryError:
            return set()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; if it names another function, the options of the old one are dropped."""
        copied = super().model_copy(update=update, deep=deep)
        further = copied.__pydantic_extra__
        if update and further:
            for option in self.stray_options(dict(copied)) - update.keys():
                del further[option]
                copied.__pydantic_fields_set__.discard(option)
        return copied


@cache
def fields_of(section: type[BaseModel]) -> dict[str, list[str]]:
    """The fields of every section inside this one, and under the empty name its own."""
    kinds: dict[str, Any] = {n: field.annotation for n, field in section.model_fields.items()}
    sections = {n: kind for n, kind in kinds.items() if hasattr(kind, "model_fields")}
    return {"": list(kinds)} | {name: list(kind.model_fields) for name, kind in sections.items()}


@cache
def _untaken(section: type[Section], further: tuple[str, ...], *names: str) -> frozenset[str]:
    """The options that none of these functions takes. A user's own function counts as if it took
    all options of its kind, because it need not be importable where records are read."""
    functions = dict(zip(section.naming, names, strict=True))

    def may_read(kind: str, option: str) -> bool:
        name = functions[kind]
        return not registry.is_builtin(kind, name) or options_of(kind, name).takes(option)

    options = dict.fromkeys(further, tuple(functions)) | section.option_fields
    return frozenset(
        option
        for option, kinds in options.items()
        if not any(may_read(kind, option) for kind in kinds)
    )
