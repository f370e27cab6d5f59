"""What is known before anything is run: what may be spent, and what is special about a fleet."""

from collections.abc import Iterator
from dataclasses import replace

from skerry.advice.contenders import Contender, Purse
from skerry.advice.question import KINDS, Question
from skerry.engine.world import World
from skerry.experiment import Experiment
from skerry.measure.ledger import BYTES_PER_PARAMETER

LINK_ROUNDS = 20
"""Rounds over which changing links are counted."""


def purse_of(question: Question, experiment: Experiment, world: World) -> Purse:
    """Prices, and how much may be spent. Prices alone mean: as much as the experiment's own
    setting costs at these prices."""
    server, fleet = experiment.server, world.fleet
    drawn = 1 if fleet.fixed else min(LINK_ROUNDS, experiment.rounds)
    links = sum(fleet.links(t) for t in range(drawn)) / drawn
    purse = Purse(question.prices, world.n, links, server.offset, experiment.rounds)
    if question.messages is not None:
        limit = question.messages
    elif question.bytes is not None:
        limit = question.bytes / (BYTES_PER_PARAMETER * world.learner.parameters)
    elif question.priced:
        primitive = server.primitive if server.primitive in KINDS else "s2a"
        own = Contender(primitive, None, server.sampled, server.period)
        limit = purse.cost(own, experiment.rounds)
    else:
        return purse
    return replace(purse, limit=limit)


def why_equal(question: Question, experiment: Experiment, world: World) -> str:
    """Why all primitives are the same run, where they are."""
    server = experiment.server
    if server.offset >= experiment.rounds:
        return (
            f"the server first calls after {server.offset} rounds, and there are "
            f"{experiment.rounds}"
        )
    if server.sampled == world.n and not question.chooses_server:
        return "the server samples every device (K = n), so the sampled are all"
    return ""


def remarks(question: Question, experiment: Experiment, world: World) -> Iterator[str]:
    server = experiment.server
    if len(world.sizes) == 1:
        yield "there is one island: gossip alone would bring all devices together in time"
    if max(world.sizes) == 1 and world.n > 1:
        yield "no device has a neighbour: only the server brings them together"
    if server.sampled == 1 and world.n > 1:
        yield "with K = 1, s2s changes nothing: the one sampled device averages with itself"
    if server.primitive not in (*KINDS, "none"):
        yield f"'{server.primitive}' is a primitive of your own, which advice does not cover"
    if not world.learner.classifies:
        yield "the model has no accuracies: contenders are compared by the average model's loss"
    if question.priced and not question.has_budget:
        yield "no budget was given: it is what the experiment's own setting costs at these prices"
