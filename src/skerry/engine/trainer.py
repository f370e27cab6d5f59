"""Local steps and mixing. On a GPU, a small stack spends its time launching kernels: they are
recorded once, then replayed."""

import torch
from torch import Tensor

from skerry.engine.round import Draws, draw, local_steps, mix, train
from skerry.engine.stack import Stack
from skerry.engine.state import State
from skerry.models.learner import goes_one_by_one

SMALL = 2**28  # bytes of X: a larger stack keeps the GPU busy by itself
WARM_UP = 2  # rounds done the ordinary way first: kernels are compiled and chosen there


class Trainer:
    """Trains one stack, round after round. While a GPU works, the next round is drawn."""

    def __init__(self, stack: Stack, state: State):
        X = state.X_nld
        self._stack = stack
        self._ahead: tuple[int, Draws] | None = None
        self._looks_ahead = X.is_cuda
        self._recording: Recording | None = None
        records = X.is_cuda and X.nbytes <= SMALL and stack.is_plain
        # Neither loops over models nor the gradients of embeddings can be recorded for sure.
        plain = stack.world.x_train.is_floating_point() and not goes_one_by_one(stack.world.learner)
        records = records and plain
        self._warm_up = WARM_UP if records else -1

    def train(self, state: State) -> Tensor:
        """The local steps of a round and the mixing after them; returns the mean losses [L]."""
        drawn_for, draws = self._ahead or (-1, None)
        if draws is None or drawn_for != state.t:
            draws = draw(self._stack, state.t)
        if self._warm_up == 0:
            self._recording = Recording(self._stack, state, draws)
        self._warm_up -= 1
        if self._recording is not None:
            losses_l = self._recording.replay(state, draws)
        else:
            losses_l = train(self._stack, state, draws)
        if self._looks_ahead and state.t + 1 < self._stack.world.rounds:
            self._ahead = state.t + 1, draw(self._stack, state.t + 1)
        return losses_l


class Recording:
    """A round's training as a CUDA graph. It reads its draws from fixed places and changes X in
    place. Mixing is part of it where all networks stay as they are."""

    def __init__(self, stack: Stack, state: State, draws: Draws):
        self._stack = stack
        self._mixes = all(
            group.mixer.fleet.fixed and not group.rests and not group.mixer.party.cuts
            for group in stack.mixing
        )
        self._draws = draws.copy()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._losses_l = local_steps(stack, state, self._draws)
            if self._mixes:
                mix(stack, state)

    def replay(self, state: State, draws: Draws) -> Tensor:
        self._draws.take(draws)
        self._graph.replay()
        if not self._mixes:
            mix(self._stack, state)
        return self._losses_l.clone()
