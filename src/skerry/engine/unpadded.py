"""Adapters that hide the padding of flat vectors from a user's own plug-ins.

A row of X has padding between parameters, so that memory is aligned. Built-ins leave it at zero. A
user's own plug-in gets arrays without it, and what it changes is written back, so that nothing it
does can reach the padding: disagreement, norms and distances count parameters only. Every adapter
has the signature of what it adapts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from skerry.engine.server import Memory
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Mixing, Traffic
from skerry.models.layout import Padding

Call = Callable[..., Any]


def unpadded_primitive(primitive: Call, padding: Padding) -> Call:
    """A primitive `(X_nld, sampled_k, delivered_ld)` that gets X and the average unpadded."""

    def call(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, **context: Any) -> Any:
        X = padding.remove(X_nld)
        reached = primitive(X, sampled_k, padding.remove(delivered_ld), **context)
        padding.write(X, X_nld)
        return reached

    return call


def unpadded_start(start: Call, padding: Padding) -> Call:
    """The `start` of a server optimizer."""

    def call(x0_ld: Tensor, **context: Any) -> Any:
        return _padded(start(padding.remove(x0_ld), **context), padding)

    return call


def unpadded_rule(rule: Call, padding: Padding) -> Call:
    """A rule `(vectors, arrays) -> vectors`: a local optimizer."""

    def call(vectors: Tensor, arrays: Arrays, **context: Any) -> Any:
        own = _unpadded(arrays, padding)
        found = rule(padding.remove(vectors), own, **context)
        _write_back(own, arrays, padding)
        return padding.add(found)

    return call


def unpadded_deliver(deliver: Call, padding: Padding) -> Call:
    """The `deliver` of a server optimizer, `(memory, average_ld) -> average_ld`."""

    def flipped(average_ld: Tensor, memory: Memory, **context: Any) -> Any:
        return deliver(memory, average_ld, **context)

    rule = unpadded_rule(flipped, padding)
    return lambda memory, average_ld, **context: rule(average_ld, memory, **context)


@dataclass(frozen=True)
class _UnpaddedMixing:
    inner: Mixing
    padding: Padding

    def __call__(self, A_nld: Tensor) -> None:
        with self.padding.added(A_nld) as (padded,):
            self.inner(padded)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        with self.padding.added(A_nld, into_nld) as (padded, into):
            self.inner.collect(padded, into, scale_l1)


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
        found: Arrays = _padded(self.inner.start(self._padding.remove(X_nld)), self._padding)
        return found

    def before_step(self, lanes: Lanes) -> Tensor | None:
        before: Tensor | None = self._call(self.inner.before_step, lanes)
        return before

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        self._call(self.inner.after_step, lanes, before)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        self._call(self.inner.mix, lanes, _UnpaddedMixing(mix, self._padding))

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        padding = self._padding

        def deliver(A_nld: Tensor) -> int:
            with padding.added(A_nld) as (padded,):
                return server.deliver(padded)

        def collect(A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> int:
            with padding.added(A_nld, into_nld) as (padded, into):
                return server.collect(padded, into, scale_l1)

        adapted = replace(server, deliver=deliver, collect=collect)
        sent: Traffic = self._call(self.inner.aggregate, lanes, adapted)
        return sent

    def _call(self, hook: Call, lanes: Lanes, *more: Any) -> Any:
        """Call a hook, and write back what it changed."""
        padding = self._padding
        X, state = padding.remove(lanes.X_nld), _unpadded(lanes.state, padding)
        shared_d = None if lanes.shared_d is None else padding.remove(lanes.shared_d)
        found = hook(replace(lanes, X_nld=X, state=state, shared_d=shared_d), *more)
        padding.write(X, lanes.X_nld)
        _write_back(state, lanes.state, padding)
        return found


def _unpadded(arrays: Mapping[str, Tensor], padding: Padding) -> dict[str, Tensor]:
    return {name: padding.remove(array) for name, array in arrays.items()}


def _write_back(own: Mapping[str, Tensor], arrays: Arrays, padding: Padding) -> None:
    for name, array in arrays.items():
        padding.write(own[name], array)


def _padded(found: Any, padding: Padding) -> Any:
    """The arrays that a `start` gave with padding; the rehearsal reports what is no array."""
    if not isinstance(found, dict):
        return found
    return {name: padding.add(array) for name, array in found.items()}
