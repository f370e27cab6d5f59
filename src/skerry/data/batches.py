"""Minibatches as training indices, drawn from (seed, round, local step) without any state.

A sampling is built as `(partition, batch)` and called as `indices(t, step, steps)`: the
[n, batch] training indices that the devices use in local step `step` of `steps` in round `t`. The
built-in ones take a slice of devices, too, and give their rows alone in about as much less time.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skerry.data.holdings import Ints
from skerry.data.partition import Partition
from skerry.plugins.context import Context
from skerry.seeds import stream

DRAWS_AT_ONCE = 2**15
"""Draws that are taken together: they stay in the cache."""
LARGEST_QUICK = 2**22
"""A device with more samples would reject so many draws that numpy is quicker."""


class WithReplacement:
    """Each device draws independently and uniformly from its own samples."""

    stream = "batches"
    """Name of the random stream; on a GPU, `kernels/draws.py` draws the same from it."""

    def __init__(self, partition: Partition, batch: int, context: Context):
        self._order = partition.order
        self._first = partition.offsets[:-1, np.newaxis]
        self._below = BoundedDraws(partition.sizes, batch)
        self._batch, self._seed = batch, context.seed

    def indices(self, t: int, step: int, steps: int, devices: slice = slice(None)) -> Ints:
        """Training indices [n, batch] of local step `step` of `steps` in round t."""
        start, stop, _ = devices.indices(len(self._first))
        indices = np.repeat(self._order[self._first[start:stop]], self._batch, axis=1)
        for some, numbers in self._below.draw(
            stream(self._seed, self.stream, t, step), start, stop
        ):
            numbers += self._first[some]
            indices[some - start] = self._order[numbers]
        return indices


class ShuffledEpochs:
    """Each device goes through its samples in shuffled epochs, one permutation after another; a
    batch may span the end of one and the beginning of the next."""

    def __init__(self, partition: Partition, batch: int, context: Context):
        self._partition = partition
        self._batch = batch
        self._seed = context.seed
        # The latest stretch of each device: the next batch usually continues it.
        self._current: dict[int, tuple[int, Ints]] = {}

    def indices(self, t: int, step: int, steps: int, devices: slice = slice(None)) -> Ints:
        """Training indices [n, batch] of local step `step` of `steps` in round t."""
        start = (t * steps + step) * self._batch
        positions = np.arange(start, start + self._batch)
        numbers = range(len(self._partition.sizes))[devices]
        return np.stack([self._walk(device, positions) for device in numbers])

    def _walk(self, device: int, positions: Ints) -> Ints:
        samples = self._partition.indices(device)
        length = _epochs_per_stretch(len(samples)) * len(samples)
        first, last = int(positions[0]) // length, int(positions[-1]) // length
        path = np.concatenate([self._stretch(device, s) for s in range(first, last + 1)])
        visited: Ints = samples[path[positions - first * length]]
        return visited

    def _stretch(self, device: int, number: int) -> Ints:
        """Several epochs in a row: one permutation of the device's samples after another."""
        known, path = self._current.get(device, (-1, None))
        if path is None or known != number:
            size = int(self._partition.sizes[device])
            epochs = np.tile(np.arange(size), (_epochs_per_stretch(size), 1))
            rng = stream(self._seed, "epochs", device, number)
            path = rng.permuted(epochs, axis=1).ravel()
            self._current[device] = number, path
        return path


def _epochs_per_stretch(size: int) -> int:
    """Epochs that come from one stream, so that devices with few samples do not need many."""
    return -(-1024 // size)


class BoundedDraws:
    """The numbers of `Generator.integers(0, sizes[:, None], (n, batch))` to the bit, but faster.

    numpy makes one number after the other, which takes several times as long as the random words
    behind them. Each word gives two draws of 32 bits, the low half first. A number below `size` is
    `(draw * size) >> 32`, unless the product's low half is below 2^32 mod `size`: then that draw is
    rejected and the next one takes its place, so that all later ones move on by one (Lemire, 2019).
    A range of one number takes no draw at all.

    Where the draws of a device begin depends on how many were rejected before. So the draws of
    earlier devices cannot be left out: they are made and checked for rejection, but not used.
    """

    def __init__(self, sizes: Ints, batch: int):
        self._sizes, self._batch = sizes[:, np.newaxis], batch
        self._rejecting = (2**32 % self._sizes).astype(np.uint32)
        self._short = self._sizes.astype(np.uint32)
        self._is_quick = bool(sizes.max() <= LARGEST_QUICK)

    def draw(self, rng: np.random.Generator, start: int, stop: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield device numbers from `start` to `stop` and a row of numbers for each, a few devices
        at a time, from the beginning of a stream. Devices with one sample are left out."""
        if not self._is_quick:
            all_numbers = rng.integers(0, self._sizes, (len(self._sizes), self._batch))
            yield np.arange(start, stop), all_numbers[start:stop]
            return
        halves = _Halves(rng)
        for some in self._in_chunks(0, start):
            self._accepted(halves, some)
        for some in self._in_chunks(start, stop):
            numbers = self._accepted(halves, some).astype(np.int64)
            numbers *= self._sizes[some]
            numbers >>= 32
            yield some, numbers

    def _in_chunks(self, start: int, stop: int) -> Iterator[Ints]:
        """The devices that have more than one sample, a few at a time."""
        drawing = start + np.flatnonzero(self._sizes[start:stop] > 1)
        few = max(1, DRAWS_AT_ONCE // self._batch)
        for first in range(0, len(drawing), few):
            yield drawing[first : first + few]

    def _accepted(self, halves: "_Halves", devices: Ints) -> NDArray[np.uint32]:
        """The accepted draws of these devices, a row each."""
        sizes, rejecting = self._short[devices], self._rejecting[devices]
        drawn = halves.take(len(devices) * self._batch).reshape(len(devices), self._batch)
        while (rejected := drawn * sizes < rejecting).any():  # the product's low half
            kept = np.delete(drawn, np.flatnonzero(rejected)[0])
            drawn = np.append(kept, halves.take(1)).reshape(drawn.shape)
        return drawn


class _Halves:
    """The 32-bit halves of a stream's words, in order."""

    def __init__(self, rng: np.random.Generator):
        self._words = rng.bit_generator
        self._left = np.empty(0, dtype=np.uint32)
        """The upper half of the last word, if only its lower one was taken."""

    def take(self, count: int) -> NDArray[np.uint32]:
        lacking = count - len(self._left)
        words = np.asarray(self._words.random_raw(-(-lacking // 2)), dtype="<u8")
        halves = words.view(np.uint32)
        if len(self._left):
            halves = np.concatenate([self._left, halves])
        self._left = halves[count:].copy()
        return halves[:count]
