"""Whole numbers below the sizes of many devices: numpy's, to the bit, drawn many at a time.

`Generator.integers(0, sizes, (n, batch))` makes one number after the other, which takes several
times as long as the random words behind them. These are taken in bulk here. Each gives two draws of
32 bits, the low half first. A number below `size` is `(draw * size) >> 32`, unless the product's
low half is below 2^32 mod `size`: then that draw is rejected and the next one takes its place, so
that all later ones move on by one (Lemire, 2019). A range of one number takes no draw at all.

Where the draws of a device begin depends on how many were rejected before, which nobody knows
without drawing. So those of earlier devices are passed over, not left out: they are drawn and held
against their sizes, and nothing is made of them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skerry.data.shares import Ints

AT_ONCE = 2**15
"""Draws that are taken together: they stay in the cache."""
LARGEST = 2**22
"""A device with more samples would reject so many draws that numpy is quicker."""


class Below:
    """The numbers of `Generator.integers(0, sizes[:, None], (n, batch))`."""

    def __init__(self, sizes: Ints, batch: int):
        self._sizes, self._batch = sizes[:, np.newaxis], batch
        self._rejecting = (2**32 % self._sizes).astype(np.uint32)
        self._short = self._sizes.astype(np.uint32)
        self._is_quick = bool(sizes.max() <= LARGEST)

    def draw(self, rng: np.random.Generator, start: int, stop: int) -> Iterator[tuple[Ints, Ints]]:
        """From a stream's beginning: some of the devices from `start` to `stop`, and a row of
        numbers for each, until all have theirs. Who has one sample only has nothing to draw."""
        if not self._is_quick:
            everybodys = rng.integers(0, self._sizes, (len(self._sizes), self._batch))
            yield np.arange(start, stop), everybodys[start:stop]
            return
        halves = _Halves(rng)
        for some in self._in_turn(0, start):
            self._accepted(halves, some)
        for some in self._in_turn(start, stop):
            numbers = self._accepted(halves, some).astype(np.int64)
            numbers *= self._sizes[some]
            numbers >>= 32
            yield some, numbers

    def _in_turn(self, start: int, stop: int) -> Iterator[Ints]:
        """Those devices that have something to choose, a few at a time."""
        drawing = start + np.flatnonzero(self._sizes[start:stop] > 1)
        few = max(1, AT_ONCE // self._batch)
        for first in range(0, len(drawing), few):
            yield drawing[first : first + few]

    def _accepted(self, halves: "_Halves", devices: Ints) -> NDArray[np.uint32]:
        """The draws that these devices' numbers are made of, a row each."""
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
        """The upper half of the last word, where only its lower one was taken."""

    def take(self, count: int) -> NDArray[np.uint32]:
        lacking = count - len(self._left)
        words = np.asarray(self._words.random_raw(-(-lacking // 2)), dtype="<u8")
        halves = words.view(np.uint32)
        if len(self._left):
            halves = np.concatenate([self._left, halves])
        self._left = halves[count:].copy()
        return halves[:count]
