"""Who holds the devices of a world: this process alone, or several ranks, each its share.

What a round needs of other ranks is little, because islands are whole wherever that is even: sums
over devices in a server round, and the border rows of an island that is cut before it mixes
(cut_islands.py). All else every rank knows by itself: draws have names, so each one draws who is
sampled, who sleeps and which links are up as all the others do.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from skerry.engine.ranks.assignment import Shares
from skerry.engine.ranks.cut_islands import CutIsland, cut_island
from skerry.engine.ranks.exact_sum import exact_sum
from skerry.engine.ranks.exchange import Exchange
from skerry.network.fleet import MixingBlock

if TYPE_CHECKING:
    from skerry.engine.participation.sampler import Sample


class Party:
    """Alone: all devices are here, and there is nobody to ask."""

    rank, ranks = 0, 1
    devices = slice(None)
    """Those that are here: row i of X is the i-th of them."""
    islands = slice(None)
    """Those that they are on."""
    cuts = False
    """Whether other ranks hold devices of the same islands."""

    def whole(self, blocks: Sequence[MixingBlock]) -> list[tuple[int, MixingBlock]]:
        """Of our islands' blocks of W those of whole ones, and in which row of X each begins."""
        return [(block.start, block) for block in blocks]

    def cut(self, blocks: Sequence[MixingBlock]) -> list[CutIsland]:
        """The others."""
        return []

    def across(self, X: Tensor, islands: Sequence[CutIsland]) -> dict[int, Tensor]:
        """What the mixing of cut islands needs of other ranks, by rank."""
        return {}

    def part_of(self, sample: "Sample") -> "Sample":
        """Of a sample, those that are here, as rows of X."""
        return sample

    def mean(self, X_kld: Tensor, count: int) -> Tensor:
        """Of so many models, of which these are here."""
        return X_kld.mean(dim=0)

    def weighted(self, X_kld: Tensor, weights_k: Tensor) -> Tensor:
        return torch.einsum("k,kld->ld", weights_k, X_kld)

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
        self.islands = self.shares.islands(self.rank)
        self.parts = self.shares.parts(self.rank)
        self.cuts = not all(part.is_whole for part in self.parts)

    def whole(self, blocks: Sequence[MixingBlock]) -> list[tuple[int, MixingBlock]]:
        pairs = zip(self.parts, blocks, strict=True)
        return [(part.rows.start, block) for part, block in pairs if part.is_whole]

    def cut(self, blocks: Sequence[MixingBlock]) -> list[CutIsland]:
        pairs = zip(self.parts, blocks, strict=True)
        return [cut_island(self.shares, self.rank, *pair) for pair in pairs if not pair[0].is_whole]

    def across(self, X: Tensor, islands: Sequence[CutIsland]) -> dict[int, Tensor]:
        sends, comes = {}, {}
        for island in islands:  # two ranks share one at most
            for other, rows in island.sends.items():
                sends[other] = X[rows.to(X.device)]
            for other, count in island.receives.items():
                comes[other] = X.new_empty(count, X.shape[1])
        self.exchange.swap(sends, comes)
        return comes

    def part_of(self, sample: "Sample") -> "Sample":
        here, asleep = self._is_here(sample.devices_k), sample.asleep
        return replace(
            sample,
            devices_k=sample.devices_k[here] - self.devices.start,
            weights_k=None if sample.weights_k is None else sample.weights_k[here],
            asleep=None if asleep is None else asleep[self._is_here(asleep)] - self.devices.start,
        )

    def mean(self, X_kld: Tensor, count: int) -> Tensor:
        return (self._total(X_kld) / count).to(X_kld.dtype)

    def weighted(self, X_kld: Tensor, weights_k: Tensor) -> Tensor:
        return self.total(X_kld * weights_k[:, None, None])

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
        return exact_sum(self.exchange, rows, most=self.shares.borders[-1])
