"""Minibatch gradients of all devices at one common point: the matrix G(x) of the theory."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from skerry.engine.world import World
from skerry.errors import ModelError
from skerry.models.learner import Batch, goes_one_by_one
from skerry.seeds import torch_seed


def redrawn(world: World, *numbers: int) -> World:
    """The same data, devices and model with other dice: batches that no run has seen."""
    seed = torch_seed(world.seed, "constants", *numbers)
    return replace(world, experiment=world.experiment.model_copy(update={"seed": seed}))


def minibatch(world: World) -> Batch:
    """One minibatch of every device."""
    rows = world.batch_indices(0, 0)
    return Batch(world.x_train[rows], world.y_train[rows], world.noise_keys(0, 0))


def gradients_and_losses(
    world: World, x_d: Tensor, batch: Batch, chunk: int
) -> tuple[Tensor, Tensor]:
    """G(x) with a device in each row, [n, d], and the devices' minibatch losses, [n]."""
    each = _over_devices(world, grad_and_value(world.learner.loss), (None, 0, 0, 0))
    parts = [_mapped(each, x_d, *part) for part in _parts(batch, chunk)]
    return torch.cat([g for g, _ in parts]), torch.cat([loss for _, loss in parts])


def largest_curvatures(
    world: World, x_d: Tensor, batch: Batch, chunk: int, *, rounds: int = 100, digits: int = 3
) -> Tensor:
    """||Hessian||_2 of every device's minibatch loss, [n], by power iteration.

    It stops where the largest no longer changes in this many digits. The iteration approaches
    the norm from below.
    """

    def gradient_along(x_d: Tensor, v_d: Tensor, *sample: Tensor) -> Tensor:
        gradient_d: Tensor = grad(world.learner.loss)(x_d, *sample)
        return gradient_d @ v_d

    each = _over_devices(world, grad(gradient_along), (None, 0, 0, 0, 0))
    dice = torch.Generator().manual_seed(torch_seed(world.seed, "curvature"))
    start_d = torch.randn(len(x_d), generator=dice).to(x_d)
    v_nd = (start_d / start_d.norm()).expand(world.n, -1)
    largest = torch.zeros(world.n).to(x_d)
    for _ in range(rounds):
        slices = zip(torch.split(v_nd, chunk), _parts(batch, chunk), strict=True)
        Hv_nd = torch.cat([_mapped(each, x_d, v, *part) for v, part in slices])
        before, largest = largest, Hv_nd.norm(dim=1)
        v_nd = Hv_nd / largest.clamp(min=torch.finfo(x_d.dtype).tiny)[:, None]
        if (largest.max() - before.max()).abs() <= 10**-digits * largest.max():
            break
    return largest


def _over_devices(
    world: World, of_one: Callable[..., Any], in_dims: tuple[int | None, ...]
) -> Callable[..., Any]:
    """The same for all devices of a batch; one after the other where vmap cannot."""

    def each(*arguments: Tensor) -> Any:
        if not goes_one_by_one(world.learner):
            with suppress(RuntimeError):  # recurrent layers, where not all they get is batched
                return vmap(of_one, in_dims=in_dims)(*arguments)
        count = next(len(a) for a, d in zip(arguments, in_dims, strict=True) if d is not None)
        found = [
            of_one(*(a if d is None else a[i] for a, d in zip(arguments, in_dims, strict=True)))
            for i in range(count)
        ]
        if isinstance(found[0], Tensor):
            return torch.stack(found)
        return tuple(torch.stack(part) for part in zip(*found, strict=True))

    return each


def _parts(batch: Batch, chunk: int) -> list[tuple[Tensor, ...]]:
    split = (torch.split(tensor, chunk) for tensor in (batch.x, batch.y, batch.noise))
    return list(zip(*split, strict=True))


def _mapped(each: Callable[..., Any], *arguments: Tensor) -> Any:
    try:
        return each(*arguments)
    except RuntimeError as error:  # a user's own loss may do what vmap cannot follow
        raise ModelError(
            "the constants need a loss that torch.func can differentiate for all devices at once "
            f"(got {str(error).splitlines()[0]}). Write it without in-place changes and branches "
            "on values."
        ) from error
