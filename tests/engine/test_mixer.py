"""Mixing on the compute device: pieces of neighbouring islands, and what they compute."""

import time

import numpy as np
import pytest
import torch

from skerry.config.experiment import Network
from skerry.engine.mixer import Mixer, Piece
from skerry.network import build_fleet
from skerry.network.fleet import Block

CPU = torch.device("cpu")


def pieces(**fields: object) -> list[Piece]:
    return Mixer(build_fleet(Network(**fields), 0), CPU, torch.float64)._pieces_of_round(0)


def test_neighbours_of_one_size_mix_as_one_piece():
    """Islands of one device have nothing to mix; what they part is two pieces."""
    found = pieces(devices=20, components=[3, 3, 4, 4, 1, 4, 1])
    assert [(one.start, one.size, len(one.weights)) for one in found] == [
        (0, 3, 2),
        (6, 4, 2),
        (15, 4, 1),
    ]
    assert [one.rows for one in found] == [slice(0, 6), slice(6, 14), slice(15, 19)]


def test_sparse_islands_mix_one_by_one():
    assert [len(one.weights) for one in pieces(devices=120, components=3)] == [1, 1, 1]


@pytest.mark.parametrize("dynamic", [False, True])
def test_mixing_in_pieces_is_mixing_by_w(dynamic: bool):
    sizes = [5, 5, 1, 40, 40, 5, 1, 3]
    network = Network(
        devices=100, components=sizes, topology="erdos_renyi", edge_prob=0.4, dynamic=dynamic
    )
    fleet = build_fleet(network, 0)
    X = torch.randn(100, 2, 7, dtype=torch.float64)
    exact = torch.from_numpy(fleet.matrix(3).T.toarray()) @ X.view(100, 14)
    Mixer(fleet, CPU, torch.float64).mix(X, 3)
    torch.testing.assert_close(X.view(100, 14), exact)


def test_islands_are_set_up_in_time_that_grows_with_their_number():
    """Not with its square: 100,000 of them took 20 seconds then, and take a third of one."""

    class Islands:
        fixed = True
        W = np.full((2, 2), 0.5)

        def blocks(self, t: int, some: slice) -> list[Block]:
            return [Block(2 * number, 2, self.W) for number in range(100_000)]

    before = time.perf_counter()
    (piece,) = Mixer(Islands(), CPU, torch.float32)._pieces_of_round(0)
    assert len(piece.weights) == 100_000
    assert time.perf_counter() - before < 5
