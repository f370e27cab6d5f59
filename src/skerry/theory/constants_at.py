"""The constants of the theory at one point, from minibatch gradients of all devices.

Every draw takes two independent minibatches of each device and one W; G1 and G2 are the two
matrices of gradients at x. With A = W - Pi_C (intra) or Pi_C - Pi (inter):
    zeta^2         (||G1 A||^2 + ||G2 A||^2)/2n     the theory's definition, noise included
    noise floor    ||(G1 - G2) A||^2/2n             what minibatches alone cause
    heterogeneity  <G1 A, G2 A>/n                   of full gradients: the difference of the two
    sigma^2        ||(G1 - G2)_j||^2/2              for device j
Each is unbiased, so means over draws come with standard errors.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from skerry.engine.mixer import Mixer
from skerry.engine.world import World
from skerry.measure.disagreement import spread
from skerry.theory.gradients import gradients_and_losses, minibatch, redrawn
from skerry.theory.operators import Array
from skerry.theory.smoothness import Smoothness


class Measured(NamedTuple):
    value: float
    error: float
    """Standard error; 0 where the value is exact."""

    @classmethod
    def mean_of(cls, values: Array) -> "Measured":
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


@dataclass(frozen=True)
class Heterogeneity:
    """zeta^2 of one kind, and its two parts."""

    total: Measured
    """zeta^2 as the theory defines it: minibatch gradients differ by noise too."""
    pure: Measured
    """Of full gradients; unbiased, so it may come out below 0."""
    noise: Measured
    """The floor that minibatch noise sets."""


@dataclass(frozen=True)
class ConstantsAt:
    """The constants at the average model of a run after some rounds."""

    round: int
    loss: Measured
    """f at the average model, devices weighing alike."""
    sigma2: Measured
    """The mean over devices, which is all that the descent lemmas need."""
    sigma2_max: Measured
    """The largest over devices; the largest of noisy estimates leans upward."""
    intra: Heterogeneity
    inter: Heterogeneity
    smoothness: Smoothness


class _Draw(NamedTuple):
    loss: float
    sigma2_n: Array
    intra: tuple[float, float]
    """Total and noise floor."""
    inter: tuple[float, float]


def measure_at(
    world: World, x_d: Tensor, round_: int, draws: int, chunk: int, smoothness: Smoothness
) -> ConstantsAt:
    """The means over independent draws at x, the average model after `round_` rounds."""
    mixer = Mixer(world.fleet, world.device, world.dtype)
    drawn = [_draw(world, x_d, mixer, round_, number, chunk) for number in range(draws)]
    sigma2 = np.array([one.sigma2_n for one in drawn])
    noisiest = sigma2.mean(axis=0).argmax()
    return ConstantsAt(
        round=round_,
        loss=Measured.mean_of(np.array([one.loss for one in drawn])),
        sigma2=Measured.mean_of(sigma2.mean(axis=1)),
        sigma2_max=Measured.mean_of(sigma2[:, noisiest]),
        intra=_heterogeneity([one.intra for one in drawn]),
        inter=_heterogeneity([one.inter for one in drawn]),
        smoothness=smoothness,
    )


def _draw(world: World, x_d: Tensor, mixer: Mixer, round_: int, number: int, chunk: int) -> _Draw:
    (G1, losses1), (G2, losses2) = (
        gradients_and_losses(world, x_d, minibatch(redrawn(world, round_, number, twin)), chunk)
        for twin in (0, 1)
    )
    noise_nd = (G1 - G2) / math.sqrt(2)
    # G (W - Pi_C) and G (Pi_C - Pi) are the two parts of the disagreement of G W.
    GW_nld = torch.stack([G1, G2, noise_nd], dim=1)
    mixer.mix(GW_nld, round_ + number)
    parts = spread(GW_nld, world.sizes)
    intra, inter = parts.intra_l.tolist(), parts.inter_l.tolist()
    return _Draw(
        loss=float((losses1 + losses2).mean() / 2),
        sigma2_n=noise_nd.square().sum(dim=1).double().cpu().numpy(),
        intra=((intra[0] + intra[1]) / 2, intra[2]),
        inter=((inter[0] + inter[1]) / 2, inter[2]),
    )


def _heterogeneity(drawn: list[tuple[float, float]]) -> Heterogeneity:
    total, noise = np.array(drawn).T
    return Heterogeneity(*(Measured.mean_of(part) for part in (total, total - noise, noise)))
