"""Every device's own model on its own test samples, where it has some."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels.precision import arithmetic


@dataclass(frozen=True)
class OwnTests:
    world: World

    @cached_property
    def _rows(self) -> list[tuple[int, Tensor]]:
        """The devices that have some, each with the places of its samples."""
        own, device = self.world.partition.own_tests, self.world.device
        if own is None:
            return []
        holders = own.sizes.nonzero()[0].tolist()
        return [(i, torch.from_numpy(own.indices(i)).to(device)) for i in holders]

    def judged(self, X_nld: Tensor, otherwise_nl: Tensor) -> Tensor:
        """By accuracy or loss, [n, L]; devices without samples of their own have what is said
        otherwise."""
        if not self._rows:
            return otherwise_nl
        world, task, found_nl = self.world, self.world.task, otherwise_nl.clone()
        unit = 100 if task.in_percent else 1
        with arithmetic(world.experiment.training.precision):
            for device, rows in self._rows:
                scores = world.learner.scores(X_nld[device], world.x_own[rows])
                found_nl[device] = unit * task.judged(scores, world.y_own[rows]).mean(dim=1)
        return found_nl
