"""Every device's own model on its own test samples, where it has some.

Devices with about as many samples are scored by one call of the learner: with thousands of them,
one call for each would take most of a run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels.precision import arithmetic
from skerry.measure.portions import bytes_of_a_score, memory
from skerry.models.learner import scores_by_device, scores_devices_at_once

FEW = 8
"""Up to so many samples each, devices go together whatever they have."""
LARGER = 1.25
"""Above that, by how much the largest of those that go together may exceed the smallest: no more
than a fifth of what is computed is for nothing."""


@dataclass(frozen=True)
class Together:
    """Devices that are scored at once, on as many samples each as the largest of them has."""

    devices: Tensor
    rows: Tensor
    """Where the samples of each lie, [devices, most]; its last one fills up."""
    there: Tensor
    """Which of them are its own, and none that fills up."""

    def portions(self, most: int) -> Iterator["Together"]:
        """The same, at most so many samples of each at a time."""
        for first in range(0, self.rows.shape[1], most):
            some = slice(first, first + most)
            yield Together(self.devices, self.rows[:, some], self.there[:, some])


@dataclass(frozen=True)
class OwnTests:
    world: World
    _by_lanes: dict[int, list[Together]] = field(default_factory=dict)

    def judged(self, X_nld: Tensor, otherwise_nl: Tensor) -> Tensor:
        """By accuracy or loss, [n, L]; devices without samples of their own have what is said
        otherwise."""
        world, lanes = self.world, X_nld.shape[1]
        if world.partition.own_tests is None:
            return otherwise_nl
        if lanes not in self._by_lanes:
            self._by_lanes[lanes] = list(self._groups(lanes))
        found_nl = otherwise_nl.clone()
        unit = 100 if world.task.in_percent else 1
        most = max(1, memory(world) // (lanes * bytes_of_a_score(world)))
        with arithmetic(world.experiment.training.precision):
            for group in self._by_lanes[lanes]:
                X_gld = X_nld[group.devices]
                parts = [self._summed(X_gld, portion) for portion in group.portions(most)]
                count_g1 = group.there.sum(dim=1, keepdim=True)
                found_nl[group.devices] = unit * (torch.stack(parts).sum(dim=0) / count_g1)
        return found_nl

    def _summed(self, X_gld: Tensor, group: Together) -> Tensor:
        """What judges every model, summed over the samples that are its own, [g, L]."""
        world = self.world
        outputs_gln = scores_by_device(world.learner, X_gld, world.x_own[group.rows])
        g, lanes, size = outputs_gln.shape[:3]
        # To a task, the samples of all these devices are one row.
        outputs_lm = outputs_gln.transpose(0, 1).reshape(lanes, g * size, *outputs_gln.shape[3:])
        judged_lm = world.task.judge(outputs_lm, world.y_own[group.rows].flatten(0, 1))
        judged_lgn = judged_lm.view(lanes, g, size)
        return judged_lgn.where(group.there, judged_lgn.new_zeros(())).sum(dim=2).T

    def _groups(self, lanes: int) -> Iterator[Together]:
        """The devices here that have some, by the number of their samples, as many together as
        fit; as rows of X."""
        own, world = self.world.partition.own_tests, self.world
        assert own is not None
        at_once = scores_devices_at_once(world.learner)
        here = range(world.n)[world.party.devices]
        holders = here.start + own.sizes[here.start : here.stop].nonzero()[0]
        holders = holders[np.argsort(own.sizes[holders], kind="stable")]
        sizes, start = own.sizes[holders], 0
        while start < len(holders):
            alike = start + 1
            if at_once:
                alike = int(np.searchsorted(sizes, max(FEW, LARGER * sizes[start]), "right"))
            each = lanes * (int(sizes[alike - 1]) * bytes_of_a_score(world) + 4 * world.learner.d)
            end = min(alike, start + max(1, memory(world) // each))
            devices, size_g1 = holders[start:end], sizes[start:end, np.newaxis]
            place = np.arange(sizes[end - 1])
            rows = own.order[own.offsets[devices, np.newaxis] + np.minimum(place, size_g1 - 1)]
            arrays = (devices - here.start, rows, place < size_g1)
            yield Together(*(torch.from_numpy(array).to(world.device) for array in arrays))
            start = end
