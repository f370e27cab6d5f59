"""Compressed messages, device by device, in numpy and double precision.

The random keys and the numbers drawn from them are shared with the fast engine; the arithmetic is
not.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.experiment import Experiment, Network, Server
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.models.noise import keyed_uniform

Vector = NDArray[np.float64]


def compressed(world: World, section: Network | Server, v: Vector, key: int) -> Vector:
    """The message v as it arrives."""
    real = np.flatnonzero(world.shared_d.cpu().numpy())
    u = keyed_uniform(torch.tensor(key), len(v)).double().numpy()
    kept = max(1, round(section.compression_share * len(real)))
    arrives = np.zeros_like(v)
    match section.compression:
        case "top_k":
            # Magnitudes count to 12 bits; of equal ones, the first.
            bits = np.abs(v).astype(np.float32).view(np.int32).astype(np.int64)
            size = (bits + 2**10) // 2**11
            chosen = sorted(real, key=lambda place: (-size[place], place))[:kept]
            arrives[chosen] = v[chosen]
        case "random_k":
            chosen = sorted(real, key=lambda place: (u[place], place))[:kept]
            arrives[chosen] = v[chosen]
        case "int8":
            for first in range(0, len(v), 256):
                block = slice(first, first + 256)
                scale = np.abs(v[block]).max() / 127
                if scale > 0:
                    arrives[block] = np.floor(v[block] / scale + u[block]) * scale
        case _:
            raise SkerryError(
                f"the oracle implements the built-in compressions (got '{section.compression}')."
            )
    return arrives


class CompressedGossip:
    """The public copies that neighbours hold of each other, for every array that travels."""

    def __init__(self, world: World, experiment: Experiment, starts: list[Tensor]):
        self.world, self.network = world, experiment.network
        self.public = [[_vector(start) for _ in range(world.n)] for start in starts]
        gamma = self.network.consensus_stepsize
        if gamma is None:
            sparse = self.network.compression in ("top_k", "random_k")
            gamma = self.network.compression_share if sparse else 1.0
        self.gamma = gamma

    def mixed(self, a: list[Tensor], W: Tensor, t: int, step: int, number: int = 0) -> list[Tensor]:
        """The rows of an array after one gossip step."""
        known, n = self.public[number], self.world.n
        x = [_vector(a_i) for a_i in a]
        keys = self.world.compression_keys("links", t, step, number).tolist()
        for i in range(n):
            has_link = any(W[j, i] != 0 for j in range(n) if j != i)
            if has_link:
                known[i] = known[i] + compressed(self.world, self.network, x[i] - known[i], keys[i])
        weights = W.double().cpu().numpy()
        after = [
            x[i] + self.gamma * sum(weights[j, i] * (known[j] - known[i]) for j in range(n))
            for i in range(n)
        ]
        return [torch.from_numpy(x_i).to(a[0]) for x_i in after]


class CompressedServer:
    """The memory that the server and the devices share about the messages between them."""

    def __init__(self, world: World, experiment: Experiment, x0: Tensor):
        self.world, self.server, n = world, experiment.server, world.n
        start = _vector(x0)
        self.heard = [start for _ in range(n)]
        self.unsent = [np.zeros_like(start) for _ in range(n)]
        self.undelivered = [np.zeros_like(start) for _ in range(n)]
        self.left: dict[int, Vector] = {}

    def up(self, x: list[Tensor], sampled: list[int], t: int) -> dict[int, Tensor]:
        """The sampled models as the server receives them."""
        keys, received = self.world.compression_keys("up", t).tolist(), {}
        for i in sampled:
            whole = _vector(x[i]) - self.heard[i] + self.unsent[i]
            sent = whole
            if self.server.compressed != "down":
                sent = compressed(self.world, self.server, whole, keys[i])
            self.left[i] = whole - sent
            taken = self.heard[i] + self.undelivered[i] + sent
            received[i] = torch.from_numpy(taken).to(x[i])
        return received

    def down(self, x_i: Tensor, i: int, y: Tensor, beta: float, is_sampled: bool, t: int) -> Tensor:
        """The model of device i after the server has sent it y."""
        key = self.world.compression_keys("down", t).tolist()[0]
        received = _vector(y)
        if self.server.compressed != "up":
            change = compressed(self.world, self.server, received - self.heard[i], key)
            received = self.heard[i] + change
        if self.server.error_feedback and self.server.compressed != "up":
            part, missing = 1.0 if is_sampled else beta, _vector(y) - received
            self.undelivered[i] = (1 - part) * self.undelivered[i] + part * missing
        self.heard[i] = received
        if not is_sampled:
            after = (1 - beta) * _vector(x_i) + beta * received
        elif self.server.error_feedback and self.server.compressed != "down":
            after = received + (1 - beta) * self.left[i]
            self.unsent[i] = beta * self.left[i]
        else:
            after = received
        return torch.from_numpy(after).to(x_i)


def _vector(x: Tensor) -> Vector:
    return np.asarray(x.double().cpu().numpy())
