"""Scores of models on test samples: the average model, and sums by class for any models.

A task judges by accuracy where models classify, else by loss. Classes are labels, or the strata
that stand for labels where there are none (`data/dataset.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels.precision import arithmetic
from skerry.seeds import stream

MEMORY = {"cpu": 2**28, "cuda": 2**32}  # bytes that scoring models on test samples may take at once
JUDGED = 5  # bytes of a prediction and of whether it is right, beside the outputs it was made from


def scoring_memory(world: World) -> int:
    """Bytes that scoring may take at once on the compute device of a world."""
    return MEMORY.get(world.device.type, 2**28)


def bytes_per_score(world: World) -> int:
    """An upper bound on the bytes for one model on one more sample: those of a local step."""
    learner = world.learner
    return max(1, learner.bytes_per_device(1, 2) - learner.bytes_per_device(1, 1))


def measured_bytes_per_score(world: World) -> int | None:
    """The bytes that one score takes on a GPU, where the learner knows them; else None."""
    known: int | None = getattr(world.learner, "score_bytes", None)
    return None if known is None else known + JUDGED


@dataclass(frozen=True)
class Samples:
    """Test samples to score on."""

    x: Tensor
    y: Tensor
    classes: Tensor  # the labels as [N, classes] of zeros and ones

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, some: slice | Tensor) -> "Samples":
        return Samples(self.x[some], self.y[some], self.classes[some])


def all_samples(world: World) -> Samples:
    """The global test set."""
    return Samples(world.x_test, world.y_test, world.test_classes)


def samples_for_devices(world: World) -> Samples:
    """The `evaluate.device_samples` test samples of devices, with classes in their shares."""
    wanted, everything = world.experiment.evaluate.device_samples, all_samples(world)
    if wanted is None or wanted >= len(everything):
        return everything
    shuffled = stream(world.experiment.seed, "device samples").permutation(len(everything))
    y = world.dataset.strata("test")[shuffled]
    counts, place = np.bincount(y), np.empty(len(y))
    number = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    # A class's first sample comes before the second of any other, whatever their sizes.
    place[np.argsort(y, kind="stable")] = number / np.repeat(counts, counts)
    chosen = np.sort(shuffled[np.argsort(place, kind="stable")[:wanted]])
    return everything[torch.from_numpy(chosen).to(world.device)]


def average_model(world: World, average_ld: Tensor) -> dict[str, Tensor]:
    """Measures of the average model of every lane on the global test set, [L] each. These are the
    loss and what else the task measures; only the loss for a learner without scores."""
    samples, learner, task = all_samples(world), world.learner, world.task
    count = len(samples)
    if not learner.classifies:

        def sum_losses(X_md: Tensor, some: Samples) -> Tensor:
            return learner.test_loss(X_md, some.x, some.y) * len(some)

        return {"average_loss": _sum_over(samples, world, average_ld, sum_losses) / count}

    names: list[str] = []

    def sums(X_md: Tensor, some: Samples) -> Tensor:
        found = task.sums(learner.scores(X_md, some.x), some.y)
        names[:] = found
        return torch.stack([*found.values()], dim=1)

    sums_ql = _sum_over(samples, world, average_ld, sums).T
    measured = task.measures(dict(zip(names, sums_ql, strict=True)), samples.y)
    return {f"average_{name}": values_l for name, values_l in measured.items()}


def judge_by_class(samples: Samples, world: World, X_md: Tensor) -> Tensor:
    """Right predictions or losses of each model, summed over the samples of each class, [m, C]."""

    def judge(X_md: Tensor, some: Samples) -> Tensor:
        return world.task.judge(world.learner.scores(X_md, some.x), some.y) @ some.classes

    return _sum_over(samples, world, X_md, judge)


def _sum_over(
    samples: Samples, world: World, X_md: Tensor, score: Callable[[Tensor, Samples], Tensor]
) -> Tensor:
    """The sum of a score over the samples for each model, in portions that fit in memory."""
    pairs = max(1, scoring_memory(world) // bytes_per_score(world))
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
