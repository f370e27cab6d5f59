"""Scores of every device's own model: on common test samples, on its own, and on its island's."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.kernels.precision import arithmetic
from skerry.measure.accuracy import (
    Samples,
    bytes_per_score,
    judge_by_class,
    samples_for_devices,
    scoring_memory,
)
from skerry.models.learner import scores_by_device, scores_devices_at_once

TENTH = 0.1
SMALL_TEST = 8  # with at most so many test samples, devices are scored together
LARGER = 1.25
"""Above that, the ratio of the largest test set to the smallest one that is scored with it. At most
a fifth of the computation is then padding."""

DeviceTable = dict[str, list[Any]]
"""Columns with a value for each device: device, island, samples, own_tests (its own test samples;
0: its own score is by its label mix), and its scores."""


@dataclass(frozen=True)
class ScoresByDevice:
    """The scores of every device in one evaluation, by accuracy or loss, [n, L] each."""

    judged_by: Literal["accuracy", "loss"]
    device_nl: Tensor  # on the test samples that all devices are scored on
    own_nl: Tensor  # on its own test samples; without any, the score by its label mix
    island_nl: Tensor  # on the classes that its island holds
    mix_nl: Tensor  # on common test samples, weighted by its label mix

    def fairness(self, island_n: Tensor) -> dict[str, Tensor]:
        """Means of the worst and best tenth of devices, and the gap between islands, [L] each."""
        what, own_nl = self.judged_by, self.own_nl
        ranked_nl = own_nl.sort(dim=0, descending=what == "loss").values
        tenth = max(1, ceil(TENTH * len(ranked_nl)))
        islands = int(island_n.max()) + 1
        means_cl = own_nl.new_zeros(islands, own_nl.shape[1]).index_add_(0, island_n, own_nl)
        means_cl /= torch.bincount(island_n, minlength=islands).unsqueeze(1)
        return {
            f"own_{what}_worst_tenth": ranked_nl[:tenth].mean(dim=0),
            f"own_{what}_best_tenth": ranked_nl[-tenth:].mean(dim=0),
            f"own_{what}_island_gap": means_cl.amax(dim=0) - means_cl.amin(dim=0),
        }

    def tables(self, world: World, keys: tuple[str, ...]) -> dict[str, DeviceTable]:
        """By the key of each lane, a table with a row for every device."""
        own = world.partition.own_tests
        known: DeviceTable = {
            "device": list(world.fleet.labels),
            "island": list(world.islands),
            "samples": world.partition.sizes.tolist(),
            "own_tests": [0] * world.n if own is None else own.sizes.tolist(),
        }
        scored = {f"own_{self.judged_by}": self.own_nl, f"device_{self.judged_by}": self.device_nl}
        # With the seven digits of single precision.
        scores = {
            name: [[float(f"{value:.7g}") for value in row] for row in values_nl.T.tolist()]
            for name, values_nl in scored.items()
        }
        return {
            key: known | {name: rows[lane] for name, rows in scores.items()}
            for lane, key in enumerate(keys)
        }


@dataclass(frozen=True)
class DeviceScorer:
    """Scores the devices of a world, with weights over the classes of the test set."""

    world: World

    @cached_property
    def _samples(self) -> Samples:
        return samples_for_devices(self.world)

    @cached_property
    def _test_counts(self) -> Tensor:
        return self._samples.classes.sum(dim=0)

    @cached_property
    def _own_weights(self) -> Tensor:
        """Row i: the label mix of device i, over the classes that the test set has."""
        mix = self._labels * (self._test_counts > 0)
        return mix / mix.sum(dim=1, keepdim=True)

    @cached_property
    def _island_weights(self) -> Tensor:
        """Row i: the test set restricted to the classes that the island of device i holds."""
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
    def _own_tests(self) -> "OwnTests":
        return OwnTests(self.world)

    def score(self, X_nld: Tensor, alike: bool = False) -> ScoresByDevice:
        """Scores of the devices' models in every lane. With `alike`, all models are equal and one
        is scored. A rank scores the devices that it holds and receives the scores of the others."""
        ranks = self.world.ranks
        n, lanes, d = X_nld.shape
        scored = X_nld[0, :1] if alike else X_nld.reshape(n * lanes, d)
        judged = judge_by_class(self._samples, self.world, scored)
        judged = judged.expand(n * lanes, -1).view(n, lanes, -1)
        unit = 100 if self.world.task.in_percent else 1
        by_class = unit * judged / self._test_counts.clamp(min=1)
        device_nl = unit * judged.sum(dim=2) / len(self._samples)
        mixed_nl = torch.einsum("nlc,nc->nl", by_class, self._own_weights[ranks.devices])
        own_nl = self._own_tests.score(X_nld, mixed_nl)
        island_nl = torch.einsum("nlc,nc->nl", by_class, self._island_weights[ranks.devices])
        gathered = map(ranks.gather_rows, (device_nl, own_nl, island_nl, mixed_nl))
        return ScoresByDevice(self.world.task.judged_by, *gathered)

    def measure(self, scores: ScoresByDevice) -> dict[str, Tensor]:
        """Summaries of the scores over all devices, [L] each."""
        what, device_nl, own_nl = scores.judged_by, scores.device_nl, scores.own_nl
        data_n = self._labels.sum(dim=1)
        return {
            f"device_{what}": device_nl.mean(dim=0),
            f"device_{what}_std": device_nl.std(dim=0, correction=0),
            f"device_{what}_min": device_nl.amin(dim=0),
            f"device_{what}_max": device_nl.amax(dim=0),
            f"own_{what}": own_nl.mean(dim=0),
            f"own_{what}_weighted": (data_n / data_n.sum()) @ own_nl,
            f"component_{what}": scores.island_nl.mean(dim=0),
            f"label_mix_{what}": scores.mix_nl.mean(dim=0),
        }


@dataclass(frozen=True)
class DeviceBatch:
    """Devices that are scored at once, each padded to the samples of the largest of them."""

    devices: Tensor
    rows: Tensor  # places of each device's samples, [devices, most]; the last one pads
    is_own: Tensor  # which of them are samples and not padding

    def portions(self, most: int) -> Iterator["DeviceBatch"]:
        """Split the batch into portions with at most `most` samples of each device."""
        for first in range(0, self.rows.shape[1], most):
            some = slice(first, first + most)
            yield DeviceBatch(self.devices, self.rows[:, some], self.is_own[:, some])


@dataclass(frozen=True)
class OwnTests:
    """Scores every device's model on its own test samples, where it has some. Devices with about as
    many samples share one call of the learner: with thousands of devices, one call for each would
    take most of a run."""

    world: World
    _by_lanes: dict[int, list[DeviceBatch]] = field(default_factory=dict)

    def score(self, X_nld: Tensor, otherwise_nl: Tensor) -> Tensor:
        """Accuracy or loss, [n, L]; `otherwise_nl` for devices without test samples."""
        world, lanes = self.world, X_nld.shape[1]
        if world.partition.own_tests is None:
            return otherwise_nl
        if lanes not in self._by_lanes:
            self._by_lanes[lanes] = list(self._batches(lanes))
        found_nl = otherwise_nl.clone()
        unit = 100 if world.task.in_percent else 1
        most = max(1, scoring_memory(world) // (lanes * bytes_per_score(world)))
        with arithmetic(world.experiment.training.precision):
            for batch in self._by_lanes[lanes]:
                X_gld = X_nld[batch.devices]
                parts = [self._sum(X_gld, portion) for portion in batch.portions(most)]
                count_g1 = batch.is_own.sum(dim=1, keepdim=True)
                found_nl[batch.devices] = unit * (torch.stack(parts).sum(dim=0) / count_g1)
        return found_nl

    def _sum(self, X_gld: Tensor, batch: DeviceBatch) -> Tensor:
        """Right predictions or losses of every model, summed over its own samples, [g, L]."""
        world = self.world
        outputs_gln = scores_by_device(world.learner, X_gld, world.x_own[batch.rows])
        g, lanes, size = outputs_gln.shape[:3]
        # To a task, the samples of all these devices are one row.
        outputs_lm = outputs_gln.transpose(0, 1).reshape(lanes, g * size, *outputs_gln.shape[3:])
        judged_lm = world.task.judge(outputs_lm, world.y_own[batch.rows].flatten(0, 1))
        judged_lgn = judged_lm.view(lanes, g, size)
        return judged_lgn.where(batch.is_own, judged_lgn.new_zeros(())).sum(dim=2).T

    def _batches(self, lanes: int) -> Iterator[DeviceBatch]:
        """The local devices with test samples, sorted by their number, as many as fit at once."""
        own, world = self.world.partition.own_tests, self.world
        assert own is not None
        at_once = scores_devices_at_once(world.learner)
        here = range(world.n)[world.ranks.devices]
        holders = here.start + own.sizes[here.start : here.stop].nonzero()[0]
        holders = holders[np.argsort(own.sizes[holders], kind="stable")]
        sizes, start = own.sizes[holders], 0
        while start < len(holders):
            alike = start + 1
            if at_once:
                limit = max(SMALL_TEST, LARGER * sizes[start])
                alike = int(np.searchsorted(sizes, limit, "right"))
            each = lanes * (int(sizes[alike - 1]) * bytes_per_score(world) + 4 * world.learner.d)
            end = min(alike, start + max(1, scoring_memory(world) // each))
            devices, size_g1 = holders[start:end], sizes[start:end, np.newaxis]
            place = np.arange(sizes[end - 1])
            rows = own.order[own.offsets[devices, np.newaxis] + np.minimum(place, size_g1 - 1)]
            arrays = (devices - here.start, rows, place < size_g1)
            yield DeviceBatch(*(torch.from_numpy(array).to(world.device) for array in arrays))
            start = end
