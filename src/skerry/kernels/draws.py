"""Draws on a GPU, the same to the bit as numpy's on the host.

numpy's Philox is counter-based: block c of a stream is a function of its key and of c alone, four
words of 64 bits, each of which gives two draws of 32 bits, the low half first. A whole number
below `size` is `(draw * size) >> 32`, unless the product's low half is below 2^32 mod `size`: then
that draw is rejected and the next one takes its place, so that all later ones move on by one
(Lemire, 2019). A range of one number takes no draw at all.

Rejections are rare, below size / 2^32 of the draws. All numbers are drawn as if there was none,
and the first rejection is noted; from there the next pass draws again, one place further on.
After some passes one program walks on alone: it is slow, but no rejection is too many for it. So
nothing is left for the host, and neither of the two waits for the other.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

BLOCKS = 64
"""Of the stream, that a program draws at once: eight numbers each."""
STRIDE = 512
"""Of the one program that walks alone."""
PROGRAMS = 132 * 32
"""At most, of a pass; each goes on to another place until all is drawn."""
PASSES = 4
"""Before one program walks alone; a single one where hardly any rejection is to be expected."""
MANY_REJECTIONS = 1e-3
"""In a round, on average."""
WORD = 2**64


class Indices:
    """As `order[first + Generator(Philox(key=key)).integers(0, sizes, (n, batch))]`, for devices
    that hold `order[offsets[i] : offsets[i + 1]]`, fewer than 2^32 samples each."""

    def __init__(
        self,
        order: NDArray[np.int64] | None,
        offsets: NDArray[np.int64],
        batch: int,
        device: torch.device,
        devices: slice = slice(None),
    ):
        """Of all devices, or of some neighbours: those before them decide where theirs begin.
        Without an order, samples lie as they are counted."""
        sizes = np.diff(offsets)
        rows = np.arange(len(sizes))[devices]
        self._shape = len(rows), batch
        self._device = device
        self._order = None if order is None else torch.from_numpy(order).to(device)
        drawing = np.flatnonzero(sizes > 1)  # the others have nothing to choose
        row_of = np.full(len(sizes), -1)
        row_of[rows] = np.arange(len(rows))
        rejecting = 2**32 % sizes
        table = np.stack([sizes, offsets[:-1], rejecting, row_of], axis=1)[drawing]
        self._table = torch.from_numpy(table).to(device)
        alone = rows[sizes[rows] == 1]
        self._alone = torch.from_numpy(row_of[alone]).to(device)
        only_one = offsets[alone] if order is None else order[offsets[alone]]
        self._only_one = torch.from_numpy(only_one).to(device)
        self._draws = batch * len(drawing)
        expected = batch * (rejecting[drawing] / 2**32).sum()
        passes = PASSES if expected > MANY_REJECTIONS else 1
        # Where each pass begins: the first at the start, a later one nowhere unless it is told.
        self._begin = torch.full((passes + 1,), self._draws, dtype=torch.int64, device=device)
        self._begin[0] = 0

    def __call__(self, key: int) -> Tensor:
        """The [n, batch] indices of one stream."""
        indices = torch.empty(self._shape, dtype=torch.int64, device=self._device)
        if len(self._alone):
            indices[self._alone] = self._only_one[:, None]
        if not self._draws:
            return indices
        begin, batch = self._begin.clone(), self._shape[1]
        passes = len(begin) - 1
        programs = min(PROGRAMS, triton.cdiv(self._draws, 8 * BLOCKS))
        given = (self._table, self._order, indices, begin, *_halves(key), self._draws)
        for number in range(passes):
            _pass[(programs,)](*given, NUMBER=number, BATCH=batch, BLOCKS=BLOCKS)
        _walk[(1,)](*given, PASSES=passes, BATCH=batch, BLOCKS=STRIDE, num_warps=8)
        return indices


def keys(key: int, count: int, device: torch.device) -> Tensor:
    """As `Generator(Philox(key=key)).integers(0, 2**62, count)`: of each word the upper 62 bits."""
    found = torch.empty(count, dtype=torch.int64, device=device)
    grid = (triton.cdiv(count, 4 * BLOCKS),)
    _keys[grid](found, *_halves(key), count, BLOCKS=BLOCKS)
    return found


def _halves(key: int) -> tuple[int, int]:
    """The words of a key as signed numbers: all are of one type for Triton, whatever the key."""
    return _signed(key % WORD), _signed(key // WORD)


def _signed(word: int) -> int:
    return word - WORD if word >= WORD // 2 else word


@triton.jit
def _words(counter, key_low, key_high):
    """Philox4x64 with ten rounds (Salmon et al., 2011): the four words of each block."""
    low = tl.full([1], 0, tl.uint64) + key_low.to(tl.uint64)
    high = tl.full([1], 0, tl.uint64) + key_high.to(tl.uint64)
    a = counter.to(tl.uint64) + 1  # numpy counts up before it draws
    b, c, d = a * 0, a * 0, a * 0
    first = tl.full([1], 0xD2E7470EE14C6C93, tl.uint64)
    second = tl.full([1], 0xCA5A826395121157, tl.uint64)
    for _ in tl.static_range(10):
        upper_a, upper_c = tl.umulhi(first + a * 0, a), tl.umulhi(second + a * 0, c)
        a, b, c, d = upper_c ^ b ^ low, second * c, upper_a ^ d ^ high, first * a
        low += tl.full([1], 0x9E3779B97F4A7C15, tl.uint64)
        high += tl.full([1], 0xBB67AE8584CAA73B, tl.uint64)
    return a, b, c, d


@triton.jit
def _at(
    block, shift, begin, draws, table, order, indices, key_low, key_high,
    BATCH: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Draw all numbers of some blocks of a stream in which so many were rejected so far, and write
    those from `begin` on. Returns the first rejected, or `draws`."""
    a, b, c, d = _words(block + tl.arange(0, BLOCKS), key_low, key_high)
    half = tl.full([1], 0xFFFFFFFF, tl.uint64)
    low = tl.interleave(tl.interleave(a & half, c & half), tl.interleave(b & half, d & half))
    high = tl.interleave(tl.interleave(a >> 32, c >> 32), tl.interleave(b >> 32, d >> 32))
    drawn = tl.interleave(low, high)
    number = 8 * block - shift + tl.arange(0, 8 * BLOCKS)
    wanted = (number >= begin) & (number < draws)
    device = table + 4 * (number // BATCH)
    size = tl.load(device, mask=wanted, other=1).to(tl.uint64)
    first = tl.load(device + 1, mask=wanted, other=0)
    rejecting = tl.load(device + 2, mask=wanted, other=0).to(tl.uint64)
    row = tl.load(device + 3, mask=wanted, other=-1)
    product = drawn * size
    rejected = wanted & ((product & half) < rejecting)
    ours = wanted & (row >= 0)
    index = first + (product >> 32).to(tl.int64)
    if order is not None:
        index = tl.load(order + index, mask=ours, other=0)
    tl.store(indices + row * BATCH + number % BATCH, index, mask=ours)
    return tl.min(tl.where(rejected, number, draws))


@triton.jit(do_not_specialize=["key_low", "key_high", "draws"])
def _pass(
    table, order, indices, begin, key_low, key_high, draws,
    NUMBER: tl.constexpr, BATCH: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Draw from where the pass before met a rejection, one place further on."""
    start = tl.load(begin + NUMBER)
    block = (start + NUMBER) // 8 + tl.program_id(0).to(tl.int64) * BLOCKS
    while (start < draws) & (8 * block - NUMBER < draws):
        rejected = _at(
            block, NUMBER, start, draws, table, order, indices, key_low, key_high, BATCH, BLOCKS
        )
        if rejected < draws:
            tl.atomic_min(begin + NUMBER + 1, rejected)
        block += tl.num_programs(0) * BLOCKS


@triton.jit(do_not_specialize=["key_low", "key_high", "draws"])
def _walk(
    table, order, indices, begin, key_low, key_high, draws,
    PASSES: tl.constexpr, BATCH: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Draw what is left after all passes, piece by piece, past one rejection after the other."""
    start, shift = tl.load(begin + PASSES), tl.full([], PASSES, tl.int64)
    while start < draws:
        block = (start + shift) // 8
        rejected = _at(
            block, shift, start, draws, table, order, indices, key_low, key_high, BATCH, BLOCKS
        )
        start = tl.minimum(rejected, 8 * (block + BLOCKS) - shift)
        shift += (rejected < draws).to(tl.int64)


@triton.jit(do_not_specialize=["key_low", "key_high", "count"])
def _keys(found, key_low, key_high, count, BLOCKS: tl.constexpr):
    block = tl.program_id(0).to(tl.int64) * BLOCKS
    a, b, c, d = _words(block + tl.arange(0, BLOCKS), key_low, key_high)
    words = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    number = 4 * block + tl.arange(0, 4 * BLOCKS)
    tl.store(found + number, (words >> 2).to(tl.int64), mask=number < count)
