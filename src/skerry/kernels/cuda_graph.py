"""A GPU's work as a CUDA graph: recorded once, then replayed. A small stack spends its time
launching kernels, and a replay is a single launch."""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Generic, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")

SMALL = 2**28  # bytes of X: a larger stack keeps the GPU busy by itself
ROOM = 2**29  # bytes of X and of temporaries: with few of them, a stack may be larger
WARM_UP = 2  # times that work is done the ordinary way first: kernels are compiled and chosen there

_recording: ContextVar[bool] = ContextVar("recording", default=False)


def is_recording() -> bool:
    """Whether work is being written down: much fails there that runs everywhere else."""
    return _recording.get()


def pays(models: int, temporaries: int) -> bool:
    """Whether rounds are to be recorded, with so many bytes of X and of what they need on the way:
    a recording holds on to that."""
    return models <= SMALL or models + temporaries <= ROOM


class Recording(Generic[Result]):
    """Work that reads from and writes to the same places each time. Its result lies in the same
    place too: the next replay overwrites it."""

    def __init__(self, work: Callable[[], Result]):
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may go on using the GPU meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            before = _recording.set(True)
            try:
                self._result = work()
            finally:
                _recording.reset(before)

    def replay(self) -> Result:
        self._graph.replay()
        return self._result


def record(work: Callable[[], Result]) -> Recording[Result] | None:
    """None where something in it cannot be recorded, as a user's own code that waits for a number.
    Nothing has been done then: recording only writes down."""
    stream = torch.cuda.current_stream()
    try:
        return Recording(work)
    except RuntimeError:
        torch.cuda.set_stream(stream)
        with suppress(RuntimeError):  # what went wrong is told once more
            torch.cuda.synchronize()
        return None


class Repeated(Generic[Result]):
    """A function of one array that is asked for round after round, of the same array in the same
    place. On a GPU its result holds until it is asked again."""

    def __init__(self, function: Callable[[Tensor], Result], records: bool = True):
        self._function = function
        self._where: tuple[int, torch.Size] | None = None
        self._warm_up = WARM_UP
        self._recording: Recording[Result] | None = None
        self._launches = not records

    def __call__(self, X: Tensor) -> Result:
        if self._launches or not X.is_cuda or X.nbytes > SMALL:
            return self._function(X)
        where = X.data_ptr(), X.shape
        if where != self._where:
            self._where, self._warm_up, self._recording = where, WARM_UP, None
        if self._warm_up > 0:
            self._warm_up -= 1
            return self._function(X)
        if self._recording is None:
            self._recording = record(lambda: self._function(X))
            self._launches = self._recording is None
        return self._recording.replay() if self._recording else self._function(X)
