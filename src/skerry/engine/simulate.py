"""The simulation loop, a generator of moments; recording and drawing are left to the caller."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

import torch
from torch import Tensor

from skerry.engine.round import ServerRound, initial_state, run_server_rounds, start_loss
from skerry.engine.stack import Stack, build_stack
from skerry.engine.state import State, keep_lanes
from skerry.engine.trainer import Trainer

EXPLODED = 1e9
"""A lane has diverged when its loss is not finite, or more than this times the loss at the start
(or times 1, where that is less). A run that still learns stays far below, also with too large a
stepsize; a regression that explodes passes it within a few rounds."""


@dataclass(frozen=True)
class Moment:
    """A stack at its start, before the server rounds, or at the end of a round.

    `state.X_nld` is the live array, not a copy: measure it before the next moment.
    """

    phase: Literal["start", "before_server", "end"]
    stack: Stack
    """The lanes that are still running; `state` holds their models."""
    state: State
    round: int
    """Rounds done, counting the one that this moment belongs to."""
    train_loss_l: Tensor | None = None
    server_rounds: Sequence[ServerRound] = ()
    diverged: Sequence[int] = ()
    """Lanes that have diverged; they are dropped after this moment."""
    ended: list[int] = field(default_factory=list)
    """Lanes that the caller ends here, by adding them; they are dropped after this moment."""


def simulate(stack: Stack, state: State | None = None) -> Iterator[Moment]:
    """Run a stack to its last round, from the start or from an earlier state.

    Lanes that have diverged (`EXPLODED`) are dropped at the next evaluation, and lanes that the
    caller ends at once; the others go on.
    """
    if state is None:
        state = initial_state(stack)
        yield Moment("start", stack, state, round=0)
    trainer = Trainer(stack, state)
    while state.t < stack.world.rounds:
        losses_l = trainer.train(state)
        yield Moment("before_server", stack, state, state.t + 1)
        server_rounds = run_server_rounds(stack, state)
        state.t += 1
        # Reading a number makes a GPU wait, so losses are read only in rounds that are measured.
        diverged = []
        if is_evaluated(stack, state.t):
            losses_l = stack.world.ranks.sum_parts(losses_l)
            diverged = _diverged(stack, state, losses_l)
        diverged = [lane for lane in diverged if lane not in _all_asleep(stack, state.t - 1)]
        moment = Moment("end", stack, state, state.t, losses_l, server_rounds, diverged)
        yield moment
        if dropped := {*diverged, *moment.ended}:
            going = [lane for lane in range(len(stack)) if lane not in dropped]
            if not going:
                return
            stack = build_stack(stack.world, [stack.experiments[lane] for lane in going])
            state = keep_lanes(state, going)
            trainer = Trainer(stack, state)


def _diverged(stack: Stack, state: State, losses_l: Tensor) -> list[int]:
    """The lanes whose loss is not finite, or has exploded. The loss at the start is computed only
    where a loss is suspicious, so that it costs nothing and need not be kept to resume."""
    suspicious = torch.nonzero(~(losses_l <= EXPLODED)).flatten().tolist()
    limit, losses = EXPLODED, losses_l.tolist() if suspicious else []
    if any(isfinite(losses[lane]) for lane in suspicious):
        limit *= max(1.0, abs(float(start_loss(stack, state.chunk))))
    return [lane for lane in suspicious if not (isfinite(losses[lane]) and losses[lane] <= limit)]


def is_evaluated(stack: Stack, round_: int) -> bool:
    """Whether the lanes are evaluated after this many rounds."""
    evaluate = stack.world.experiment.evaluate
    due = round_ > evaluate.after and round_ % evaluate.every == 0
    return due or round_ == stack.world.rounds


def _all_asleep(stack: Stack, t: int) -> set[int]:
    """Lanes in which no device was awake in round t, so that there is no loss."""
    lanes = range(len(stack))
    return {
        lane
        for group in stack.mixing
        if group.awake is not None and not group.awake(t).any()
        for lane in lanes[group.lanes]
    }
