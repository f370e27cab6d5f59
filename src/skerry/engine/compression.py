"""What arrives of a message that is compressed, and how long it is.

A compression changes differences, never models: who receives one adds it to what both sides know
already (`engine/compressed.py`). Draws follow from keys, one for each row, so that a result depends
neither on lanes and chunks nor on where it is computed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from skerry.models.noise import keyed_uniform

NUMBER, SEED = 4, 8
"""Bytes of a number, and of the seed that two sides draw the same places from."""
BLOCK = 256
"""Numbers that share a scale. Then rounding to int8 adds at most BLOCK / (4 * 127**2) = 0.4 % of a
message's square, however long it is."""
LEVELS = 127
TIES = 11
"""Last bits of a magnitude (float32) that do not count. Devices whose classes are alike have equal
gradients but for rounding: which of them is sent must not hang on that."""
PORTION = 2**22
"""Numbers that are compressed at once: what is needed on the way stays small."""
SQUEEZING = 36
"""Bytes of one of them on the way: int8 was seen to take that, top_k 32."""


@dataclass(frozen=True)
class Draws:
    """The chance of one message: a key for each row, and which places of a row hold numbers (the
    others are padding and always zero)."""

    keys_r: Tensor
    real_d: Tensor
    parameters: int
    """How many places do."""

    def numbers(self) -> Tensor:
        """In [0, 1), for every place of every row: [rows, d]."""
        return torch.vmap(lambda key: keyed_uniform(key, len(self.real_d)))(self.keys_r)

    def of(self, rows: slice) -> "Draws":
        return Draws(self.keys_r[rows], self.real_d, self.parameters)


class Compression:
    """Everything is sent. A compression inherits from it and says what it does otherwise; its
    options are the keyword-only parameters of its `__init__`."""

    quality = 1.0
    """Of the squares of a message, the part that arrives at least. Links go that far towards
    neighbours, unless `network.consensus_stepsize` says how far."""

    def squeeze(self, V_rld: Tensor, draws: Draws) -> None:
        """Rows of some lanes become what arrives of them, in place."""

    def bytes(self, parameters: int) -> int:
        """Of a message about so many numbers."""
        return NUMBER * parameters


class Sparse(Compression):
    """Some of the numbers, as they are; the others arrive as zero."""

    def __init__(self, *, compression_share: float):
        self.share = self.quality = compression_share

    def kept(self, parameters: int) -> int:
        return max(1, round(self.share * parameters))


class TopK(Sparse):
    """The largest numbers, and where they stand. Of those that are equal to three digits, the
    first."""

    def squeeze(self, V_rld: Tensor, draws: Draws) -> None:
        magnitude = V_rld.abs().float().view(torch.int32).long()
        coarse = (magnitude + (1 << (TIES - 1))) >> TIES
        place = torch.arange(V_rld.shape[-1], device=V_rld.device)
        order = (-coarse << 32) + place
        _keep_first(V_rld, order, self.kept(draws.parameters))

    def bytes(self, parameters: int) -> int:
        """A place takes as many bits as tell all places apart, or all of them one bit each."""
        kept = self.kept(parameters)
        places = min(kept * (parameters - 1).bit_length(), parameters)
        return min(NUMBER * kept + -(-places // 8), NUMBER * parameters)


class RandomK(Sparse):
    """Numbers at random places, which follow from a seed."""

    def squeeze(self, V_rld: Tensor, draws: Draws) -> None:
        numbers = (draws.numbers() * 2**24).long() + (~draws.real_d).long() * 2**24
        order = (numbers << 32) + torch.arange(V_rld.shape[-1], device=V_rld.device)
        _keep_first(V_rld, order[:, None], self.kept(draws.parameters))

    def bytes(self, parameters: int) -> int:
        return min(NUMBER * self.kept(parameters) + SEED, NUMBER * parameters)


class Int8(Compression):
    """A whole number from -127 to 127 for every number, rounded up or down at random so that it is
    right on average, and a scale for every 256 of them."""

    def squeeze(self, V_rld: Tensor, draws: Draws) -> None:
        d = V_rld.shape[-1]
        blocks = functional.pad(V_rld, (0, -d % BLOCK)).view(*V_rld.shape[:2], -1, BLOCK)
        scale = blocks.abs().amax(dim=-1) / LEVELS
        scale = torch.where(scale > 0, scale, 1).repeat_interleave(BLOCK, dim=-1)[..., :d]
        levels = torch.floor(V_rld / scale + draws.numbers()[:, None])
        torch.mul(levels.clamp_(-LEVELS, LEVELS), scale, out=V_rld)

    def bytes(self, parameters: int) -> int:
        return parameters + NUMBER * -(-parameters // BLOCK)


def _keep_first(V_rld: Tensor, order: Tensor, count: int) -> None:
    """Of every row, those that come first; no two places of a row have the same order."""
    # Not kthvalue, which a GPU does not do where runs must repeat to the bit.
    first = order.topk(min(count, order.shape[-1]), largest=False, sorted=False).values
    V_rld.masked_fill_(order > first.amax(dim=-1, keepdim=True), 0)


def squeezed(compression: Compression, V_rld: Tensor, draws: Draws) -> Tensor:
    """What arrives, in place: a few rows at a time."""
    step = max(1, PORTION // max(1, V_rld[0].numel())) if len(V_rld) else 1
    for first in range(0, len(V_rld), step):
        rows = slice(first, first + step)
        compression.squeeze(V_rld[rows], draws.of(rows))
    return V_rld
