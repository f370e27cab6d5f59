"""Who knows what: the average model and each device on test samples, by the task's measures.

Devices are judged by accuracy where they classify, else by loss, from sums over the test samples of
each class, or of what stands for classes where there are none (data/targets.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels.precision import arithmetic
from skerry.measure.by_device import ByDevice
from skerry.measure.own_tests import OwnTests
from skerry.measure.portions import bytes_of_a_score, memory
from skerry.seeds import stream


@dataclass(frozen=True)
class Samples:
    """Test samples to score on."""

    x: Tensor
    y: Tensor
    classes: Tensor
    """The labels as [N, classes] of zeros and ones."""

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, some: slice | Tensor) -> "Samples":
        return Samples(self.x[some], self.y[some], self.classes[some])


def all_samples(world: World) -> Samples:
    return Samples(world.x_test, world.y_test, world.test_classes)


def samples_for_devices(world: World) -> Samples:
    """As many as `evaluate.device_samples` asks for, every class in its share."""
    wanted, everything = world.experiment.evaluate.device_samples, all_samples(world)
    if wanted is None or wanted >= len(everything):
        return everything
    shuffled = stream(world.experiment.seed, "device samples").permutation(len(everything))
    y = world.dataset.strata("test")[shuffled]
    within = np.argsort(y, kind="stable")
    counts = np.bincount(y)
    place = np.empty(len(y))
    for numbers in np.split(within, np.cumsum(counts)[:-1]):
        # A class's first sample comes before the second of any other, whatever their sizes.
        place[numbers] = np.arange(len(numbers)) / max(1, len(numbers))
    chosen = np.sort(shuffled[np.argsort(place, kind="stable")[:wanted]])
    return everything[torch.from_numpy(chosen).to(world.device)]


def average_model(world: World, average_ld: Tensor) -> dict[str, Tensor]:
    """The average model on the global test set, for every lane: its loss and what else the task
    measures; of a learner without scores its loss alone."""
    samples, learner, task = all_samples(world), world.learner, world.task
    count = len(samples)
    if not learner.classifies:

        def summed(X_md: Tensor, some: Samples) -> Tensor:
            return learner.test_loss(X_md, some.x, some.y) * len(some)

        return {"average_loss": _summed_over(samples, world, average_ld, summed) / count}

    names: list[str] = []

    def sums(X_md: Tensor, some: Samples) -> Tensor:
        found = task.sums(learner.scores(X_md, some.x), some.y)
        names[:] = found
        return torch.stack([*found.values()], dim=1)

    summed_ql = _summed_over(samples, world, average_ld, sums).T
    measured = task.measures(dict(zip(names, summed_ql, strict=True)), samples.y)
    return {f"average_{name}": values_l for name, values_l in measured.items()}


def judged_by_class(samples: Samples, world: World, X_md: Tensor) -> Tensor:
    """What judges each model, summed over the samples of each class, [m, classes]: how many it gets
    right, or its losses."""

    def judged(X_md: Tensor, some: Samples) -> Tensor:
        return world.task.judge(world.learner.scores(X_md, some.x), some.y) @ some.classes

    return _summed_over(samples, world, X_md, judged)


def _summed_over(
    samples: Samples, world: World, X_md: Tensor, score: Callable[[Tensor, Samples], Tensor]
) -> Tensor:
    """The sum of a score over the samples for each model, in portions that fit in memory."""
    pairs = max(1, memory(world) // bytes_of_a_score(world))
    portion = min(len(samples), pairs)
    models = max(1, pairs // portion)
    portions = [samples[i : i + portion] for i in range(0, len(samples), portion)]
    found = []
    for first in range(0, len(X_md), models):
        part = X_md[first : first + models]
        with arithmetic(world.experiment.training.precision):
            scores = [score(part, some) for some in portions]
        found.append(torch.stack(scores).sum(dim=0))
    return torch.cat(found)


@dataclass(frozen=True)
class DeviceScores:
    """How what judges every device is weighed over the classes of the test set."""

    world: World

    @cached_property
    def _samples(self) -> Samples:
        return samples_for_devices(self.world)

    @cached_property
    def _test_counts(self) -> Tensor:
        return self._samples.classes.sum(dim=0)

    @cached_property
    def _own_weights(self) -> Tensor:
        """Row i: device i's own label mix, over the classes that the test set has."""
        mix = self._labels * (self._test_counts > 0)
        return mix / mix.sum(dim=1, keepdim=True)

    @cached_property
    def _component_weights(self) -> Tensor:
        """Row i: the test set restricted to the classes that i's component holds."""
        world = self.world
        held = self._labels.new_zeros(len(world.sizes), world.dataset.strata_count)
        held.index_add_(0, world.island_n, self._labels)
        weights = ((held > 0) * self._test_counts)[world.island_n]
        return weights / weights.sum(dim=1, keepdim=True)

    @cached_property
    def _labels(self) -> Tensor:
        counts = torch.from_numpy(self.world.partition.label_counts)
        return counts.to(self.world.device, self.world.dtype)

    @cached_property
    def _own_tests(self) -> OwnTests:
        return OwnTests(self.world)

    def score(self, X_nld: Tensor, alike: bool = False) -> ByDevice:
        """Every device's own model, for every lane. Where all are alike, one is enough to score.
        A rank scores the devices that it holds, and is told of the others."""
        party = self.world.party
        n, lanes, d = X_nld.shape
        scored = X_nld[0, :1] if alike else X_nld.reshape(n * lanes, d)
        judged = judged_by_class(self._samples, self.world, scored)
        judged = judged.expand(n * lanes, -1).view(n, lanes, -1)
        unit = 100 if self.world.task.in_percent else 1
        by_class = unit * judged / self._test_counts.clamp(min=1)
        device_nl = unit * judged.sum(dim=2) / len(self._samples)
        mixed_nl = torch.einsum("nlc,nc->nl", by_class, self._own_weights[party.devices])
        own_nl = self._own_tests.judged(X_nld, mixed_nl)
        weights = self._component_weights[party.devices]
        component_nl = torch.einsum("nlc,nc->nl", by_class, weights)
        found = map(party.gathered, (device_nl, own_nl, component_nl))
        return ByDevice(self.world.task.judged_by, *found)

    def measure(self, found: ByDevice) -> dict[str, Tensor]:
        """What devices score, summed up for every lane."""
        what, device_nl, own_nl = found.judged_by, found.device_nl, found.own_nl
        data_n = self._labels.sum(dim=1)
        return {
            f"device_{what}": device_nl.mean(dim=0),
            f"device_{what}_std": device_nl.std(dim=0, correction=0),
            f"device_{what}_min": device_nl.amin(dim=0),
            f"device_{what}_max": device_nl.amax(dim=0),
            f"own_{what}": own_nl.mean(dim=0),
            f"own_{what}_weighted": (data_n / data_n.sum()) @ own_nl,
            f"component_{what}": found.component_nl.mean(dim=0),
        }
