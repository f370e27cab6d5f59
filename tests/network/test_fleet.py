"""The fleet: islands side by side, W(t) from (seed, t) alone, islands from any graph."""

from itertools import permutations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network import mixing
from skerry.network.contraction import estimate_expected_p
from skerry.network.fleet import Fleet, build_fleet, graph_fingerprint
from skerry.network.links import Links
from skerry.plugins import registry
from skerry.seeds import stream


def fleet(seed: int = 0, graph: nx.Graph | None = None, **fields: object) -> Fleet:
    return build_fleet(Network(**fields), seed, graph)


def expected_p(Ws: list[np.ndarray], chances: np.ndarray) -> float:
    """1 - lambda_max(E[W W^T] - Pi) of a W with these values."""
    moment = sum(chance * W @ W.T for chance, W in zip(chances, Ws, strict=True))
    return float(1 - np.linalg.eigvalsh(moment - 1 / len(moment))[-1])


# Structure


def test_islands_lie_side_by_side() -> None:
    """Sizes, starts and islands number the devices 0..n-1 in order."""
    islands = fleet(devices=9, components=(4, 1, 4))
    assert (islands.sizes, islands.devices, islands.starts) == ((4, 1, 4), 9, (0, 4, 5))
    assert islands.island_of.tolist() == [0, 0, 0, 0, 1, 2, 2, 2, 2]
    assert islands.labels == tuple("012345678")
    assert islands.edges(0).tolist() == [
        [0, 1], [0, 3], [1, 2], [2, 3], [5, 6], [5, 8], [6, 7], [7, 8],
    ]  # fmt: skip
    assert islands.links(0) == 8
    assert [(b.start, b.size) for b in islands.blocks(0)] == [(0, 4), (4, 1), (5, 4)]


@pytest.mark.parametrize(
    ("name", "weights"), list(product(registry.KINDS["topology"], registry.KINDS["mixing"]))
)
@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 2**32),
    t=st.integers(0, 1000),
    sizes=st.lists(st.integers(5, 14), min_size=1, max_size=3),
    dynamic=st.booleans(),
    failure=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_every_round_is_doubly_stochastic(
    name: str, weights: str, seed: int, t: int, sizes: list[int], dynamic: bool, failure: float
) -> None:
    """W(t) obeys every rule inside the links of round t, whatever is drawn and whatever fails."""
    drawn = fleet(
        seed,
        devices=sum(sizes),
        components=tuple(sizes),
        topology=name,
        mixing=weights,
        edge_prob=0.5,
        dynamic=dynamic,
        link_failure=failure,
    )
    W, graph = drawn.matrix(t), drawn.graph(t)
    mixing.check_mixing_matrix(W, graph)
    crossing = [
        (i, j) for i, j in graph.edges if graph.nodes[i]["island"] != graph.nodes[j]["island"]
    ]
    assert crossing == []
    assert drawn.links(t) == len(drawn.edges(t)) == graph.number_of_edges()
    assert drawn.fixed == (not dynamic and failure == 0)


def test_blocks_are_the_matrix() -> None:
    """Dense blocks, sparse blocks and the whole matrix hold the same weights."""
    mixed = fleet(devices=700, components=(600, 100), topology="grid")
    large, small = mixed.blocks(0)
    assert isinstance(large.W, sparse.csr_array)
    assert isinstance(small.W, np.ndarray)
    W = mixed.matrix(0).toarray()
    assert np.array_equal(W[:600, :600], large.W.toarray())
    assert np.array_equal(W[600:, 600:], small.W)
    assert not W[:600, 600:].any()


def test_dense_large_blocks_stay_dense() -> None:
    """A large island with most links present is stored dense."""
    (block,) = fleet(devices=300, components=1, topology="complete").blocks(0)
    np.testing.assert_allclose(block.W, 1 / 300)


def test_fixed_blocks_are_kept_and_shared() -> None:
    """A fixed fleet computes W once, and islands with the same links share it."""
    rings = fleet(devices=10_000, components=100)
    assert rings.blocks(0) is rings.blocks(57)
    assert len({id(block.W) for block in rings.blocks(0)}) == 1
    assert rings.mixing_parameters().minimum == pytest.approx(0.002629, abs=5e-7)


def test_one_large_ring() -> None:
    """Ten thousand devices on one ring need no dense matrix, and p is exact."""
    ring = fleet(devices=10_000, components=1)
    (block,) = ring.blocks(0)
    assert isinstance(block.W, sparse.csr_array)
    assert block.W.nnz == 30_000
    gap = 4 / 3 * np.sin(np.pi / 10_000) ** 2
    assert ring.mixing_parameters().minimum == pytest.approx(gap * (2 - gap), rel=1e-6)


# Streams


@pytest.mark.parametrize("fields", [{"dynamic": True}, {"link_failure": 0.2}, {}])
@pytest.mark.parametrize("topology", ["erdos_renyi", "ring"])
def test_rounds_depend_on_seed_and_round_alone(topology: str, fields: dict[str, object]) -> None:
    """Rounds asked for in any order, from any fleet of the same settings, are the same."""
    first = fleet(3, devices=24, topology=topology, **fields)
    second = fleet(3, devices=24, topology=topology, **fields)
    forward = [first.matrix(t).toarray() for t in range(5)]
    backward = [second.matrix(t).toarray() for t in reversed(range(5))]
    assert np.array_equal(forward, backward[::-1])


@pytest.mark.parametrize("fields", [{"dynamic": True}, {"link_failure": 0.2}])
def test_rounds_and_seeds_differ(fields: dict[str, object]) -> None:
    """Other rounds and other seeds have other links."""
    one, other = (fleet(seed, devices=40, **fields) for seed in (0, 1))
    assert not np.array_equal(one.edges(0), one.edges(1))
    assert not np.array_equal(one.edges(0), other.edges(0))


def test_islands_have_their_own_graphs() -> None:
    """Two random islands of the same size are drawn apart."""
    for dynamic in (False, True):
        first, second = fleet(devices=40, topology="regular", dynamic=dynamic).blocks(0)
        assert not np.array_equal(first.W, second.W)


def test_a_fresh_shape_is_dealt_anew() -> None:
    """A dynamic ring is a ring in every round, with devices in other places."""
    rings = fleet(devices=12, components=1, dynamic=True)
    assert len({rings.edges(t).tobytes() for t in range(20)}) == 20
    assert all(nx.is_isomorphic(rings.graph(t), nx.cycle_graph(12)) for t in range(20))


def test_links_fail_independently_with_the_given_probability() -> None:
    """The links of a round are those whose draw, in sorted order, is at least link_failure."""
    whole = fleet(devices=60, topology="complete").edges(0)
    failing = fleet(5, devices=60, topology="complete", link_failure=0.3)
    for t in range(3):
        up = stream(5, "links", t).random(len(whole)) >= 0.3
        assert np.array_equal(failing.edges(t), whole[up])
    counts = [failing.links(t) for t in range(100)]
    deviation = np.sqrt(0.3 * 0.7 * len(whole) / 100)
    assert np.mean(counts) == pytest.approx(0.7 * len(whole), abs=4 * deviation)


# Mixing parameters


def test_fixed_fleets_are_exact() -> None:
    """Different islands have their own p; the minimum and the average follow."""
    found = fleet(graph=nx.disjoint_union(nx.path_graph(2), nx.path_graph(3))).mixing_parameters()
    assert found.per_island == pytest.approx((1, 5 / 9))
    assert found.minimum == pytest.approx(5 / 9)
    assert found.average == pytest.approx((1 + 2 * 5 / 9) / 3)
    assert found.frobenius >= found.average
    assert (found.method, found.standard_error) == ("exact", 0)


def test_lone_devices_have_nothing_to_mix() -> None:
    """A fleet of lone devices has p = 1, however it is drawn."""
    for fields in ({}, {"dynamic": True}, {"link_failure": 0.5}):
        found = fleet(devices=3, components=3, **fields).mixing_parameters()
        assert found.minimum == found.average == found.frobenius == 1


def test_fresh_regular_graphs_have_the_closed_form() -> None:
    """Fresh 4-regular graphs on 50 devices have p = .816327, without a draw: E[W W^T] has 1/5 on
    its diagonal, and equal parts of the rest beside it."""
    found = fleet(devices=100, topology="regular", dynamic=True).mixing_parameters()
    assert found.minimum == pytest.approx(1 - (1 / 5 - (1 - 1 / 5) / 49))
    assert (found.method, found.standard_error) == ("closed form", 0)


@pytest.mark.parametrize("weights", ["metropolis", "laplacian"])
@pytest.mark.parametrize("shape", ["path", "star", "ring"])
def test_fresh_shapes_have_a_closed_form(shape: str, weights: str) -> None:
    """Dealing places at random, p is that of the average over all permutations."""
    network = Network(devices=5, components=1, topology=shape, mixing=weights)
    W = build_fleet(network, 0).matrix(0).toarray()
    dealt = [W[np.ix_(order, order)] for order in map(list, permutations(range(5)))]
    fresh = fleet(devices=5, components=1, topology=shape, mixing=weights, dynamic=True)
    found = fresh.mixing_parameters()
    assert found.method == "closed form"
    assert found.minimum == pytest.approx(expected_p(dealt, np.full(120, 1 / 120)))


def test_failing_links_are_estimated() -> None:
    """The estimate for failing links agrees with the sum over all sets of links that are up."""
    q, size = 0.3, 4
    links = Links.of(nx.cycle_graph(size))
    patterns = np.array(list(product([False, True], repeat=4)))
    Ws = [mixing.metropolis(links.only(up)).toarray() for up in patterns]
    chances = np.prod(np.where(patterns, 1 - q, q), axis=1)
    found = fleet(devices=4, components=1, link_failure=q).mixing_parameters(draws=1500)
    assert found.method == "estimated"
    assert 0 < found.standard_error < 0.02
    assert found.minimum == pytest.approx(expected_p(Ws, chances), abs=4 * found.standard_error)
    mean_square = chances @ [np.square(W).sum() for W in Ws]
    assert found.frobenius == pytest.approx(1 - (mean_square - 1) / 3, abs=0.05)


@pytest.mark.parametrize(
    "fields",
    [
        {"topology": "ring", "link_failure": 0.3},
        {"topology": "regular", "mixing": "laplacian"},
        {"topology": "watts_strogatz"},
    ],
)
def test_no_closed_form_where_the_norm_varies(fields: dict[str, object]) -> None:
    """Fresh graphs whose ||W||_F differs from round to round are estimated."""
    found = fleet(devices=20, components=1, dynamic=True, **fields).mixing_parameters(draws=20)
    assert found.method == "estimated"
    assert found.standard_error > 0
    assert found.minimum == found.frobenius


def test_fresh_random_graphs_are_estimated() -> None:
    """For random graphs with places dealt anew, the scalar estimate agrees with the general one."""
    fresh = fleet(devices=12, components=1, topology="erdos_renyi", dynamic=True, edge_prob=0.4)
    found = fresh.mixing_parameters(draws=300)
    p, error = estimate_expected_p(fresh.matrix, 600)
    assert found.method == "estimated"
    assert found.minimum == pytest.approx(p, abs=4 * (error + found.standard_error))
    with pytest.raises(NetworkError, match="at least 4 draws"):
        fresh.mixing_parameters(draws=1)


# A given graph


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 15), chance=st.floats(0, 0.5), seed=st.integers(0, 2**32 - 1))
def test_connected_components_of_a_graph_are_the_islands(
    size: int, chance: float, seed: int
) -> None:
    """Devices are renumbered so that islands are contiguous; labels lead back to the graph."""
    original = nx.gnp_random_graph(size, chance, seed=seed)
    order = np.random.default_rng(seed).permutation(size).tolist()
    graph = nx.Graph()
    graph.add_nodes_from(f"device {node}" for node in order)
    graph.add_edges_from((f"device {i}", f"device {j}") for i, j in original.edges)

    islands = fleet(graph=graph)
    labels = islands.labels
    restored = {frozenset((labels[i], labels[j])) for i, j in islands.edges(0)}
    assert restored == {frozenset(edge) for edge in graph.edges}
    nodes = list(graph)
    expected = [sorted(part, key=nodes.index) for part in nx.connected_components(graph)]
    found = [labels[s : s + m] for s, m in zip(islands.starts, islands.sizes, strict=True)]
    assert [list(part) for part in found] == expected
    mixing.check_mixing_matrix(islands.matrix(0), islands.graph(0))


def test_circulant_graph() -> None:
    """A user's own graph has the p that theory gives it: C50(1, 2), twice."""
    circulant = nx.circulant_graph(50, [1, 2])
    two = fleet(graph=nx.disjoint_union(circulant, circulant))
    assert two.sizes == (50, 50)
    assert two.mixing_parameters().minimum == pytest.approx(0.031195, abs=5e-7)


def test_sizes_asked_for_must_match_the_graph() -> None:
    """Defaults give way to the graph; sizes the user wrote must be the graph's."""
    graph = nx.disjoint_union(nx.path_graph(2), nx.path_graph(3))
    assert fleet(graph=graph).devices == 5
    assert fleet(graph=graph, devices=5, components=2).sizes == (2, 3)
    assert fleet(graph=graph, components=(2, 3)).sizes == (2, 3)
    for fields, message in [
        ({"devices": 6}, r"network.devices must match the graph \(got 6, the graph has 5\)"),
        ({"components": 3}, r"network.components must match .*got 3, the graph has 2"),
        ({"components": (3, 2)}, r"network.components must match .*got \(3, 2\)"),
        ({"dynamic": True}, r"dynamic = true needs a topology.*link_failure"),
    ]:
        with pytest.raises(NetworkError, match=message):
            fleet(graph=graph, **fields)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph(), "at least one device"),
        (nx.DiGraph([("a", "b")]), "undirected"),
        (nx.Graph([("a", "b"), ("a", "a")]), "self-loop"),
        ([("a", "b")], "must be a networkx.Graph"),
    ],
)
def test_bad_graphs_are_refused(graph: object, message: str) -> None:
    """A graph that holds no simple undirected links is refused in one line."""
    with pytest.raises(NetworkError, match=message):
        fleet(graph=graph)


def test_graphs_for_drawing_keep_labels() -> None:
    """The drawn graph carries island and original label."""
    drawn = fleet(graph=nx.Graph([("lighthouse", "harbour"), ("farm", "mill")])).graph(0)
    assert drawn.nodes[2] == {"island": 1, "label": "farm"}


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_fingerprint_is_of_structure(seed: int) -> None:
    """Labels do not change a fingerprint, numbering for the fleet does not, a link does."""
    graph = nx.gnp_random_graph(10, 0.2, seed=seed)
    assume(graph.number_of_edges() > 0)
    named = nx.relabel_nodes(graph, {i: f"n{i}" for i in range(10)})
    assert (
        graph_fingerprint(graph)
        == graph_fingerprint(named)
        == graph_fingerprint(fleet(graph=graph).graph(0))
    )
    fewer = graph.copy()
    fewer.remove_edge(*next(iter(graph.edges)))
    assert graph_fingerprint(fewer) != graph_fingerprint(graph)


def test_fingerprint_of_edges() -> None:
    """Edge arrays have fingerprints too, in any order; a further lone device changes a graph's."""
    edges = np.array([[0, 1], [1, 2]])
    assert (
        graph_fingerprint(edges)
        == graph_fingerprint(edges[::-1, ::-1])
        == graph_fingerprint(nx.path_graph(3))
    )
    lonely = nx.path_graph(3)
    lonely.add_node(3)
    assert graph_fingerprint(lonely) != graph_fingerprint(edges)
    assert len(graph_fingerprint(edges)) == 64
