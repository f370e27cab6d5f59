"""Local steps and mixing. On a GPU, those of a small stack are recorded once, then replayed."""

from torch import Tensor

from skerry.engine.round import Draws, draw, local_steps, mix, train
from skerry.engine.stack import Stack, step_bytes
from skerry.engine.state import State
from skerry.kernels.cuda_graph import WARM_UP, capture, capture_pays
from skerry.models.learner import goes_one_by_one


class Trainer:
    """Trains one stack, round after round. While a GPU works, the next round is drawn."""

    def __init__(self, stack: Stack, state: State):
        self._stack = stack
        self._ahead: tuple[int, Draws] | None = None
        self._looks_ahead = state.X_nld.is_cuda
        self._records = can_be_recorded(stack, state)
        self._warm_up = WARM_UP
        self._round: RecordedRound | None = None
        self._methods = [group.method for group in stack.mixing if group.method is not None]

    def train(self, state: State) -> Tensor:
        """The local steps of a round and the mixing after them; returns the mean losses [L]."""
        drawn_for, draws = self._ahead or (-1, None)
        if draws is None or drawn_for != state.t:
            draws = draw(self._stack, state.t)
        if self._records and all(method.repeats(state.t) for method in self._methods):
            losses_l = self._recorded(state, draws)
        else:
            losses_l = train(self._stack, state, draws)
        if self._looks_ahead and state.t + 1 < self._stack.world.rounds:
            self._ahead = state.t + 1, draw(self._stack, state.t + 1)
        return losses_l

    def _recorded(self, state: State, draws: Draws) -> Tensor:
        if self._warm_up > 0:
            self._warm_up -= 1
            return train(self._stack, state, draws)
        if self._round is None:
            self._round = RecordedRound(self._stack, state, draws)
        losses_l = self._round.replay(state, draws)
        if losses_l is not None:
            return losses_l
        self._records = False
        return train(self._stack, state, draws)


def can_be_recorded(stack: Stack, state: State) -> bool:
    """Whether a round's training may be, and pays. Neither loops over models nor the gradients of
    embeddings can, for sure."""
    X, world = state.X_nld, stack.world
    if not (X.is_cuda and stack.is_steady):
        return False
    worth_it = capture_pays(X.nbytes, state.chunk * step_bytes(world, len(stack)))
    return worth_it and world.x_train.is_floating_point() and not goes_one_by_one(world.learner)


class RecordedRound:
    """It reads its draws from fixed places, and changes X and what methods keep in place. Mixing is
    part of it where all networks stay as they are, and messages need no draws of their own."""

    def __init__(self, stack: Stack, state: State, draws: Draws):
        self._stack = stack
        self._mixes = all(
            group.mixer.fleet.fixed
            and not group.mixer.party.cuts
            and not group.rests
            and group.compression is None
            for group in stack.mixing
        )
        self._draws = draws.copy()

        def work() -> Tensor:
            losses_l = local_steps(stack, state, self._draws)
            if self._mixes:
                mix(stack, state, self._draws.eta_l)
            return losses_l

        self._recording = capture(work)

    def replay(self, state: State, draws: Draws) -> Tensor | None:
        """None where it could not be recorded."""
        if self._recording is None:
            return None
        self._draws.take(draws)
        losses_l = self._recording.replay()
        if not self._mixes:
            mix(self._stack, state, self._draws.eta_l)
        return losses_l.clone()
