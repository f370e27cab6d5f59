"""Short rows of a table, by their numbers. torch is slow at it where there are millions."""

import triton
import triton.language as tl
from torch import Tensor

TILE = 4096
"""Numbers that a program moves at once."""


def gather_rows(table: Tensor, rows: Tensor) -> Tensor:
    """`table[rows]`, for a contiguous table and rows of any shape."""
    found = table.new_empty(*rows.shape, *table.shape[1:])
    length, count = table[0].numel(), rows.numel()
    width = triton.next_power_of_2(length)
    height = max(1, TILE // width)
    _gather[(triton.cdiv(count, height),)](
        table, rows.contiguous(), found, count, LENGTH=length, WIDTH=width, HEIGHT=height
    )
    return found


@triton.jit(do_not_specialize=["count"])
def _gather(
    table, rows, found, count, LENGTH: tl.constexpr, WIDTH: tl.constexpr, HEIGHT: tl.constexpr
):
    number = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    k = tl.arange(0, WIDTH)
    row = tl.load(rows + number, mask=number < count, other=0)
    inside = (number < count)[:, None] & (k < LENGTH)[None, :]
    values = tl.load(table + row[:, None] * LENGTH + k[None, :], mask=inside)
    tl.store(found + number[:, None] * LENGTH + k[None, :], values, mask=inside)
