"""Who knows what: accuracies of the average model and of each device, from per-class counts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels import fused
from skerry.kernels.precision import arithmetic
from skerry.models.loss import cross_entropy

MEMORY = {"cpu": 2**28, "cuda": 2**32}
"""Bytes that scoring models on test samples may take at once."""


def average_model(world: World, average_ld: Tensor) -> dict[str, Tensor]:
    """The average model on the global test set, for every lane: its loss (a classifier's is the
    cross-entropy) and, if it classifies, its accuracy."""
    count, learner = len(world.y_test), world.learner
    if not learner.classifies:

        def summed(X_md: Tensor, some: slice) -> Tensor:
            y = world.y_test[some]
            return learner.test_loss(X_md, world.x_test[some], y) * len(y)

        return {"average_loss": _over_test_set(world, average_ld, summed) / count}

    def loss_and_correct(X_md: Tensor, some: slice) -> Tensor:
        y = world.y_test[some]
        scores = learner.scores(X_md, world.x_test[some])
        right = (_guesses(scores) == y).sum(dim=1)
        return torch.stack([cross_entropy(scores, y) * len(y), right.to(X_md.dtype)], dim=1)

    loss_l, correct_l = _over_test_set(world, average_ld, loss_and_correct).T
    return {"average_loss": loss_l / count, "average_accuracy": 100 * correct_l / count}


def correct_by_class(world: World, X_md: Tensor) -> Tensor:
    """Test samples of each class that each model gets right, [m, classes]."""

    def correct(X_md: Tensor, some: slice) -> Tensor:
        guess = _guesses(world.learner.scores(X_md, world.x_test[some]))
        return (guess == world.y_test[some]).to(X_md.dtype) @ world.test_classes[some]

    return _over_test_set(world, X_md, correct)


def _guesses(scores_mnc: Tensor) -> Tensor:
    """The class with the highest score, [m, N]."""
    if fused.runs_on(scores_mnc):
        from skerry.kernels.softmax import guesses

        return guesses(scores_mnc.mT)
    # max(...).indices, because argmax over a strided dimension is ten times slower on a CPU.
    return scores_mnc.max(dim=2).indices


def _over_test_set(world: World, X_md: Tensor, score: Callable[[Tensor, slice], Tensor]) -> Tensor:
    """The sum of a score over all test samples for each model, in portions that fit in memory."""
    each = world.learner.bytes_per_device(1, 2) - world.learner.bytes_per_device(1, 1)
    pairs = max(1, MEMORY.get(world.device.type, 2**28) // max(1, each))
    samples = min(len(world.y_test), pairs)
    models = max(1, pairs // samples)
    portions = [slice(i, i + samples) for i in range(0, len(world.y_test), samples)]
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
    def _test_counts(self) -> Tensor:
        counts = torch.bincount(self.world.y_test, minlength=self.world.dataset.classes)
        return counts.to(self.world.dtype)

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
        correct = correct_by_class(self.world, scored).expand(n * lanes, -1).view(n, lanes, -1)
        by_class = 100 * correct / self._test_counts.clamp(min=1)
        device_nl = 100 * correct.sum(dim=2) / len(self.world.y_test)
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
