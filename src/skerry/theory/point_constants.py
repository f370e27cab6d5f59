"""Constants of the theory at one point x: noise, heterogeneity and smoothness.

A draw takes two independent minibatches of each device and one W; G1 and G2 are the two matrices of
gradients at x. With A = W - Pi_C (intra) or Pi_C - Pi (inter):
    zeta^2         (||G1 A||^2 + ||G2 A||^2)/2n     the theory's definition, which includes noise
    noise floor    ||(G1 - G2) A||^2/2n             the part caused by minibatches
    heterogeneity  <G1 A, G2 A>/n                   of full gradients: the difference of the two
    sigma^2        ||(G1 - G2)_j||^2/2              for device j
Each estimate is unbiased, so that means over draws have standard errors.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from skerry.engine.mixer import Mixer
from skerry.engine.world import World
from skerry.errors import ModelError
from skerry.measure.disagreement import spread
from skerry.models.learner import Batch, goes_one_by_one
from skerry.models.linear import LinearLearner
from skerry.models.quadratic import QuadraticLearner
from skerry.seeds import torch_seed
from skerry.theory.operators import Array


@dataclass(frozen=True)
class Measurement:
    """A measured value with its standard error."""

    value: float
    error: float  # standard error; 0 where the value is exact

    @classmethod
    def mean_of(cls, values: Array) -> "Measurement":
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


@dataclass(frozen=True)
class Heterogeneity:
    """zeta^2, intra or inter, and its two parts."""

    total: Measurement  # zeta^2 as the theory defines it, of minibatch gradients
    pure: Measurement  # the part of full gradients; the estimate is unbiased, so it may be negative
    noise: Measurement  # the part caused by minibatch noise


@dataclass(frozen=True)
class Smoothness:
    """Smoothness L of the device with the largest one."""

    value: float  # L that holds on average over minibatches; the bounds use it
    of_losses: float  # L of the devices' full losses
    method: Literal["exact", "upper bound", "estimate"]


@dataclass(frozen=True)
class PointConstants:
    """The constants at the average model of a run after some rounds."""

    round: int
    loss: Measurement  # f at the average model, with equal weights of devices
    sigma2: Measurement  # mean over devices, which is what the descent lemmas need
    sigma2_max: Measurement  # largest over devices; the maximum of noisy estimates is biased upward
    intra: Heterogeneity
    inter: Heterogeneity
    smoothness: Smoothness


def measure_at_point(
    world: World, x_d: Tensor, round_: int, draws: int, chunk: int, smoothness: Smoothness
) -> PointConstants:
    """Constants at x [d], the average model after `round_` rounds, as means over draws. `chunk` is
    the number of devices whose gradients are computed at once."""
    mixer = Mixer(world.fleet, world.device, world.dtype)
    estimates = (_draw(world, x_d, mixer, round_, number, chunk) for number in range(draws))
    loss, sigma2, intra, inter = (np.array(each) for each in zip(*estimates, strict=True))
    return PointConstants(
        round=round_,
        loss=Measurement.mean_of(loss),
        sigma2=Measurement.mean_of(sigma2.mean(axis=1)),
        sigma2_max=Measurement.mean_of(sigma2[:, sigma2.mean(axis=0).argmax()]),
        intra=_heterogeneity(intra),
        inter=_heterogeneity(inter),
        smoothness=smoothness,
    )


def _draw(
    world: World, x_d: Tensor, mixer: Mixer, round_: int, number: int, chunk: int
) -> tuple[float, Array, Array, Array]:
    """Loss, sigma^2 of each device, and zeta^2 (intra, inter) of G1, of G2 and of their noise."""
    (G1, losses1), (G2, losses2) = (
        gradients_and_losses(
            world, x_d, draw_minibatch(with_other_draws(world, round_, number, twin)), chunk
        )
        for twin in (0, 1)
    )
    noise_nd = (G1 - G2) / math.sqrt(2)
    # G (W - Pi_C) and G (Pi_C - Pi) are the two parts of the disagreement of G W.
    GW_nld = torch.stack([G1, G2, noise_nd], dim=1)
    mixer.mix(GW_nld, round_ + number)
    parts = spread(GW_nld, world.sizes)
    return (
        float((losses1 + losses2).mean() / 2),
        noise_nd.square().sum(dim=1).double().cpu().numpy(),
        np.array(parts.intra_l.tolist()),
        np.array(parts.inter_l.tolist()),
    )


def _heterogeneity(draws: Array) -> Heterogeneity:
    first, second, noise = draws.T
    total = (first + second) / 2
    return Heterogeneity(*(Measurement.mean_of(part) for part in (total, total - noise, noise)))


def known_smoothness(world: World) -> Smoothness | None:
    """L at every x from a formula; None for models without one."""
    learner = world.learner
    if isinstance(learner, QuadraticLearner):
        L = float(learner.a_d.max())
        return Smoothness(L, L, "exact")
    if isinstance(learner, LinearLearner):
        curvature = world.task.curvature(learner.outputs)
        return None if curvature is None else _linear_smoothness(world, curvature)
    return None


def estimate_smoothness(world: World, x_d: Tensor, round_: int, chunk: int) -> Smoothness:
    """Lower estimate of L: the largest curvature at x [d] over one minibatch of every device."""
    batch = draw_minibatch(with_other_draws(world, round_, -1))
    L = float(largest_curvatures(world, x_d, batch, chunk).max())
    return Smoothness(L, L, "estimate")


def _linear_smoothness(world: World, curvature: float) -> Smoothness:
    """L of a linear model, from the second moment of (x, 1).

    It is the largest eigenvalue times the curvature of the loss at the outputs, because the Hessian
    of one sample is S (x) xx^T. In softmax regression S = diag(P) - P P^T, whose eigenvalues are at
    most 1/2.

    For minibatches of B drawn with replacement it is (1 - 1/B) L + L_sample/B, with which
    E||grad f_B(x) - grad f_B(y)||^2 <= L^2 ||x - y||^2 (expected smoothness; Gower et al. 2019).
    """
    of_losses = max(_largest_eigenvalue(x.double()) for x in samples_by_device(world)) * curvature
    of_sample = float(world.x_train.double().square().sum(dim=1).max()) * curvature
    size = world.experiment.training.batch
    value = (1 - 1 / size) * of_losses + of_sample / size
    return Smoothness(value, of_losses, "upper bound")


def _largest_eigenvalue(x: Tensor) -> float:
    """Largest eigenvalue of x^T x / samples, from the smaller of the two Gram matrices."""
    gram = x.T @ x if len(x) > x.shape[1] else x @ x.T
    return float(torch.linalg.eigvalsh(gram)[-1]) / len(x)


def samples_by_device(world: World) -> Iterator[Tensor]:
    for device in range(world.n):
        yield world.x_train[torch.from_numpy(world.partition.indices(device)).to(world.device)]


def with_other_draws(world: World, *numbers: int) -> World:
    """A copy of the world with another seed for minibatches, different from those of any run."""
    seed = torch_seed(world.seed, "constants", *numbers)
    return replace(world, experiment=world.experiment.model_copy(update={"seed": seed}))


def draw_minibatch(world: World) -> Batch:
    rows = world.batch_indices(0, 0)
    return Batch(world.x_train[rows], world.y_train[rows], world.noise_keys(0, 0))


def gradients_and_losses(
    world: World, x_d: Tensor, batch: Batch, chunk: int
) -> tuple[Tensor, Tensor]:
    """Gradients G(x) [n, d] and minibatch losses [n] of all devices at x [d]."""
    each = _over_devices(world, grad_and_value(world.learner.loss), (None, 0, 0, 0))
    parts = [_apply(each, x_d, *part) for part in _split(batch, chunk)]
    return torch.cat([g for g, _ in parts]), torch.cat([loss for _, loss in parts])


def largest_curvatures(
    world: World, x_d: Tensor, batch: Batch, chunk: int, *, rounds: int = 100, digits: int = 3
) -> Tensor:
    """||Hessian||_2 of every device's minibatch loss, [n], by power iteration. It stops when the
    largest is stable to this many digits. The iteration converges from below."""

    def gradient_along(x_d: Tensor, v_d: Tensor, *sample: Tensor) -> Tensor:
        gradient_d: Tensor = grad(world.learner.loss)(x_d, *sample)
        return gradient_d @ v_d

    each = _over_devices(world, grad(gradient_along), (None, 0, 0, 0, 0))
    generator = torch.Generator().manual_seed(torch_seed(world.seed, "curvature"))
    start_d = torch.randn(len(x_d), generator=generator).to(x_d)
    v_nd = (start_d / start_d.norm()).expand(world.n, -1)
    largest = torch.zeros(world.n).to(x_d)
    for _ in range(rounds):
        slices = zip(torch.split(v_nd, chunk), _split(batch, chunk), strict=True)
        Hv_nd = torch.cat([_apply(each, x_d, v, *part) for v, part in slices])
        before, largest = largest, Hv_nd.norm(dim=1)
        v_nd = Hv_nd / largest.clamp(min=torch.finfo(x_d.dtype).tiny)[:, None]
        if (largest.max() - before.max()).abs() <= 10**-digits * largest.max():
            break
    return largest


def _over_devices(
    world: World, function: Callable[..., Any], in_dims: tuple[int | None, ...]
) -> Callable[..., Any]:
    """A function of one device, for all devices of a batch: by vmap, or else by a loop."""

    def each(*arguments: Tensor) -> Any:
        if not goes_one_by_one(world.learner):
            with suppress(RuntimeError):  # recurrent layers with some unbatched inputs
                return vmap(function, in_dims=in_dims)(*arguments)
        count = next(len(a) for a, d in zip(arguments, in_dims, strict=True) if d is not None)
        results = [
            function(*(a if d is None else a[i] for a, d in zip(arguments, in_dims, strict=True)))
            for i in range(count)
        ]
        if isinstance(results[0], Tensor):
            return torch.stack(results)
        return tuple(torch.stack(part) for part in zip(*results, strict=True))

    return each


def _split(batch: Batch, chunk: int) -> list[tuple[Tensor, ...]]:
    parts = (torch.split(tensor, chunk) for tensor in (batch.x, batch.y, batch.noise))
    return list(zip(*parts, strict=True))


def _apply(each: Callable[..., Any], *arguments: Tensor) -> Any:
    try:
        return each(*arguments)
    except RuntimeError as error:  # a user's own loss may not support vmap
        raise ModelError(
            "the constants need a loss that torch.func can differentiate for all devices at once "
            f"(got {str(error).splitlines()[0]}). Write it without in-place changes and branches "
            "on values."
        ) from error
