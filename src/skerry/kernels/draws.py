"""Minibatches on a GPU: numpy's random indices to the bit, and gathering the samples.

numpy's Philox is counter-based: block c of a stream is a function of its key and of c alone. A
block has four words of 64 bits; each gives two draws of 32 bits, the low half first. An integer
below `size` is `(draw * size) >> 32`, unless the product's low half is below 2^32 mod `size`: then
the draw is rejected and the next draw is used, so that all later draws shift by one (Lemire, 2019).
A range of one number uses no draw.

Rejections are rare, below size / 2^32 of the draws. A first pass draws all numbers as if there were
none and records the first rejection; the next pass draws again from there, shifted by one. After
the last pass one program continues alone; it is slow but handles any number of rejections. The
host and the GPU never wait for each other.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

BLOCKS = 64
"""Blocks of the stream that a program draws at once; each has eight numbers."""
SEQUENTIAL_BLOCKS = 512
"""Blocks that the last, single program draws at once."""
PROGRAMS = 132 * 32
"""Largest number of programs of a pass; each loops until all numbers are drawn."""
PASSES = 4
"""Passes before the single program; one pass if few rejections are expected."""
MANY_REJECTIONS = 1e-3
"""Expected rejections per round above which several passes are used."""
GATHER_TILE = 4096
"""Numbers that one program of `gather_rows` moves."""
WORD = 2**64


class IndexSampler:
    """Draws the [n, batch] sample indices of minibatches from a key, like numpy.

    The result equals `order[first + Generator(Philox(key=key)).integers(0, sizes, (n, batch))]`,
    where device i holds `order[offsets[i] : offsets[i + 1]]`, fewer than 2^32 samples.
    """

    def __init__(
        self,
        order: NDArray[np.int64] | None,
        offsets: NDArray[np.int64],
        batch: int,
        device: torch.device,
        devices: slice = slice(None),
    ):
        """`devices` selects the rows to return; draws of the devices before them are skipped.
        Without an order, indices are those of the samples themselves."""
        sizes = np.diff(offsets)
        rows = np.arange(len(sizes))[devices]
        self._shape = len(rows), batch
        self._device = device
        self._order = None if order is None else torch.from_numpy(order).to(device)
        drawing = np.flatnonzero(sizes > 1)  # devices with one sample use no draw
        row_of = np.full(len(sizes), -1)
        row_of[rows] = np.arange(len(rows))
        rejecting = 2**32 % sizes
        table = np.stack([sizes, offsets[:-1], rejecting, row_of], axis=1)[drawing]
        self._table = torch.from_numpy(table).to(device)
        single = rows[sizes[rows] == 1]
        self._single = torch.from_numpy(row_of[single]).to(device)
        single_index = offsets[single] if order is None else order[offsets[single]]
        self._single_index = torch.from_numpy(single_index).to(device)
        self._draws = batch * len(drawing)
        expected = batch * (rejecting[drawing] / 2**32).sum()
        passes = PASSES if expected > MANY_REJECTIONS else 1
        # Where each pass begins: the first at 0, later ones at the end unless a rejection is found.
        self._begin = torch.full((passes + 1,), self._draws, dtype=torch.int64, device=device)
        self._begin[0] = 0

    def __call__(self, key: int) -> Tensor:
        """Indices [n, batch] of the stream with this key."""
        indices = torch.empty(self._shape, dtype=torch.int64, device=self._device)
        if len(self._single):
            indices[self._single] = self._single_index[:, None]
        if not self._draws:
            return indices
        begin, batch = self._begin.clone(), self._shape[1]
        passes = len(begin) - 1
        programs = min(PROGRAMS, triton.cdiv(self._draws, 8 * BLOCKS))
        arguments = (self._table, self._order, indices, begin, *_signed_words(key), self._draws)
        for number in range(passes):
            _draw_pass[(programs,)](*arguments, NUMBER=number, BATCH=batch, BLOCKS=BLOCKS)
        _draw_sequentially[(1,)](
            *arguments, PASSES=passes, BATCH=batch, BLOCKS=SEQUENTIAL_BLOCKS, num_warps=8
        )
        return indices


def draw_keys(key: int, count: int, device: torch.device) -> Tensor:
    """`Generator(Philox(key=key)).integers(0, 2**62, count)`: the upper 62 bits of each word."""
    keys = torch.empty(count, dtype=torch.int64, device=device)
    grid = (triton.cdiv(count, 4 * BLOCKS),)
    _draw_keys[grid](keys, *_signed_words(key), count, BLOCKS=BLOCKS)
    return keys


def _signed_words(key: int) -> tuple[int, int]:
    """Both words of a key as signed integers, so that Triton sees one type for every key."""
    low, high = (word - WORD if word >= WORD // 2 else word for word in (key % WORD, key // WORD))
    return low, high


@triton.jit
def _philox_words(counter, key_low, key_high):
    """The four words of each block, by Philox4x64 with ten rounds (Salmon et al., 2011)."""
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
def _draw_blocks(
    block, shift, begin, draws, table, order, indices, key_low, key_high,
    BATCH: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Draw the numbers of some blocks after `shift` rejections, and write those from `begin` on;
    return the number of the first rejected draw, or `draws`."""
    a, b, c, d = _philox_words(block + tl.arange(0, BLOCKS), key_low, key_high)
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
    stored = wanted & (row >= 0)
    index = first + (product >> 32).to(tl.int64)
    if order is not None:
        index = tl.load(order + index, mask=stored, other=0)
    tl.store(indices + row * BATCH + number % BATCH, index, mask=stored)
    return tl.min(tl.where(rejected, number, draws))


@triton.jit(do_not_specialize=["key_low", "key_high", "draws"])
def _draw_pass(
    table, order, indices, begin, key_low, key_high, draws,
    NUMBER: tl.constexpr, BATCH: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Draw again from the first rejection of the previous pass, shifted by one."""
    start = tl.load(begin + NUMBER)
    block = (start + NUMBER) // 8 + tl.program_id(0).to(tl.int64) * BLOCKS
    while (start < draws) & (8 * block - NUMBER < draws):
        rejected = _draw_blocks(
            block, NUMBER, start, draws, table, order, indices, key_low, key_high, BATCH, BLOCKS
        )
        if rejected < draws:
            tl.atomic_min(begin + NUMBER + 1, rejected)
        block += tl.num_programs(0) * BLOCKS


@triton.jit(do_not_specialize=["key_low", "key_high", "draws"])
def _draw_sequentially(
    table, order, indices, begin, key_low, key_high, draws,
    PASSES: tl.constexpr, BATCH: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Draw the rest after all passes, in pieces that end at a rejection."""
    start, shift = tl.load(begin + PASSES), tl.full([], PASSES, tl.int64)
    while start < draws:
        block = (start + shift) // 8
        rejected = _draw_blocks(
            block, shift, start, draws, table, order, indices, key_low, key_high, BATCH, BLOCKS
        )
        start = tl.minimum(rejected, 8 * (block + BLOCKS) - shift)
        shift += (rejected < draws).to(tl.int64)


@triton.jit(do_not_specialize=["key_low", "key_high", "count"])
def _draw_keys(keys, key_low, key_high, count, BLOCKS: tl.constexpr):
    block = tl.program_id(0).to(tl.int64) * BLOCKS
    a, b, c, d = _philox_words(block + tl.arange(0, BLOCKS), key_low, key_high)
    words = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    number = 4 * block + tl.arange(0, 4 * BLOCKS)
    tl.store(keys + number, (words >> 2).to(tl.int64), mask=number < count)


def gather_rows(table: Tensor, rows: Tensor) -> Tensor:
    """`table[rows]` for a contiguous table with short rows; torch is slow for millions of rows."""
    out = table.new_empty(*rows.shape, *table.shape[1:])
    length, count = table[0].numel(), rows.numel()
    width = triton.next_power_of_2(length)
    height = max(1, GATHER_TILE // width)
    _gather_rows[(triton.cdiv(count, height),)](
        table, rows.contiguous(), out, count, LENGTH=length, WIDTH=width, HEIGHT=height
    )
    return out


@triton.jit(do_not_specialize=["count"])
def _gather_rows(
    table, rows, out, count, LENGTH: tl.constexpr, WIDTH: tl.constexpr, HEIGHT: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    k = tl.arange(0, WIDTH)
    row = tl.load(rows + number, mask=number < count, other=0)
    inside = (number < count)[:, None] & (k < LENGTH)[None, :]
    values = tl.load(table + row[:, None] * LENGTH + k[None, :], mask=inside)
    tl.store(out + number[:, None] * LENGTH + k[None, :], values, mask=inside)
