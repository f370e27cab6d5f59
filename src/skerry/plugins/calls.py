"""Calls of plug-ins: what they are lent stays as it is, and a rehearsal records what they do."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.plugins.context import Context

if TYPE_CHECKING:
    from torch import Tensor

Check = Callable[..., str | None]
Lent = Callable[..., "dict[str, Tensor]"]
Rule = tuple[Check | None, Lent | None, bool]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
AGAIN = (
    "gives different results for the same round: it must keep nothing from earlier calls. Use "
    "context.random() for draws; a method keeps arrays by `start`."
)
LOOKED_AFTER = ("primitive", "server optimizer")
"""Kinds that are called in server rounds only, where it costs little to look for global draws in
every call and not only in a rehearsal."""
MOST_COPIED = 2**26
"""Numbers of a lent array of which a copy is made in a rehearsal."""


# Lending


@contextmanager
def lend(
    kind: str,
    name: str,
    raised: type[SkerryError] = SkerryError,
    own: Callable[..., AbstractContextManager[None]] = registry.users_own,
    /,
    **lent: "Tensor",
) -> Iterator[None]:
    """Call a user's `own` code with tensors that it may only look at: a change is refused.

    Torch counts changes in place; in a rehearsal a copy shows those that it does not count.
    """
    copied = lent if _RECORD.get() is not None else {}
    counts = {word: tensor._version for word, tensor in lent.items()}
    small = {word: tensor for word, tensor in copied.items() if tensor.numel() <= MOST_COPIED}
    copies = {word: tensor.detach().clone() for word, tensor in small.items()}
    with own(kind, name, raised):
        yield
    for word, tensor in lent.items():
        copy = copies.get(word)
        if counts[word] != tensor._version or (copy is not None and not same(copy, tensor)):
            if copy is not None:
                tensor.data.copy_(copy)
            raise raised(
                f"{kind} '{name}' changed the {word} that it was given. Work on a copy: {word} = "
                f"{word}.clone()."
            )


def same(a: "Tensor", b: "Tensor") -> bool:
    """Whether two tensors hold the same numbers; NaN equals NaN."""
    import torch

    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b.detach()))


# Recording


@dataclass(frozen=True)
class Call:
    """One call of a plug-in in a rehearsal: the tensors before and after it, and its result."""

    kind: str
    name: str
    given: "list[Tensor]"
    left: "list[Tensor]"
    """The same tensors after the call, and those of the result."""
    result: Any


_RECORD: ContextVar[list[Call] | None] = ContextVar("record", default=None)


@contextmanager
def recording() -> Iterator[list[Call]]:
    """Record the calls of guarded functions, and look for draws from global random state."""
    calls: list[Call] = []
    token = _RECORD.set(calls)
    try:
        yield calls
    finally:
        _RECORD.reset(token)


def guarded(
    kind: str,
    name: str,
    function: F,
    check: Check | None = None,
    lent: Lent | None = None,
    repeats: bool = True,
) -> F:
    """A function of the engine's rounds; a user's own raises errors in one line.

    `check(result, *arguments)` says what is wrong with its result, or None; `lent(*arguments)` are
    the tensors that it may only look at. In a rehearsal a call is made twice, with the same
    arguments, unless it does not `repeat` because it calls back into the round.
    """
    if registry.is_builtin(kind, name):
        return function

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        arrays = [one for one in arguments if not isinstance(one, Context)]
        kept = [getattr(one, "state", one) for one in arrays]
        kept = [(one, dict(one)) for one in kept if isinstance(one, dict)]
        calls, looked_at = _RECORD.get(), lent(*arrays) if lent else {}
        if calls is None:
            own = registry.users_own if kind in LOOKED_AFTER else registry.errors_of
            with lend(kind, name, SkerryError, own, **looked_at):
                found = function(*arguments, **options)
            _check_kept(kind, name, kept)
        else:
            tensors = list(tensors_in((arguments, options)))
            given = [tensor.clone() for tensor in tensors]
            for _ in range(2 if repeats else 1):
                for tensor, before in zip(tensors, given, strict=True):
                    if not same(tensor, before):
                        tensor.copy_(before)
                with lend(kind, name, **looked_at):
                    found = function(*arguments, **options)
                _check_kept(kind, name, kept)
                left = [tensor.clone() for tensor in tensors_in((arguments, options, found))]
                calls.append(Call(kind, name, given, left, found))
            first = calls[-2].left if repeats else left
            if len(first) != len(left) or not all(map(same, first, left)):
                raise SkerryError(f"{kind} '{name}' {AGAIN}")
        if check is not None and (fault := check(found, *arrays)):
            raise SkerryError(f"{kind} '{name}'{fault}")
        return found

    return call  # type: ignore[return-value]


def _check_kept(kind: str, name: str, kept: "list[tuple[dict[str, Any], dict[str, Any]]]") -> None:
    """Refuse another tensor in the place of one that a plug-in keeps: nobody would see it."""
    held = "memory" if kind == "server optimizer" else "state"
    for after, before in kept:
        for word in before | after:
            if after.get(word) is not before.get(word):
                raise SkerryError(
                    f"{kind} '{name}' must change the array {word!r:.40} that it keeps in place "
                    f"(got another object). Write into it: {held}[{word!r:.40}].copy_(...)."
                )


def explained(kind: str, name: str, function: F, raised: type[SkerryError] = SkerryError) -> F:
    """A function that vmap calls; a user's own raises errors in one line."""
    if registry.is_builtin(kind, name):
        return function

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with registry.errors_of(kind, name, raised):
            return function(*arguments, **options)

    return call  # type: ignore[return-value]


def guard_methods(kind: str, name: str, made: T, rules: Mapping[str, Rule]) -> T:
    """The instance of a class, with these of its methods guarded by a check and what is lent."""
    if not registry.is_builtin(kind, name):
        for method, rule in rules.items():
            vars(made)[method] = guarded(kind, name, getattr(made, method), *rule)
    return made


def tensors_in(value: Any) -> "Iterator[Tensor]":
    """The tensors and arrays in the arguments or the result of a call."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield torch.from_numpy(np.array(value))
    elif isinstance(value, bool | int | float | np.number):
        # It may be too large for any type of number; the hash of NaN differs between objects.
        yield torch.tensor(hash(value) if value == value else torch.nan)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, tuple | list):
        whole = isinstance(value, list) and all(isinstance(one, int | np.integer) for one in value)
        for part in [np.array(value)] if whole else value:
            yield from tensors_in(part)
    elif is_dataclass(value) and not isinstance(value, Context | type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))
