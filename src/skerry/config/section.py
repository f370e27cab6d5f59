"""A section of an experiment: a frozen table of fields.

Some fields name functions, others are options of those functions. The marks `Names` and `OptionOf`
tell which; the functions themselves say which options they take (`plugins/options.py`), and so
which fields play a part and which further fields a section has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from skerry.config.explain import Fields, explain, unknown_field
from skerry.errors import ExperimentError, SkerryError
from skerry.plugins import callables, registry
from skerry.plugins.options import options_of

Fault = tuple[tuple[str, ...], str]
"""A broken rule: the fields it is about, and the line that tells it."""

Given = TypeVar("Given")
Held = TypeVar("Held")

if TYPE_CHECKING:

    class Takes(Generic[Given, Held]):
        """A field that is given as one type and holds another: type checkers know both."""

        @overload
        def __get__(self, owner: None, kind: type) -> Self: ...
        @overload
        def __get__(self, owner: object, kind: type) -> Held: ...
        def __get__(self, owner: object, kind: type) -> Any: ...
        def __set__(self, owner: object, value: Given) -> None: ...

    class Named(Takes[str | Callable[..., Any], str]):
        """A field that names a function, or is given one."""

else:

    class Takes:
        """The type that a field holds; what it takes beside is for validators to say."""

        def __class_getitem__(cls, types: tuple[Any, Any]) -> Any:
            return types[1]

    Named = str


def usual(default: Any) -> Any:
    """A field's default."""
    return default


@dataclass(frozen=True)
class Names:
    """Marks a field that names a function: a built-in, or a user's `package.module:name`. From
    Python it takes a function itself, too, which gets a name."""

    kind: str

    def fault(self, name: str) -> str | None:
        return registry.name_fault(self.kind, name)

    def __get_pydantic_core_schema__(self, source: Any, build: GetCoreSchemaHandler) -> CoreSchema:
        checked = core_schema.no_info_after_validator_function(self._checked, build(source))
        return core_schema.no_info_before_validator_function(callables.as_text, checked)

    def _checked(self, name: str) -> str:
        if fault := self.fault(name):
            raise ValueError(fault)
        return name


@dataclass(frozen=True, init=False)
class OptionOf:
    """Marks a field that only functions of these kinds are told, and of them only those that take
    it: it is declared in the section for its default, its range and its meaning."""

    kinds: tuple[str, ...]

    def __init__(self, *kinds: str):
        object.__setattr__(self, "kinds", kinds)


class Later:
    """Marks a field that was not there from the beginning: at its default it is as if it were not
    there still, so that runs from before keep their content keys."""


if TYPE_CHECKING:  # type checkers are to see the fields as the arguments they are
    from pydantic._internal._model_construction import ModelMetaclass as _Explained
else:

    class _Explained(type(BaseModel)):
        """Building a section from Python explains its faults as a file's are explained."""

        def __call__(cls, *args, **kwargs):
            fields = {"": list(cls.model_fields)}
            try:
                made = super().__call__(*args, **kwargs)
            except ValidationError as error:
                raise ExperimentError(*explain(error, fields, owner=cls.__name__)) from None
            if faults := made.option_faults("", fields):
                raise ExperimentError(*faults)
            return made


class Section(BaseModel, metaclass=_Explained):
    """Unknown fields are faults. One that names functions is declared with `extra="allow"`: its
    further fields are the options of those functions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    naming: ClassVar[dict[str, str]] = {}
    """By kind, the field that names a function of it."""
    option_fields: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The fields that are options, and the kinds of function they are options of."""
    later_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that came later."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        marks = [(name, mark) for name, f in cls.model_fields.items() for mark in f.metadata]
        cls.naming = {mark.kind: name for name, mark in marks if isinstance(mark, Names)}
        cls.option_fields = {n: mark.kinds for n, mark in marks if isinstance(mark, OptionOf)}
        cls.later_fields = tuple(name for name, mark in marks if isinstance(mark, Later))

    @property
    def functions(self) -> dict[str, str]:
        """By kind, the names of the functions."""
        return {kind: getattr(self, field) for kind, field in self.naming.items()}

    @property
    def options(self) -> dict[str, Any]:
        """The further fields: options that no section declares."""
        return dict(self.model_extra or {})

    def options_for(self, kind: str) -> dict[str, Any]:
        """The options that the function of this kind takes, with their values here."""
        known = options_of(kind, self.functions[kind])
        declared = [field for field in self.options_declared(kind) if field in known.names]
        return {field: getattr(self, field) for field in declared} | {
            option: value for option, value in self.options.items() if known.takes(option)
        }

    @classmethod
    @cache
    def options_declared(cls, kind: str) -> list[str]:
        """The fields that are options of functions of this kind."""
        return [field for field, kinds in cls.option_fields.items() if kind in kinds]

    def idle_fields(self) -> frozenset[str]:
        """The fields that play no part in the result, because no function here takes them."""
        if not self.naming:
            return frozenset()
        names = [getattr(self, field) for field in self.naming.values()]
        return _untaken(type(self), tuple(self.__pydantic_extra__ or ()), *names)

    def unchanged_fields(self) -> list[str]:
        """Those of the fields that came later that have their default."""
        fields = type(self).model_fields
        return [name for name in self.later_fields if getattr(self, name) == fields[name].default]

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Short: only what is not as usual."""
        fields = type(self).model_fields
        for name, value in super().__repr_args__():
            if name not in fields or value != fields[name].default:
                yield name, value

    def faults(self) -> Iterable[Fault]:
        """The broken rules between fields of this section."""
        return ()

    def option_faults(self, section: str, fields: Fields) -> list[str]:
        """A line for every option that is unknown, or that a function lacks or cannot have."""
        if self._is_plain():
            return []
        functions, at = self.functions.items(), f"{section}.".lstrip(".")
        faults = [line for function in functions for line in self._function_faults(*function, at)]
        more = [option for function in functions for option in options_of(*function).names]
        adds = [told for function in functions if (told := self._added(*function))]
        unknown = self.unknown_options()
        owner = type(self).__name__
        return faults + [unknown_field(at + o, fields, owner, more, adds) for o in unknown]

    def _is_plain(self) -> bool:
        """Whether all functions are built in, and nothing but fields is set."""
        if self.__pydantic_extra__:
            return False
        for kind, field in self.naming.items():
            if getattr(self, field) not in registry.KINDS[kind]:
                return False
        return True

    def _function_faults(self, kind: str, name: str, at: str) -> Iterator[str]:
        """What is wrong with the options of a user's own function. Built-in ones pass a test."""
        if registry.is_builtin(kind, name):
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
        """The options that no function here takes."""
        known = [options_of(kind, name) for kind, name in self.functions.items()]
        return [o for o in self.options if not any(each.takes(o) for each in known)]

    def _added(self, kind: str, name: str) -> str:
        """What a function adds to the fields of its section: `model 'mlp' adds: hidden`."""
        if names := self._additions(kind, name):
            return f"{kind} '{name}' adds: {', '.join(names)}"
        alike = registry.KINDS[kind] if registry.is_builtin(kind, name) else ()
        none_adds = alike and not any(self._additions(kind, other) for other in alike)
        return "" if none_adds else f"{kind} '{name}' adds none"

    def _additions(self, kind: str, name: str) -> list[str]:
        return [o for o in options_of(kind, name).names if o not in type(self).model_fields]

    @classmethod
    def stray_options(cls, table: Mapping[str, Any]) -> set[str]:
        """The options in a table of this section that no function it names takes. What else is
        wrong with the table is told when it is read."""
        further = [name for name in table if name not in cls.model_fields]
        names = (table.get(field, "") for field in cls.naming.values())
        if not further or not all(isinstance(name, str) for name in names):
            return set()
        try:
            return set(cls.model_construct(**table).unknown_options())
        except SkerryError:
            return set()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy that names another function leaves the options of the old one behind."""
        copied = super().model_copy(update=update, deep=deep)
        further = copied.__pydantic_extra__
        if update and further:
            for option in self.stray_options(dict(copied)) - update.keys():
                del further[option]
                copied.__pydantic_fields_set__.discard(option)
        return copied


@cache
def _untaken(section: type[Section], further: tuple[str, ...], *names: str) -> frozenset[str]:
    """The options that none of these functions takes. What is not built in may read any of its
    kind: a user's own function is given the whole section."""
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
