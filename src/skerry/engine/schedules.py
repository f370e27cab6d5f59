"""Stepsize schedules: the factor on the stepsize in round t of T."""

import math

from skerry.config.experiment import Training


def constant(t: int, rounds: int, training: Training) -> float:
    return 1.0


def step(
    t: int, rounds: int, training: Training, *, decay_every: int, decay_factor: float
) -> float:
    """Drop by `decay_factor` every `decay_every` rounds."""
    return float(decay_factor ** (t // decay_every))


def cosine(t: int, rounds: int, training: Training) -> float:
    """Half a cosine from 1 towards 0 at the end."""
    return 0.5 * (1 + math.cos(math.pi * t / rounds))


def inverse_sqrt(t: int, rounds: int, training: Training) -> float:
    return 1 / math.sqrt(t + 1)
