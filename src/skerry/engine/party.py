"""Who holds the devices of a world: this process alone, or several ranks, each its share.

What a round needs of other ranks is little, because islands are whole wherever that is even: sums
over devices in a server round, and the border rows of an island that is cut before it mixes
(cut_islands.py). All else every rank knows by itself: draws have names, so each one draws who is
sampled, who sleeps and which links are up as all the others do.
"""

import json
from dataclasses import replace
from functools import cached_property
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from skerry.engine.exchange import Exchange
from skerry.engine.shares import Part, Shares

if TYPE_CHECKING:
    from skerry.engine.sampler import Sample

BITS = 62
"""Of the whole numbers that ranks add: their sum must not overflow."""
TEMPORARY = 2**22
"""Numbers that are made whole at once."""


class Party:
    """Alone: all devices are here, and there is nobody to ask."""

    rank, ranks = 0, 1
    devices = slice(None)
    """Those that are here: row i of X is the i-th of them."""

    def part_of(self, sample: "Sample") -> "Sample":
        """Of a sample, those that are here, as rows of X."""
        return sample

    def mean(self, X_nld: Tensor, rows_k: Tensor, count: int) -> Tensor:
        """Of the models of so many devices, of which these rows are here."""
        return X_nld[rows_k].mean(dim=0)

    def weighted(self, X_nld: Tensor, rows_k: Tensor, weights_k: Tensor) -> Tensor:
        return torch.einsum("k,kld->ld", weights_k, X_nld[rows_k])

    def counted(self, here: int) -> int:
        """What each counts of its own devices, of all."""
        return here

    def joined(self, part_l: Tensor) -> Tensor:
        """The sum of what each has a part of."""
        return part_l

    def gathered(self, rows_nl: Tensor) -> Tensor:
        """A few numbers of each device, of all devices."""
        return rows_nl

    def agreed(self, wish: int) -> int:
        """The largest of what each wishes."""
        return wish

    def tell(self, **order: Any) -> None:
        """What rank 0 wants all others to do with it."""


class Rank(Party):
    """One of several processes, with its share of the devices."""

    def __init__(self, exchange: Exchange, sizes: tuple[int, ...]):
        self.exchange, self.rank, self.ranks = exchange, exchange.rank, exchange.ranks
        self.shares = Shares.of(sizes, self.ranks)
        self.devices = self.shares.devices(self.rank)

    @cached_property
    def parts(self) -> list[Part]:
        """The islands that are here, or of which some devices are."""
        return self.shares.parts(self.rank)

    def part_of(self, sample: "Sample") -> "Sample":
        here, asleep = self._is_here(sample.devices_k), sample.asleep
        return replace(
            sample,
            devices_k=sample.devices_k[here] - self.devices.start,
            weights_k=None if sample.weights_k is None else sample.weights_k[here],
            asleep=None if asleep is None else asleep[self._is_here(asleep)] - self.devices.start,
        )

    def mean(self, X_nld: Tensor, rows_k: Tensor, count: int) -> Tensor:
        return (self._total(X_nld[rows_k]) / count).to(X_nld.dtype)

    def weighted(self, X_nld: Tensor, rows_k: Tensor, weights_k: Tensor) -> Tensor:
        return self.total(X_nld[rows_k] * weights_k[:, None, None])

    def total(self, rows: Tensor) -> Tensor:
        """The sum of all ranks' rows, [m, L] or [m, L, d]."""
        return self._total(rows).to(rows.dtype)

    def counted(self, here: int) -> int:
        count = torch.tensor([here])
        self.exchange.add(count)
        return int(count)

    def joined(self, part_l: Tensor) -> Tensor:
        return self.total(part_l.unsqueeze(0))

    def gathered(self, rows_nl: Tensor) -> Tensor:
        return self.exchange.gather(rows_nl, self.shares.counts)

    def agreed(self, wish: int) -> int:
        wishes = torch.tensor([wish])
        self.exchange.largest(wishes)
        return int(wishes)

    def tell(self, **order: Any) -> None:
        if self.rank == 0:
            self.exchange.tell(json.dumps(order))

    def _is_here(self, devices: Tensor) -> Tensor:
        start, stop = self.devices.start, self.devices.stop
        return torch.logical_and(devices >= start, devices < stop)

    def _total(self, rows: Tensor) -> Tensor:
        """In double precision, and the same to the bit however the rows are divided among ranks.
        Sums of floating-point numbers depend on their order; so every number is rounded to a
        multiple of one small step first, 2^-42 of the lane's largest or less with a million
        devices, and whole numbers are added."""
        wide = rows if rows.ndim == 3 else rows.unsqueeze(2)
        largest_l1 = wide.new_zeros(wide.shape[1], 1)
        if len(wide):
            largest_l1 = wide.abs().amax(dim=(0, 2)).nan_to_num(nan=torch.inf).unsqueeze(1)
        self.exchange.largest(largest_l1)
        lost_l1 = ~largest_l1.isfinite()  # a lane that has diverged
        _, exponent_l1 = torch.frexp(largest_l1.masked_fill(lost_l1, 1).double())
        bits = BITS - ceil(log2(self.shares.borders[-1] + 1))
        scale_l1 = torch.ldexp(torch.ones_like(exponent_l1, dtype=torch.double), bits - exponent_l1)
        sum_ld = torch.zeros(wide.shape[1:], dtype=torch.int64, device=rows.device)
        step = max(1, TEMPORARY // max(1, sum_ld.numel()))
        for first in range(0, len(wide), step):
            whole = (wide[first : first + step].double() * scale_l1).round_()
            sum_ld += whole.masked_fill_(lost_l1, 0).long().sum(dim=0)
        self.exchange.add(sum_ld)
        return (sum_ld / scale_l1).masked_fill_(lost_l1, torch.nan).view(rows.shape[1:])
