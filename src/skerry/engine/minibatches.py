"""The minibatches of a round: which devices step together, and on which samples.

With `training.local_steps` all devices take each step together. With `training.local_epochs`
devices with more samples take more steps, and the last minibatch of a pass may be smaller; devices
whose minibatches have one size step together, as rows that are taken out of X and put back.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.data.batches import LocalEpochs
from skerry.data.holdings import Ints
from skerry.engine.stack import Stack
from skerry.engine.world import World


class RoundDraws(NamedTuple):
    """The minibatches, noise keys and stepsizes of one round of local steps."""

    indices: Tensor
    """[steps, n, B]: training indices of every local step and device. With local epochs [E,
    samples]: those of all devices, one device after the other, in the order of each pass."""
    noise_sn: Tensor
    eta_l: Tensor


class Minibatches(NamedTuple):
    """Minibatches of one size, of devices that step together."""

    devices: slice | Tensor
    """Rows of X; as a tensor, they are no neighbours."""
    rows_mb: Tensor
    """Training indices."""
    noise_m: Tensor
    step: int | Tensor
    """Number of the local step in the round; with local epochs one for each device, [m]."""
    share_m: Tensor | None = None
    """The share of a device's samples that its minibatch holds, with local epochs."""


def draw_round(stack: Stack, t: int) -> RoundDraws:
    """The draws of round t."""
    world = stack.world
    steps = range(world.experiment.training.local_steps)
    if world.local_epochs is not None:
        indices = world.draws.epoch_orders(t)
        most = max(world.local_epochs.steps[world.ranks.devices])
        steps = range(most if world.learner.noisy else 1)
    else:
        indices = _stacked([world.batch_indices(t, step) for step in steps])
    noise_sn = _stacked([world.noise_keys(t, step) for step in steps])
    return RoundDraws(indices, noise_sn, stack.etas_tl[t])


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Along a new first dimension; a single one is not copied, for it may be large."""
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def minibatches(world: World, draws: RoundDraws, chunk: int) -> Iterator[Minibatches]:
    """The minibatches of a round in the order in which devices take them, at most `chunk` devices
    at once."""
    noise_sn = draws.noise_sn
    for number, indices in enumerate(draws.indices):
        if world.local_epochs is None:  # of a step, [n, B]
            for first in range(0, world.local_devices, chunk):
                devices = slice(first, first + chunk)
                yield Minibatches(devices, indices[devices], noise_sn[number, devices], number)
            continue
        for group in _groups(world, chunk):  # of a pass, [samples]
            step_m, of = number * group.count_m + group.number_m, group.devices
            noise_m = noise_sn[step_m, group.device_m] if world.learner.noisy else noise_sn[0, of]
            yield Minibatches(of, indices[group.place_mb], noise_m, step_m, group.share_m)


# Local epochs


class StepGroup(NamedTuple):
    """Devices whose minibatches of a pass have one size; the same in every pass and round."""

    devices: slice | Tensor
    device_m: Tensor
    place_mb: Tensor
    """Places of the samples in the order of a pass."""
    number_m: Tensor
    """Number of the minibatch in its pass."""
    count_m: Tensor
    """Number of minibatches in a pass of the device."""
    share_m: Tensor


def _groups(world: World, chunk: int) -> list[StepGroup]:
    """The steps of a pass: the full minibatches of all devices, then the smaller last ones.

    Within a round devices are independent, so the order between them is free. This one needs the
    fewest steps, because last minibatches of one size are taken together.
    """
    if chunk not in world.step_groups:
        assert world.local_epochs is not None
        world.step_groups[chunk] = [
            _group(world, some, number[some], size)
            for devices, number, size in _steps_of_a_pass(world.local_epochs, world.ranks.devices)
            for some in np.split(devices, range(chunk, len(devices), chunk))
        ]
    return world.step_groups[chunk]


def _steps_of_a_pass(epochs: LocalEpochs, local: slice) -> Iterator[tuple[Ints, Ints, int]]:
    """Local devices, the number of the minibatch in the pass of every device, and its size."""
    full, left = np.divmod(epochs.sizes[local], epochs.batch)
    for number in range(full.max()):
        yield np.flatnonzero(full > number), np.full_like(full, number), epochs.batch
    for size in np.unique(left[left > 0]):
        yield np.flatnonzero(left == size), full, int(size)


def _group(world: World, devices: Ints, number: Ints, size: int) -> StepGroup:
    epochs = world.local_epochs
    assert epochs is not None
    sizes = epochs.sizes[world.ranks.devices]
    first = (np.cumsum(sizes) - sizes)[devices] + number * epochs.batch
    steps = epochs.steps[world.ranks.devices][devices] // epochs.epochs

    def tensor(array: Ints | NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(array).to(world.device)

    device_m = tensor(devices)
    neighbours = devices[-1] - devices[0] + 1 == len(devices)
    return StepGroup(
        slice(int(devices[0]), int(devices[-1]) + 1) if neighbours else device_m,
        device_m,
        tensor(first[:, np.newaxis] + np.arange(size)),
        tensor(number),
        tensor(steps),
        tensor(size / sizes[devices]).to(world.dtype),
    )
