"""CUDA graphs: capture repeated GPU work once and replay it with a single launch.

Small stacks spend most of their time launching kernels; a replay saves that.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Generic, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")

MAX_MODEL_BYTES = 2**28  # of X: a larger stack keeps the GPU busy without a graph
MAX_TOTAL_BYTES = 2**29  # of X and temporaries, up to which a larger X is captured too
WARM_UP = 2  # ordinary calls before a capture, which compile and tune the kernels

_capturing: ContextVar[bool] = ContextVar("capturing", default=False)


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured; many operations are forbidden then."""
    return _capturing.get()


def capture_pays(model_bytes: int, temporary_bytes: int) -> bool:
    """Whether capturing rounds pays: a graph keeps their temporary memory allocated."""
    small = model_bytes <= MAX_MODEL_BYTES
    return small or model_bytes + temporary_bytes <= MAX_TOTAL_BYTES


class CapturedGraph(Generic[Result]):
    """Captured work that reads and writes fixed addresses; a replay overwrites its last result."""

    def __init__(self, work: Callable[[], Result]):
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU during the capture.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            before = _capturing.set(True)
            try:
                self._result = work()
            finally:
                _capturing.reset(before)

    def replay(self) -> Result:
        """Run the captured work again and return its result, which stays at the same address."""
        self._graph.replay()
        return self._result


def capture(work: Callable[[], Result]) -> CapturedGraph[Result] | None:
    """Capture the work in a CUDA graph; None if some operation in it cannot be captured.

    A user's own code that waits for a number is an example. Capturing executes nothing.
    """
    stream = torch.cuda.current_stream()
    try:
        return CapturedGraph(work)
    except RuntimeError:
        torch.cuda.set_stream(stream)
        with suppress(RuntimeError):  # the same error is raised again
            torch.cuda.synchronize()
        return None


class CapturedFunction(Generic[Result]):
    """A function of one array, captured once it was called `WARM_UP` times with the same array.

    On a GPU the result is valid until the next call. It is captured again when the array is at
    another address or has another shape; with `enabled=False` it never is.
    """

    def __init__(self, function: Callable[[Tensor], Result], enabled: bool = True):
        self._function = function
        self._address: tuple[int, torch.Size] | None = None
        self._warm_up = WARM_UP
        self._graph: CapturedGraph[Result] | None = None
        self._enabled = enabled

    def __call__(self, X: Tensor) -> Result:
        if not self._enabled or not X.is_cuda or X.nbytes > MAX_MODEL_BYTES:
            return self._function(X)
        address = X.data_ptr(), X.shape
        if address != self._address:
            self._address, self._warm_up, self._graph = address, WARM_UP, None
        if self._warm_up > 0:
            self._warm_up -= 1
            return self._function(X)
        if self._graph is None:
            self._graph = capture(lambda: self._function(X))
            self._enabled = self._graph is not None
        return self._graph.replay() if self._graph else self._function(X)
