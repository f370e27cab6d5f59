"""Who knows what: accuracies of the average model and of each device, from per-class counts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels import fused
from skerry.kernels.precision import arithmetic
from skerry.models.loss import cross_entropy
from skerry.seeds import stream

MEMORY = {"cpu": 2**28, "cuda": 2**32}
"""Bytes that scoring models on test samples may take at once."""


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
    y = world.y_test.cpu().numpy()[shuffled]
    within = np.argsort(y, kind="stable")
    counts = np.bincount(y)
    place = np.empty(len(y))
    for numbers in np.split(within, np.cumsum(counts)[:-1]):
        # A class's first sample comes before the second of any other, whatever their sizes.
        place[numbers] = np.arange(len(numbers)) / max(1, len(numbers))
    chosen = np.sort(shuffled[np.argsort(place, kind="stable")[:wanted]])
    return everything[torch.from_numpy(chosen).to(world.device)]


def average_model(world: World, average_ld: Tensor) -> dict[str, Tensor]:
    """The average model on the global test set, for every lane: its loss (a classifier's is the
    cross-entropy) and, if it classifies, its accuracy."""
    samples, learner = all_samples(world), world.learner
    count = len(samples)
    if not learner.classifies:

        def summed(X_md: Tensor, some: Samples) -> Tensor:
            return learner.test_loss(X_md, some.x, some.y) * len(some)

        return {"average_loss": _summed_over(samples, world, average_ld, summed) / count}

    def loss_and_correct(X_md: Tensor, some: Samples) -> Tensor:
        scores = learner.scores(X_md, some.x)
        right = (_guesses(scores) == some.y).sum(dim=1)
        loss = cross_entropy(scores, some.y) * len(some)
        return torch.stack([loss, right.to(X_md.dtype)], dim=1)

    loss_l, correct_l = _summed_over(samples, world, average_ld, loss_and_correct).T
    return {"average_loss": loss_l / count, "average_accuracy": 100 * correct_l / count}


def correct_by_class(samples: Samples, world: World, X_md: Tensor) -> Tensor:
    """Samples of each class that each model gets right, [m, classes]."""

    def correct(X_md: Tensor, some: Samples) -> Tensor:
        guess = _guesses(world.learner.scores(X_md, some.x))
        return (guess == some.y).to(X_md.dtype) @ some.classes

    return _summed_over(samples, world, X_md, correct)


def _guesses(scores_mnc: Tensor) -> Tensor:
    """The class with the highest score, [m, N]."""
    if fused.runs_on(scores_mnc):
        from skerry.kernels.softmax import guesses

        return guesses(scores_mnc.mT)
    # max(...).indices, because argmax over a strided dimension is ten times slower on a CPU.
    return scores_mnc.max(dim=2).indices


def _summed_over(
    samples: Samples, world: World, X_md: Tensor, score: Callable[[Tensor, Samples], Tensor]
) -> Tensor:
    """The sum of a score over the samples for each model, in portions that fit in memory."""
    each = world.learner.bytes_per_device(1, 2) - world.learner.bytes_per_device(1, 1)
    pairs = max(1, MEMORY.get(world.device.type, 2**28) // max(1, each))
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
    """How the accuracy of every device is weighed over the classes of the test set."""

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
        component = torch.from_numpy(world.fleet.component_of).to(world.device)
        held = self._labels.new_zeros(len(world.sizes), world.dataset.classes)
        held.index_add_(0, component, self._labels)
        weights = ((held > 0) * self._test_counts)[component]
        return weights / weights.sum(dim=1, keepdim=True)

    @cached_property
    def _labels(self) -> Tensor:
        counts = torch.from_numpy(self.world.partition.label_counts)
        return counts.to(self.world.device, self.world.dtype)

    def measure(self, X_nld: Tensor, alike: bool = False) -> dict[str, Tensor]:
        """Every device's own model, for every lane. Where all are alike, one is enough to score."""
        n, lanes, d = X_nld.shape
        scored = X_nld[0, :1] if alike else X_nld.reshape(n * lanes, d)
        correct = correct_by_class(self._samples, self.world, scored)
        correct = correct.expand(n * lanes, -1).view(n, lanes, -1)
        by_class = 100 * correct / self._test_counts.clamp(min=1)
        device_nl = 100 * correct.sum(dim=2) / len(self._samples)
        own_nl = torch.einsum("nlc,nc->nl", by_class, self._own_weights)
        component_nl = torch.einsum("nlc,nc->nl", by_class, self._component_weights)
        data_n = self._labels.sum(dim=1)
        return {
            "device_accuracy": device_nl.mean(dim=0),
            "device_accuracy_std": device_nl.std(dim=0, correction=0),
            "device_accuracy_min": device_nl.amin(dim=0),
            "device_accuracy_max": device_nl.amax(dim=0),
            "own_accuracy": own_nl.mean(dim=0),
            "own_accuracy_weighted": (data_n / data_n.sum()) @ own_nl,
            "component_accuracy": component_nl.mean(dim=0),
        }
