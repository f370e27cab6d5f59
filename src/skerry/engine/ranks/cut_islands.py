"""Mixing on an island that lies on several ranks: neighbours across a border swap their models.

Every rank knows W(t) of the island, so each knows whose models it needs and who needs its own:
nothing is asked, models are only sent.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from skerry.engine.ranks.assignment import Part, Shares
from skerry.network.fleet import MixingBlock

Places = NDArray[np.integer]


@dataclass(frozen=True)
class CutIsland:
    """One round's mixing of the devices of an island that are here."""

    rows: slice
    """Of X."""
    W: sparse.csr_array
    """Our rows of W transposed; its columns are the models from ranks before us, our own, and
    those from ranks after us: the order of the devices, in which a sum over all goes too."""
    sends: dict[int, Tensor]
    """By rank, the rows of X that it needs."""
    receives: dict[int, int]
    """By rank, how many models come from it, in order of rank."""


def cut_island(shares: Shares, rank: int, part: Part, block: MixingBlock) -> CutIsland:
    """What a rank needs of others, and they of it, to mix its part of an island by this block."""
    W = sparse.csr_array(block.W.T)
    ours = _inside(shares.devices(rank), block)
    mine = W[ours]
    needed = np.unique(mine.indices)
    columns, sends, receives = [], {}, {}
    for other in range(len(shares.counts)):
        theirs = _inside(shares.devices(other), block)
        if other == rank:
            columns.append(np.arange(ours.start, ours.stop))
            continue
        if theirs.start >= theirs.stop:
            continue
        if len(coming := _between(needed, theirs)):
            receives[other] = len(coming)
            columns.append(coming)
        if len(going := _between(np.unique(W[theirs].indices), ours)):
            sends[other] = torch.from_numpy(going - ours.start + part.rows.start)
    places = np.searchsorted(np.concatenate(columns), mine.indices)
    shape = (ours.stop - ours.start, sum(map(len, columns)))
    weights = sparse.csr_array((mine.data, places, mine.indptr), shape)
    return CutIsland(part.rows, weights, sends, receives)


def _inside(devices: slice, block: MixingBlock) -> slice:
    """The devices of a rank as places on an island."""
    start, stop = devices.start - block.start, devices.stop - block.start
    return slice(max(0, start), min(block.size, stop))


def _between(places: Places, span: slice) -> Places:
    return np.asarray(places[(places >= span.start) & (places < span.stop)])
