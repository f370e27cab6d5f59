"""On a GPU, a small stack spends its time launching kernels: record them once, then replay."""

from collections.abc import Callable

import torch
from torch import Tensor

from skerry.engine.round import Draws, State, draw, local_steps, mix
from skerry.engine.stack import Stack

SMALL = 2**28  # bytes of X: a larger stack keeps the GPU busy by itself
WARM_UP = 2  # rounds done the ordinary way first: kernels are compiled and chosen there

Train = Callable[[Stack, State], Tensor]


def train(stack: Stack, state: State) -> Tensor:
    """The local steps of a round and the mixing after them; returns the mean losses [L]."""
    losses_l = local_steps(stack, state, draw(stack, state.t))
    mix(stack, state)
    return losses_l


def trainer(stack: Stack, state: State) -> Train:
    """`train`, or a recording of it where that is quicker."""
    X = state.X_nld
    return Recording() if X.is_cuda and X.numel() * X.itemsize <= SMALL else train


class Recording:
    """`train` as a CUDA graph. It reads its draws from fixed places and changes X in place."""

    def __init__(self) -> None:
        self._warm = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._draws: Draws
        self._losses_l: Tensor

    def __call__(self, stack: Stack, state: State) -> Tensor:
        if self._warm < WARM_UP:
            self._warm += 1
            return train(stack, state)
        fresh = draw(stack, state.t)
        if self._graph is None:
            self._record(stack, state, fresh)
        assert self._graph is not None
        self._draws.take(fresh)
        self._graph.replay()
        if not _fixed(stack):
            mix(stack, state)
        return self._losses_l.clone()

    def _record(self, stack: Stack, state: State, draws: Draws) -> None:
        self._draws = draws.copy()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._losses_l = local_steps(stack, state, self._draws)
            if _fixed(stack):
                mix(stack, state)


def _fixed(stack: Stack) -> bool:
    """Whether all networks stay as they are: then mixing is the same in every round."""
    return all(group.mixer.fleet.fixed for group in stack.mixing)
