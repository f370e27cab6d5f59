"""Minibatches as training indices, drawn anew from (seed, round, local step): there is no state.

A sampling is built as `(partition, batch, seed)` and asked for `indices(t, step, steps)`: the
[n, batch] training indices that the devices use in local step `step` of `steps` in round `t`.
"""

import numpy as np

from skerry.data.partition import Partition
from skerry.data.shares import Ints
from skerry.seeds import stream


class WithReplacement:
    """Each device draws independently and uniformly from its own samples."""

    stream = "batches"
    """Its name; on a GPU, `kernels/draws.py` draws the same from it."""

    def __init__(self, partition: Partition, batch: int, seed: int):
        self._order = partition.order
        self._first = partition.offsets[:-1, np.newaxis]
        self._sizes = partition.sizes[:, np.newaxis]
        self._shape = (len(partition.sizes), batch)
        self._seed = seed

    def indices(self, t: int, step: int, steps: int) -> Ints:
        rng = stream(self._seed, self.stream, t, step)
        places: Ints = self._first + rng.integers(0, self._sizes, size=self._shape)
        return self._order[places]


class ShuffledEpochs:
    """Each device walks through its samples in shuffled epochs, one permutation after another;
    a batch may span the end of one and the beginning of the next."""

    def __init__(self, partition: Partition, batch: int, seed: int):
        self._partition = partition
        self._batch = batch
        self._seed = seed
        # Where each device is: it saves drawing again what the next batch continues.
        self._current: dict[int, tuple[int, Ints]] = {}

    def indices(self, t: int, step: int, steps: int) -> Ints:
        start = (t * steps + step) * self._batch
        places = np.arange(start, start + self._batch)
        devices = range(len(self._partition.sizes))
        return np.stack([self._walk(device, places) for device in devices])

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
