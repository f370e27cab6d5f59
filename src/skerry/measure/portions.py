"""How much is scored at once: as many models on as many test samples as fit in memory."""

from skerry.engine.world import World
from skerry.models.learner import score_bytes

MEMORY = {"cpu": 2**28, "cuda": 2**32}
"""Bytes that scoring models on test samples may take at once."""
JUDGED = 5
"""Bytes of a guess and of whether it is right, beside the outputs it was made from."""


def memory(world: World) -> int:
    return MEMORY.get(world.device.type, 2**28)


def bytes_of_a_score(world: World) -> int:
    """What one model on one more sample takes, at most: as much as in a step."""
    learner = world.learner
    return max(1, learner.bytes_per_device(1, 2) - learner.bytes_per_device(1, 1))


def taken_by_a_score(world: World) -> int | None:
    """What it really takes on a GPU, where a learner says so."""
    told = score_bytes(world.learner)
    return None if told is None else told + JUDGED
