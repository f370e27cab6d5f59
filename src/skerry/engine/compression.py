"""Lossy message compression (top-k, random-k, int8) and message sizes.

A compression is applied to differences, never to models: the receiver adds a difference to the copy
that both sides hold (`engine/compressed_messages.py`). Random numbers follow from keys, one for
each row, so that a result depends neither on lanes and chunks nor on the compute device.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from skerry.models.layout import Padding
from skerry.models.noise import keyed_uniform
from skerry.plugins.context import Context
from skerry.plugins.options import bind, has_context

NUMBER, SEED = 4, 8
"""Bytes of a number, and of the seed from which both sides draw the same places."""
BLOCK = 256
"""Numbers that share a scale. Then rounding to int8 adds at most BLOCK / (4 * 127**2) = 0.4 % of a
message's square, however long it is."""
LEVELS = 127
TIES = 11
"""Last bits of a magnitude (float32) that are ignored. Devices with the same classes have gradients
that are equal but for rounding, which must not decide what is sent."""
PORTION = 2**22
"""Numbers that are compressed at once, so that temporaries stay small."""
COMPRESSING = 36
"""Temporary bytes for each of them, as measured: 36 for int8, 32 for top_k."""


@dataclass(frozen=True)
class MessageDraws:
    """The random numbers of messages: a key for each row, and the places that travel.

    The other places are padding or private, and always zero.
    """

    keys_r: Tensor
    real_d: Tensor
    parameters: int
    """The number of places that travel."""
    padding: Padding | None = None
    """None: every place holds a parameter."""

    def numbers(self) -> Tensor:
        """Uniform numbers in [0, 1) for every place of every row, [rows, d]."""
        return torch.vmap(lambda key: keyed_uniform(key, len(self.real_d)))(self.keys_r)

    def of(self, rows: slice) -> "MessageDraws":
        """The draws of some rows."""
        return replace(self, keys_r=self.keys_r[rows])

    def without_padding(self) -> "MessageDraws":
        """The draws of messages whose padding has been removed."""
        assert self.padding is not None
        return replace(self, real_d=self.padding.remove(self.real_d), padding=None)


class Compression:
    """The base class of compressions: everything is sent.

    The options of a compression are the keyword-only parameters of its `__init__`.
    """

    quality = 1.0
    """The least part of the squared norm of a message that arrives. It is the consensus stepsize,
    unless `network.consensus_stepsize` is set."""

    def compress(self, V_rld: Tensor, draws: MessageDraws) -> None:
        """Replace the rows of some lanes by what arrives of them, in place."""

    def bytes(self, parameters: int) -> int:
        """The bytes of a message of `parameters` numbers."""
        return NUMBER * parameters


class Sparse(Compression):
    """The base class of compressions that send some numbers; the others arrive as zero."""

    def __init__(self, *, compression_share: float):
        self.share = self.quality = compression_share

    def kept(self, parameters: int) -> int:
        """How many of `parameters` numbers are sent."""
        return max(1, round(self.share * parameters))


class TopK(Sparse):
    """The largest numbers and their places; of numbers equal to three digits, the first."""

    def compress(self, V_rld: Tensor, draws: MessageDraws) -> None:
        magnitude = V_rld.abs().float().view(torch.int32).long()
        coarse = (magnitude + (1 << (TIES - 1))) >> TIES
        place = torch.arange(V_rld.shape[-1], device=V_rld.device)
        order = (-coarse << 32) + place
        _keep_first(V_rld, order, self.kept(draws.parameters))

    def bytes(self, parameters: int) -> int:
        """Places are sent as indices, or as a mask of one bit each where that is shorter."""
        kept = self.kept(parameters)
        places = min(kept * (parameters - 1).bit_length(), parameters)
        return min(NUMBER * kept + -(-places // 8), NUMBER * parameters)


class RandomK(Sparse):
    """Numbers at random places, which both sides draw from a seed."""

    def compress(self, V_rld: Tensor, draws: MessageDraws) -> None:
        numbers = (draws.numbers() * 2**24).long() + (~draws.real_d).long() * 2**24
        order = (numbers << 32) + torch.arange(V_rld.shape[-1], device=V_rld.device)
        _keep_first(V_rld, order[:, None], self.kept(draws.parameters))

    def bytes(self, parameters: int) -> int:
        return min(NUMBER * self.kept(parameters) + SEED, NUMBER * parameters)


class Int8(Compression):
    """Stochastic rounding to -127..127, right on average, with a scale for every 256 numbers."""

    def compress(self, V_rld: Tensor, draws: MessageDraws) -> None:
        d = V_rld.shape[-1]
        blocks = functional.pad(V_rld, (0, -d % BLOCK)).view(*V_rld.shape[:2], -1, BLOCK)
        scale = blocks.abs().amax(dim=-1) / LEVELS
        scale = torch.where(scale > 0, scale, 1).repeat_interleave(BLOCK, dim=-1)[..., :d]
        levels = torch.floor(V_rld / scale + draws.numbers()[:, None])
        torch.mul(levels.clamp_(-LEVELS, LEVELS), scale, out=V_rld)

    def bytes(self, parameters: int) -> int:
        return parameters + NUMBER * -(-parameters // BLOCK)


def _keep_first(V_rld: Tensor, order: Tensor, count: int) -> None:
    """Keep the `count` places of every row that are first in an order without ties."""
    # Not kthvalue, which a GPU does not do where runs must repeat to the bit.
    first = order.topk(min(count, order.shape[-1]), largest=False, sorted=False).values
    V_rld.masked_fill_(order > first.amax(dim=-1, keepdim=True), 0)


def compress(
    compression: Compression,
    V_rld: Tensor,
    draws: MessageDraws,
    context: Context,
    devices_r: Tensor | None = None,
) -> Tensor:
    """Replace rows by what arrives of them, in place, a few at a time; returns the rows.

    `devices_r` are the devices of the rows; None: all devices. A user's own compression does not
    see the padding.
    """
    padding, own = draws.padding, not type(compression).__module__.startswith("skerry.")
    if padding is not None and own:
        unpadded = padding.remove(V_rld)
        compress(compression, unpadded, draws.without_padding(), context, devices_r)
        padding.write(unpadded, V_rld)
        return V_rld
    call, knows = bind("compression", compression.compress), has_context(compression.compress)
    step = max(1, PORTION // max(1, V_rld[0].numel())) if len(V_rld) else 1
    for first in range(0, len(V_rld), step):
        rows = slice(first, first + step)
        now = context
        if knows:  # a GPU would wait for the devices
            devices = context.rows if devices_r is None else devices_r.cpu().numpy()
            now = context.with_facts(rows=devices[rows])
        call(V_rld[rows], draws.of(rows), context=now)
    if own and draws.parameters < len(draws.real_d):  # private parts do not travel
        V_rld.masked_fill_(~draws.real_d, 0)
    return V_rld
