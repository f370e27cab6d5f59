"""Training of a stack: local steps and mixing, replayed from a CUDA graph where that pays."""

import torch
from torch import Tensor

from skerry.engine.minibatches import RoundDraws, draw_round
from skerry.engine.round import local_steps, mix, train
from skerry.engine.stack import Stack, step_bytes
from skerry.engine.state import State
from skerry.kernels.cuda_graph import WARM_UP, capture, capture_pays
from skerry.models.learner import goes_one_by_one


class Trainer:
    """Trains one stack, round after round. While a GPU works, the host draws the next round."""

    def __init__(self, stack: Stack, state: State):
        self._stack = stack
        self._ahead: dict[int, RoundDraws] = {}
        self._looks_ahead = state.X_nld.is_cuda
        self._captures = can_be_captured(stack, state)
        self._warm_up = WARM_UP
        self._round: CapturedRound | None = None
        self._methods = [group.method for group in stack.mixing if group.method is not None]

    def train(self, state: State) -> Tensor:
        """The local steps of a round and the mixing after them; returns the mean losses [L]."""
        draws = self._ahead.pop(state.t, None) or draw_round(self._stack, state.t)
        if self._captures and all(method.repeats(state.t) for method in self._methods):
            losses_l = self._replay(state, draws)
        else:
            losses_l = train(self._stack, state, draws)
        if self._looks_ahead and state.t + 1 < self._stack.world.rounds:
            self._ahead = {state.t + 1: draw_round(self._stack, state.t + 1)}
        return losses_l

    def _replay(self, state: State, draws: RoundDraws) -> Tensor:
        if self._warm_up > 0:
            self._warm_up -= 1
            return train(self._stack, state, draws)
        if self._round is None:
            self._round = CapturedRound(self._stack, state, draws)
        losses_l = self._round.replay(state, draws)
        if losses_l is not None:
            return losses_l
        self._captures = False
        return train(self._stack, state, draws)


def can_be_captured(stack: Stack, state: State) -> bool:
    """Whether the training of a round may be captured in a CUDA graph, and whether that pays.

    Loops over models and gradients of embeddings cannot be captured reliably; with local epochs a
    round may have thousands of steps.
    """
    X, world = state.X_nld, stack.world
    if not (X.is_cuda and stack.never_needs_models_before and world.local_epochs is None):
        return False
    worth_it = capture_pays(X.nbytes, state.chunk * step_bytes(world, len(stack)))
    return worth_it and world.x_train.is_floating_point() and not goes_one_by_one(world.learner)


class CapturedRound:
    """A round of training in a CUDA graph, which reads its draws from fixed memory.

    Mixing is part of the graph where no network changes and messages need no draws.
    """

    def __init__(self, stack: Stack, state: State, draws: RoundDraws):
        self._stack = stack
        self._mixes = all(
            group.mixer.fleet.fixed
            and not group.mixer.ranks.cuts
            and not group.rounds_without_mixing
            and group.compression is None
            for group in stack.mixing
        )
        self._draws = RoundDraws(*map(torch.clone, draws))

        def work() -> Tensor:
            losses_l = local_steps(stack, state, self._draws)
            if self._mixes:
                mix(stack, state, self._draws.eta_l)
            return losses_l

        self._graph = capture(work)

    def replay(self, state: State, draws: RoundDraws) -> Tensor | None:
        """The mean losses [L] of a replayed round; None if the capture failed."""
        if self._graph is None:
            return None
        for place, drawn in zip(self._draws, draws, strict=True):
            place.copy_(drawn)
        losses_l = self._graph.replay()
        if not self._mixes:
            mix(self._stack, state, self._draws.eta_l)
        return losses_l.clone()
