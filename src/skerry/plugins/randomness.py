"""Global random state: plug-ins must not draw from it, because such runs could not be repeated."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from skerry.errors import SkerryError

OUTSIDE = ("executor", "tracker")
"""Kinds that have no part in the result, and may draw what they like."""
SEEDED = ("dataset", "model")
"""Kinds whose draws from torch's generator repeat, because it is seeded for them."""
INSTEAD = {
    "dataset": "Use numpy.random.default_rng(seed).",
    "loss": "Compute it without random numbers.",
    "model": "Use nn.Dropout, whose draws Skerry makes.",
    "score": "Compute it without random numbers.",
}


class _Source(NamedTuple):
    """A global source of random numbers, with functions that read, set and compare its state."""

    owner: str
    read: Callable[[], Any]
    restore: Callable[[Any], object]
    fixed: Callable[[Any], Any]
    """A state as a value that can be compared."""


def _sources(kind: str) -> Iterator[_Source]:
    yield _Source("Python's", random.getstate, random.setstate, lambda state: state)
    if (numpy := sys.modules.get("numpy")) is not None:
        own = numpy.random
        yield _Source("numpy's", own.get_state, own.set_state, lambda s: (s[1].tobytes(), *s[2:]))
    torch = sys.modules.get("torch")
    if torch is None or kind in SEEDED:
        return
    on_gpu = torch.cuda.is_initialized() and not captures_graph()
    for own in (torch, torch.cuda) if on_gpu else (torch,):
        read, restore = own.get_rng_state, own.set_rng_state
        yield _Source("torch's", read, restore, lambda state: state.numpy().tobytes())


def captures_graph() -> bool:
    """Whether a CUDA graph is captured. Errors then end the capture, and the work is tried again
    without it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(torch.cuda.is_current_stream_capturing())


@contextmanager
def global_randomness(kind: str, name: str, raised: type[SkerryError]) -> Iterator[None]:
    """Refuse a plug-in that draws from global random state or seeds it; the state is restored."""
    if kind in OUTSIDE:
        yield
        return
    before = [(source, source.read()) for source in _sources(kind)]
    drawn: list[str] = []
    try:
        yield
    finally:
        for source, state in before:
            if source.fixed(source.read()) != source.fixed(state):
                source.restore(state)
                drawn.append(source.owner)
    if drawn:
        instead = INSTEAD.get(kind, "Use context.random().")
        raise raised(
            f"{kind} '{name}' draws from {drawn[0]} global random state, so runs could not be "
            f"repeated. {instead}"
        )
