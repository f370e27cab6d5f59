"""How much is scored at once: as many models on as many test samples as fit in memory."""

from skerry.engine.world import World

MEMORY = {"cpu": 2**28, "cuda": 2**32}
"""Bytes that scoring models on test samples may take at once."""


def memory(world: World) -> int:
    return MEMORY.get(world.device.type, 2**28)


def bytes_of_a_score(world: World) -> int:
    """What one model on one more sample takes."""
    learner = world.learner
    return max(1, learner.bytes_per_device(1, 2) - learner.bytes_per_device(1, 1))
