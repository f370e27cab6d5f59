"""Minibatches as training indices, drawn anew from (seed, round, local step): there is no state.

A sampling is built as `(partition, batch, seed)` and asked for `indices(t, step, steps)`: the
[n, batch] training indices that the devices use in local step `step` of `steps` in round `t`.
Those here give the rows of some neighbours, too, in about the time that these alone need.
"""

import numpy as np

from skerry.data.partition import Partition
from skerry.data.quick_draws import Below
from skerry.data.shares import Ints
from skerry.seeds import stream


class WithReplacement:
    """Each device draws independently and uniformly from its own samples."""

    stream = "batches"
    """Its name; on a GPU, `kernels/draws.py` draws the same from it."""

    def __init__(self, partition: Partition, batch: int, seed: int):
        self._order = partition.order
        self._first = partition.offsets[:-1, np.newaxis]
        self._below = Below(partition.sizes, batch)
        self._batch, self._seed = batch, seed

    def indices(self, t: int, step: int, steps: int, devices: slice = slice(None)) -> Ints:
        start, stop, _ = devices.indices(len(self._first))
        found = np.repeat(self._order[self._first[start:stop]], self._batch, axis=1)
        for some, numbers in self._below.draw(
            stream(self._seed, self.stream, t, step), start, stop
        ):
            numbers += self._first[some]
            found[some - start] = self._order[numbers]
        return found


class ShuffledEpochs:
    """Each device walks through its samples in shuffled epochs, one permutation after another;
    a batch may span the end of one and the beginning of the next."""

    def __init__(self, partition: Partition, batch: int, seed: int):
        self._partition = partition
        self._batch = batch
        self._seed = seed
        # Where each device is: it saves drawing again what the next batch continues.
        self._current: dict[int, tuple[int, Ints]] = {}

    def indices(self, t: int, step: int, steps: int, devices: slice = slice(None)) -> Ints:
        start = (t * steps + step) * self._batch
        places = np.arange(start, start + self._batch)
        asked = range(len(self._partition.sizes))[devices]
        return np.stack([self._walk(device, places) for device in asked])

    def _walk(self, device: int, places: Ints) -> Ints:
        samples = self._partition.indices(device)
        length = _epochs_per_stretch(len(samples)) * len(samples)
        first, last = int(places[0]) // length, int(places[-1]) // length
        path = np.concatenate([self._stretch(device, s) for s in range(first, last + 1)])
        visited: Ints = samples[path[places - first * length]]
        return visited

    def _stretch(self, device: int, number: int) -> Ints:
        """Some epochs in a row: one permutation of the device's samples after another."""
        known, path = self._current.get(device, (-1, None))
        if path is None or known != number:
            size = int(self._partition.sizes[device])
            epochs = np.tile(np.arange(size), (_epochs_per_stretch(size), 1))
            rng = stream(self._seed, "epochs", device, number)
            path = rng.permuted(epochs, axis=1).ravel()
            self._current[device] = number, path
        return path


def _epochs_per_stretch(size: int) -> int:
    """Epochs that come from one stream: a device with few samples would else need many."""
    return -(-1024 // size)
