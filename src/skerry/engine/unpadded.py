"""Adapters that hide the padding of flat vectors from a user's own plug-ins.

A row of X has padding between parameters, so that memory is aligned. Built-ins leave it at zero. A
user's own plug-in gets arrays without it, and what it changes is written back, so that nothing it
does can reach the padding: disagreement, norms and distances count parameters only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Mixing, Traffic
from skerry.models.layout import Padding
from skerry.plugins.calls import Check, Lent, guarded
from skerry.plugins.options import bind

Call = Callable[..., Any]


def plugin_call(
    kind: str,
    name: str,
    function: Call,
    padding: Padding | None = None,
    options: Mapping[str, Any] | None = None,
    check: Check | None = None,
    lent: Lent | None = None,
) -> Call:
    """The call `(*arrays, context)` of a plug-in in a round, with its options; a user's own is
    guarded (`plugins/calls.py`) and does not see the padding."""
    call = guarded(kind, name, bind(kind, function, options), check, lent)
    return call if padding is None or ":" not in name else unpadded(call, padding)


def unpadded(function: Call, padding: Padding) -> Call:
    """A function that gets its vectors, and dicts of them, without padding; what it changes is
    written back, and vectors that it returns get their padding."""

    def call(*arguments: Any, **context: Any) -> Any:
        own = [_removed(one, padding) for one in arguments]
        found = function(*own, **context)
        for one, whole in zip(own, arguments, strict=True):
            _write_back(one, whole, padding)
        if not isinstance(found, dict):
            return padding.add(found)
        return {name: padding.add(array) for name, array in found.items()}

    return call


def _removed(value: Any, padding: Padding) -> Any:
    if isinstance(value, dict):
        return {name: _removed(array, padding) for name, array in value.items()}
    is_padded = isinstance(value, Tensor) and value.is_floating_point() and value.ndim
    return padding.remove(value) if is_padded and value.shape[-1] == padding.d else value


def _write_back(own: Any, whole: Any, padding: Padding) -> None:
    if isinstance(whole, dict):
        for name, array in whole.items():
            _write_back(own[name], array, padding)
    elif own is not whole:
        padding.write(own, whole)


@dataclass(frozen=True)
class _Adding:
    """Two functions of the engine, as a method without padding calls them: mixing or delivery of an
    array, and the same with `collect`."""

    apply: Call
    apply_and_collect: Call
    padding: Padding

    def __call__(self, A_nld: Tensor) -> Any:
        with self.padding.added(A_nld) as (padded,):
            return self.apply(padded)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> Any:
        with self.padding.added(A_nld, into_nld) as (padded, into):
            return self.apply_and_collect(padded, into, scale_l1)


class UnpaddedMethod(Method):
    """A user's own method, whose hooks get X and its arrays without padding."""

    def __init__(self, inner: Method, padding: Padding):
        self.inner, self._padding = inner, padding
        for name, value in vars(Method).items():
            if not (name.startswith("_") or callable(value)):
                setattr(self, name, getattr(inner, name))

    def repeats(self, t: int) -> bool:
        return self.inner.repeats(t)

    def start(self, X_nld: Tensor) -> Arrays:
        found: Arrays = unpadded(self.inner.start, self._padding)(X_nld)
        return found

    def before_step(self, lanes: Lanes) -> Tensor | None:
        before: Tensor | None = self._call(self.inner.before_step, lanes)
        return before

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        self._call(self.inner.after_step, lanes, before)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        self._call(self.inner.mix, lanes, _Adding(mix, mix.collect, self._padding))

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        deliver = _Adding(server.deliver, server.collect, self._padding)
        adapted = replace(server, deliver=deliver, collect=deliver.collect)
        sent: Traffic = self._call(self.inner.aggregate, lanes, adapted)
        return sent

    def _call(self, hook: Call, lanes: Lanes, *more: Any) -> Any:
        """Call a hook, and write back what it changed."""
        padding, arrays = self._padding, {"X_nld": lanes.X_nld, "state": lanes.state}
        own = _removed(arrays, padding)
        shared_d = None if lanes.shared_d is None else padding.remove(lanes.shared_d)
        found = hook(replace(lanes, **own, shared_d=shared_d), *more)
        _write_back(own, arrays, padding)
        return found
