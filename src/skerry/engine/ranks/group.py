"""The processes that hold the devices of a world: a single one, or several ranks.

A round needs little of other ranks, because islands are whole wherever that is even: sums over
devices in a server round, and the border rows of a cut island before it mixes. All else every rank
computes by itself: draws have names, so each one draws which devices are sampled or asleep, and
which links are up, as all the others do.

Sums over ranks are the same to the bit however devices are assigned (`exact_sum`).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from skerry.engine.ranks.assignment import CutIsland, DeviceAssignment, cut_island
from skerry.engine.ranks.exchange import Communicator
from skerry.network.fleet import MixingBlock

if TYPE_CHECKING:
    from skerry.engine.participation.sampler import Sample

BITS = 62
"""Bits of the integers that are added: their sum must not overflow."""
TEMPORARY = 2**20
"""Numbers that are rounded to integers at once."""


class RankGroup:
    """Single process: every device is local. `Rank` is one of several processes."""

    rank, count = 0, 1
    devices = slice(None)
    """The local devices: row i of X is the i-th of them."""
    islands = slice(None)
    """The islands of the local devices."""
    cuts = False
    """Whether other ranks hold devices of the same islands."""

    def whole_islands(self, blocks: Sequence[MixingBlock]) -> list[tuple[int, MixingBlock]]:
        """The blocks of W of islands that are whole here, each with its first row of X."""
        return [(block.start, block) for block in blocks]

    def cut_islands(self, blocks: Sequence[MixingBlock]) -> list[CutIsland]:
        """The mixing of the islands that other ranks hold devices of."""
        return []

    def exchange_rows(self, X: Tensor, islands: Sequence[CutIsland]) -> dict[int, Tensor]:
        """The rows of other ranks that the mixing of cut islands needs, by rank."""
        return {}

    def local_part(self, sample: "Sample") -> "Sample":
        """The local devices of a sample, as rows of X."""
        return sample

    def mean(self, X_kld: Tensor, count: int) -> Tensor:
        """The mean of `count` models, of which `X_kld` are the local ones."""
        return X_kld.mean(dim=0)

    def weighted_sum(self, X_kld: Tensor, weights_k: Tensor) -> Tensor:
        """The weighted sum of models, of which these are the local ones."""
        return torch.einsum("k,kld->ld", weights_k, X_kld)

    def sum_counts(self, local: int) -> int:
        """The sum of a count over all ranks."""
        return local

    def sum_parts(self, part_l: Tensor) -> Tensor:
        """The sum over all ranks of numbers for each lane."""
        return part_l

    def gather_rows(self, rows_nl: Tensor) -> Tensor:
        """The rows of all devices, from those of the local ones."""
        return rows_nl

    def maximum(self, value: int) -> int:
        """The largest value of any rank."""
        return value

    def broadcast(self, **order: Any) -> None:
        """Send an order from rank 0 to all other ranks."""

    def share(self, decision: Any) -> Any:
        """Send a decision of rank 0 to all ranks, as JSON."""
        return decision


class Rank(RankGroup):
    """One of several processes, with the devices assigned to it."""

    def __init__(self, exchange: Communicator, sizes: tuple[int, ...]):
        self.exchange, self.rank, self.count = exchange, exchange.rank, exchange.ranks
        self.assignment = DeviceAssignment.of(sizes, self.count)
        self.devices = self.assignment.devices(self.rank)
        self.islands = self.assignment.islands(self.rank)
        self.parts = self.assignment.parts(self.rank)
        self.cuts = not all(part.is_whole for part in self.parts)

    def whole_islands(self, blocks: Sequence[MixingBlock]) -> list[tuple[int, MixingBlock]]:
        pairs = zip(self.parts, blocks, strict=True)
        return [(part.rows.start, block) for part, block in pairs if part.is_whole]

    def cut_islands(self, blocks: Sequence[MixingBlock]) -> list[CutIsland]:
        pairs = zip(self.parts, blocks, strict=True)
        return [
            cut_island(self.assignment, self.rank, *pair) for pair in pairs if not pair[0].is_whole
        ]

    def exchange_rows(self, X: Tensor, islands: Sequence[CutIsland]) -> dict[int, Tensor]:
        sends, received = {}, {}
        for island in islands:  # two ranks share one at most
            for other, rows in island.sends.items():
                sends[other] = X[rows.to(X.device)]
            for other, count in island.receives.items():
                received[other] = X.new_empty(count, X.shape[1])
        self.exchange.swap(sends, received)
        return received

    def local_part(self, sample: "Sample") -> "Sample":
        local, asleep = self._is_local(sample.devices_k), sample.asleep
        return replace(
            sample,
            devices_k=sample.devices_k[local] - self.devices.start,
            weights_k=None if sample.weights_k is None else sample.weights_k[local],
            asleep=None if asleep is None else asleep[self._is_local(asleep)] - self.devices.start,
        )

    def mean(self, X_kld: Tensor, count: int) -> Tensor:
        return (self._total(X_kld) / count).to(X_kld.dtype)

    def weighted_sum(self, X_kld: Tensor, weights_k: Tensor) -> Tensor:
        return self.total(X_kld * weights_k[:, None, None])

    def total(self, rows: Tensor) -> Tensor:
        """The sum of the rows of all ranks, [m, L] or [m, L, d]."""
        return self._total(rows).to(rows.dtype)

    def sum_counts(self, local: int) -> int:
        count = torch.tensor([local])
        self.exchange.add(count)
        return int(count)

    def sum_parts(self, part_l: Tensor) -> Tensor:
        return self.total(part_l.unsqueeze(0))

    def gather_rows(self, rows_nl: Tensor) -> Tensor:
        return self.exchange.gather(rows_nl, self.assignment.counts)

    def maximum(self, value: int) -> int:
        values = torch.tensor([value])
        self.exchange.largest(values)
        return int(values)

    def broadcast(self, **order: Any) -> None:
        if self.rank == 0:
            self.exchange.broadcast(json.dumps(order))

    def share(self, decision: Any) -> Any:
        return json.loads(self.exchange.broadcast(json.dumps(decision)))

    def _is_local(self, devices: Tensor) -> Tensor:
        start, stop = self.devices.start, self.devices.stop
        return torch.logical_and(devices >= start, devices < stop)

    def _total(self, rows: Tensor) -> Tensor:
        return exact_sum(self.exchange, rows, most=self.assignment.borders[-1])


def exact_sum(exchange: Communicator, rows: Tensor, most: int) -> Tensor:
    """The sum of the rows [m, L] or [m, L, d] of all ranks, at most `most`, in double precision.

    Sums of floating-point numbers depend on their order, sums of integers do not. So every number
    is rounded to a multiple of one small step, the same on all ranks, and the multiples are added.
    The step is a part of the largest number in a lane: about 2^-42 of it where a million numbers
    are added, and less where there are fewer. A lane that is not finite has the sum NaN.
    """
    wide = rows if rows.ndim == 3 else rows.unsqueeze(2)
    largest_l1 = _largest(exchange, wide)
    not_finite_l1 = ~largest_l1.isfinite()
    _, exponent_l1 = torch.frexp(largest_l1.double().masked_fill_(not_finite_l1, 1))
    bits_l1 = BITS - ceil(log2(most + 1)) - exponent_l1
    steps_l1 = torch.ldexp(torch.ones_like(bits_l1, dtype=torch.double), bits_l1)
    sum_ld = torch.zeros(wide.shape[1:], dtype=torch.int64, device=rows.device)
    some = max(1, TEMPORARY // max(1, sum_ld.numel()))
    for first in range(0, len(wide), some):
        whole = (wide[first : first + some].double() * steps_l1).round_()
        sum_ld += whole.masked_fill_(not_finite_l1, 0).long().sum(dim=0)
    exchange.add(sum_ld)
    return (sum_ld / steps_l1).masked_fill_(not_finite_l1, torch.nan).view(rows.shape[1:])


def _largest(exchange: Communicator, wide: Tensor) -> Tensor:
    """The largest magnitude in every lane, on any rank; infinite where a number is not finite."""
    largest_l1 = wide.new_zeros(wide.shape[1], 1)
    if len(wide):
        found_l = torch.linalg.vector_norm(wide, torch.inf, dim=(0, 2))
        largest_l1 = found_l.nan_to_num(nan=torch.inf, posinf=torch.inf).unsqueeze(1)
    exchange.largest(largest_l1)
    return largest_l1
