"""Sums over ranks that are the same to the bit however what is added lies on them.

Sums of floating-point numbers depend on their order, those of whole numbers do not. So every number
is rounded to a multiple of one small step, the same on all ranks, and the multiples are added. The
step is a part of the largest number in a lane: about 2^-42 of it where a million are added, and
less where there are fewer.
"""

from math import ceil, log2

import torch
from torch import Tensor

from skerry.engine.ranks.exchange import Exchange

BITS = 62
"""Of the whole numbers: their sum must not overflow."""
TEMPORARY = 2**20
"""Numbers that are made whole at once."""


def exact_sum(exchange: Exchange, rows: Tensor, most: int) -> Tensor:
    """Of all ranks' rows [m, L] or [m, L, d], at most so many; in double precision. NaN in a lane
    that is no longer finite."""
    wide = rows if rows.ndim == 3 else rows.unsqueeze(2)
    largest_l1 = _largest(exchange, wide)
    lost_l1 = ~largest_l1.isfinite()
    _, exponent_l1 = torch.frexp(largest_l1.double().masked_fill_(lost_l1, 1))
    bits_l1 = BITS - ceil(log2(most + 1)) - exponent_l1
    steps_l1 = torch.ldexp(torch.ones_like(bits_l1, dtype=torch.double), bits_l1)
    sum_ld = torch.zeros(wide.shape[1:], dtype=torch.int64, device=rows.device)
    some = max(1, TEMPORARY // max(1, sum_ld.numel()))
    for first in range(0, len(wide), some):
        whole = (wide[first : first + some].double() * steps_l1).round_()
        sum_ld += whole.masked_fill_(lost_l1, 0).long().sum(dim=0)
    exchange.add(sum_ld)
    return (sum_ld / steps_l1).masked_fill_(lost_l1, torch.nan).view(rows.shape[1:])


def _largest(exchange: Exchange, wide: Tensor) -> Tensor:
    """In every lane, on any rank; infinite where something is no number."""
    largest_l1 = wide.new_zeros(wide.shape[1], 1)
    if len(wide):
        found_l = torch.linalg.vector_norm(wide, torch.inf, dim=(0, 2))
        largest_l1 = found_l.nan_to_num(nan=torch.inf, posinf=torch.inf).unsqueeze(1)
    exchange.largest(largest_l1)
    return largest_l1
