"""Topologies: right nodes, connected, of the right shape, and the same for the same stream."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network import topologies
from skerry.network.islands import draw_island
from skerry.network.topologies import most_square
from skerry.plugins import registry
from skerry.plugins.context import Context

SMALLEST = {"regular": 5, "watts_strogatz": 5, "barabasi_albert": 5}
SHAPES = [name for name in registry.KINDS["topology"] if name not in {*SMALLEST, "erdos_renyi"}]


def draw(name: str, size: int, seed: int = 0, **fields: object) -> nx.Graph:
    network = Network(topology=name, **fields)
    return draw_island(size, network, np.random.default_rng(seed), Context()).to_graph()


@pytest.mark.parametrize("name", registry.KINDS["topology"])
@settings(deadline=None, max_examples=25)
@given(size=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_island_contract(name: str, size: int, seed: int) -> None:
    """Every topology gives one connected simple graph on exactly the nodes 0..size-1."""
    size = max(size, SMALLEST.get(name, 1))
    graph = draw(name, size, seed, edge_prob=0.5)
    assert list(graph) == list(range(size))
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    assert not graph.is_directed()
    assert not graph.is_multigraph()


@pytest.mark.parametrize("name", registry.KINDS["topology"])
def test_same_stream_same_graph(name: str) -> None:
    """A graph is a function of its stream alone."""
    assert nx.utils.edges_equal(draw(name, 20, 7).edges, draw(name, 20, 7).edges)


@pytest.mark.parametrize("name", ["regular", "erdos_renyi", "watts_strogatz", "barabasi_albert"])
def test_other_stream_other_graph(name: str) -> None:
    """Random topologies really draw."""
    assert set(draw(name, 30, 1).edges) != set(draw(name, 30, 2).edges)


@pytest.mark.parametrize("name", SHAPES)
def test_pairs(name: str) -> None:
    """Two devices have one link in every shape."""
    assert draw(name, 2).number_of_edges() == 1


@pytest.mark.parametrize(
    ("size", "sides"), [(50, (5, 10)), (49, (7, 7)), (100, (10, 10)), (7, (1, 7)), (1, (1, 1))]
)
def test_most_square(size: int, sides: tuple[int, int]) -> None:
    """A grid is as square as its number of devices allows."""
    assert most_square(size) == sides


def test_shapes_are_what_they_are_called() -> None:
    """Shapes are those of networkx; a prime grid is a path and a prime torus a ring."""
    assert nx.is_isomorphic(draw("ring", 6), nx.cycle_graph(6))
    assert nx.is_isomorphic(draw("star", 6), nx.star_graph(5))
    assert nx.is_isomorphic(draw("grid", 12), nx.grid_2d_graph(3, 4))
    assert nx.is_isomorphic(draw("grid", 7), nx.path_graph(7))
    assert nx.is_isomorphic(draw("torus", 7), nx.cycle_graph(7))
    assert nx.is_isomorphic(draw("torus", 12), nx.grid_2d_graph(3, 4, periodic=True))
    assert nx.is_isomorphic(draw("torus", 4), nx.cycle_graph(4))
    assert draw("complete", 6).number_of_edges() == 15


def test_degrees() -> None:
    """network.degree is every device's in regular, the mean in watts_strogatz, and about the
    mean in barabasi_albert."""
    assert set(dict(draw("regular", 20, degree=3).degree).values()) == {3}
    assert draw("watts_strogatz", 20, degree=4).number_of_edges() == 40
    assert draw("barabasi_albert", 50, degree=4).number_of_edges() == 2 * (50 - 2)


@pytest.mark.parametrize("degree", [42, 48, 49])
def test_nearly_complete_regular_graphs_are_drawn_at_once(degree: int) -> None:
    """Where networkx would try for minutes."""
    graph = draw("regular", 50, degree=degree)
    assert list(graph) == list(range(50))
    assert set(dict(graph.degree).values()) == {degree}
    assert degree == 49 or set(graph.edges) != set(draw("regular", 50, 1, degree=degree).edges)


def test_dynamic_graphs_need_not_be_connected() -> None:
    """A fresh graph is drawn once, connected or not."""
    assert not nx.is_connected(draw("erdos_renyi", 50, edge_prob=0.01, dynamic=True))


@pytest.mark.parametrize(
    ("name", "size", "fields", "message"),
    [
        ("regular", 5, {"degree": 3}, r"must be even .*got 3 x 5.*Change network.degree"),
        ("regular", 4, {"degree": 4}, r"below the size .*got 4 with an island of 4.*Lower"),
        ("watts_strogatz", 2, {"degree": 2}, r"below the size of every island"),
        ("barabasi_albert", 3, {"degree": 4}, r"below the size of every island"),
        ("regular", 6, {"degree": 1}, r"200 draws of regular .*degree = 1 on 6.*Raise network.deg"),
        ("erdos_renyi", 50, {"edge_prob": 0.01}, r"edge_prob = 0.01 on 50.*Raise network.edge_p"),
    ],
)
def test_impossible_graphs(name: str, size: int, fields: dict[str, float], message: str) -> None:
    """A graph that cannot be drawn is refused in one line that says how to mend it."""
    with pytest.raises(NetworkError, match=message) as caught:
        draw_island(size, Network(topology=name, **fields), np.random.default_rng(0), Context())
    assert "\n" not in str(caught.value)


def test_every_topology_is_registered() -> None:
    """The registry names functions of the topologies module."""
    for name, reference in registry.KINDS["topology"].items():
        assert reference.partition("(")[0] == f"skerry.network.topologies:{name}"
        assert callable(getattr(topologies, name))
