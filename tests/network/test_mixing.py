"""Mixing matrices: doubly stochastic, inside the graph, and as fast as the closed forms say."""

from collections.abc import Callable
from itertools import product

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from skerry.errors import NetworkError
from skerry.network.contraction import (
    estimate_expected_p,
    mixing_parameter,
    p_average,
    p_frobenius,
    p_min,
)
from skerry.network.links import Links
from skerry.network.mixing import check_mixing_matrix, laplacian, lazy, max_degree, metropolis
from skerry.plugins import registry

WEIGHTS = [metropolis, max_degree, laplacian, lazy]


@st.composite
def graphs(draw: st.DrawFn, smallest: int = 1) -> nx.Graph:
    """Any simple graph, connected or not."""
    size = draw(st.integers(smallest, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    return nx.gnp_random_graph(size, draw(st.floats(0, 1)), seed=seed)


def ring_p(m: int) -> float:
    """1 - ((1 + 2 cos(2 pi/m))/3)^2 without its cancellation."""
    gap = 4 / 3 * np.sin(np.pi / m) ** 2
    return gap * (2 - gap)


def grid_2d(r: int, c: int, periodic: bool = False) -> nx.Graph:
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(r, c, periodic=periodic))


# Weights


@pytest.mark.parametrize("weights", WEIGHTS)
@settings(deadline=None, max_examples=40)
@given(graph=graphs())
def test_weights_are_doubly_stochastic(
    weights: Callable[[nx.Graph], sparse.csr_array], graph: nx.Graph
) -> None:
    """Every W is symmetric, nonnegative, doubly stochastic and zero off the links."""
    W = weights(graph)
    check_mixing_matrix(W, graph)
    assert W.dtype == np.float64
    assert np.array_equal(W.toarray(), W.toarray().T)


@pytest.mark.parametrize("weights", WEIGHTS)
@settings(deadline=None, max_examples=30)
@given(graph=graphs(smallest=2))
def test_weights_reach_consensus_on_a_connected_graph(
    weights: Callable[[nx.Graph], sparse.csr_array], graph: nx.Graph
) -> None:
    """p > 0 exactly where the graph is connected."""
    assert (mixing_parameter(weights(graph)) > 1e-9) == nx.is_connected(graph)


@settings(deadline=None, max_examples=30)
@given(graph=graphs())
def test_metropolis_is_its_formula(graph: nx.Graph) -> None:
    """w_ij = 1/(1 + max(deg_i, deg_j)) and w_ii >= 1/(1 + deg_i); lazy is half of it and I."""
    W = metropolis(graph).toarray()
    for i, j in graph.edges:
        assert W[i, j] == 1 / (1 + max(graph.degree[i], graph.degree[j]))
    for i in graph:
        assert W[i, i] >= 1 / (1 + graph.degree[i]) - 1e-15
    np.testing.assert_allclose(lazy(graph).toarray(), (np.eye(len(graph)) + W) / 2, atol=1e-15)


@settings(deadline=None, max_examples=30)
@given(graph=graphs(smallest=2))
def test_laplacian_weights_are_the_best_constant(graph: nx.Graph) -> None:
    """No other constant weight that keeps W nonnegative mixes a connected graph faster."""
    if not nx.is_connected(graph):
        return
    largest_degree = max(degree for _, degree in graph.degree)
    L = nx.laplacian_matrix(graph).toarray()
    p = mixing_parameter(laplacian(graph))
    for epsilon in np.linspace(0.01, 1, 40) / largest_degree:
        assert p >= mixing_parameter(np.eye(len(graph)) - epsilon * L) - 1e-9


def test_laplacian_treats_pieces_alone() -> None:
    """A pair cut off from the rest averages exactly, whatever the rest looks like."""
    pair_and_ring = nx.disjoint_union(nx.path_graph(2), nx.cycle_graph(5))
    W = laplacian(pair_and_ring).toarray()
    np.testing.assert_allclose(W[:2, :2], 0.5)
    np.testing.assert_allclose(W[2:, 2:], laplacian(nx.cycle_graph(5)).toarray())


@pytest.mark.parametrize("weights", WEIGHTS)
def test_graph_forms_agree(weights: Callable[[object], sparse.csr_array]) -> None:
    """A networkx graph, its adjacency matrix and its links have the same W."""
    graph = nx.gnp_random_graph(20, 0.3, seed=1)
    W = weights(graph).toarray()
    assert np.array_equal(W, weights(nx.to_scipy_sparse_array(graph, nodelist=range(20))).toarray())
    assert np.array_equal(W, weights(Links.of(graph)).toarray())


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1)]), r"undirected.*to_undirected"),
        (nx.Graph([(0, 1), (1, 1)]), r"self-loop at node 1"),
        (sparse.csr_array([[0, 1], [0, 0]]), r"symmetric"),
        (sparse.csr_array([[0, 1, 0], [1, 0, 0]]), r"square"),
        ([(0, 1)], r"networkx.Graph .*got list"),
        (nx.Graph(), r"at least one device"),
    ],
)
def test_bad_graphs(graph: object, message: str) -> None:
    """What is no undirected simple graph is refused."""
    with pytest.raises(NetworkError, match=message):
        metropolis(graph)


# Rules


def test_verify_names_what_is_wrong() -> None:
    """Each broken rule has its message, with the place, the value and the fix."""
    W = metropolis(nx.cycle_graph(20)).toarray()

    def changed(i: int, j: int, by: float) -> np.ndarray:
        other = W.copy()
        other[i, j] += by
        return other

    swapped = W[:, [1, 0, *range(2, 20)]]
    cases: list[tuple[object, str]] = [
        (W[:5], r"^W must be square \(got 5 x 20\)\."),
        (changed(17, 17, -0.017), r"^row 17 of W sums to 0\.983, not 1\. Build W with skerry"),
        (changed(3, 3, np.nan), r"^W\[3, 3\] is nan; weights must be finite"),
        (changed(3, 4, -1), r"^W\[3, 4\] is -0\.666.*nonnegative"),
        (swapped, r"^W\[2, 0\] is 0\.333.*the graph has no such link"),
        (metropolis(nx.cycle_graph(19)), r"a row for each of the 20 devices \(got 19\)"),
        ([["a"]], r"^W must be a matrix of numbers"),
    ]
    check_mixing_matrix(W, nx.cycle_graph(20))
    for bad, message in cases:
        with pytest.raises(NetworkError, match=message):
            check_mixing_matrix(bad, nx.cycle_graph(20))


def test_verify_checks_columns() -> None:
    """A row-stochastic matrix is not enough: columns must sum to one too."""
    with pytest.raises(NetworkError, match=r"^column 0 of W sums to 1\.5, not 1"):
        check_mixing_matrix([[1.0, 0.0], [0.5, 0.5]])


# Speed of mixing


@pytest.mark.parametrize(
    ("graph", "p"),
    [
        (nx.cycle_graph(4), 0.888889),
        (nx.cycle_graph(5), 0.709107),
        (nx.cycle_graph(6), 0.555556),
        (nx.cycle_graph(50), 0.010486),
        (nx.cycle_graph(100), 0.002629),
        (grid_2d(5, 10), 0.042572),
        (grid_2d(7, 7), 0.082916),
        (grid_2d(10, 10), 0.040639),
        (grid_2d(5, 10, periodic=True), 0.146950),
        (nx.path_graph(3), 0.555556),
        (nx.circulant_graph(50, [1, 2]), 0.031195),
        (nx.complete_graph(9), 1.0),
        (nx.empty_graph(1), 1.0),
        (nx.cycle_graph(3), 1.0),
    ],
)
def test_known_mixing_parameters(graph: nx.Graph, p: float) -> None:
    """p with Metropolis weights, to six digits."""
    assert mixing_parameter(metropolis(graph)) == pytest.approx(p, abs=6e-7)


@pytest.mark.parametrize("m", [4, 7, 50, 513, 3000, 10_000])
def test_ring_closed_form(m: int) -> None:
    """Dense and sparse solvers reach the closed form of rings, however small p is."""
    assert mixing_parameter(metropolis(nx.cycle_graph(m))) == pytest.approx(ring_p(m), rel=1e-8)


def test_ring_limit() -> None:
    """m^2 p -> 8 pi^2 / 3."""
    assert 1000**2 * mixing_parameter(metropolis(nx.cycle_graph(1000))) == pytest.approx(
        8 * np.pi**2 / 3, rel=1e-4
    )


@pytest.mark.parametrize(("r", "c"), [(3, 3), (4, 6), (5, 10), (25, 40)])
def test_torus_closed_form(r: int, c: int) -> None:
    """p of a torus follows from its Fourier modes."""
    modes = [
        (1 + 2 * np.cos(2 * np.pi * a / r) + 2 * np.cos(2 * np.pi * b / c)) / 5
        for a, b in product(range(r), range(c))
    ]
    assert mixing_parameter(metropolis(grid_2d(r, c, periodic=True))) == pytest.approx(
        1 - max(np.abs(modes[1:])) ** 2
    )


def test_fixed_random_regular_graphs() -> None:
    """p of a random 4-regular graph on 50 nodes is .277 on average, .032 its deviation."""
    ps = [mixing_parameter(metropolis(nx.random_regular_graph(4, 50, seed=s))) for s in range(100)]
    assert np.mean(ps) == pytest.approx(0.277, abs=4 * 0.032 / np.sqrt(100))
    assert np.std(ps) == pytest.approx(0.032, rel=0.3)


@settings(deadline=None, max_examples=30)
@given(size=st.integers(2, 15), seed=st.integers(0, 2**32 - 1))
def test_mixing_parameter_is_a_norm(size: int, seed: int) -> None:
    """p = 1 - ||W - Pi||_2^2 for any doubly stochastic W, symmetric or not, dense or sparse."""
    rng = np.random.default_rng(seed)
    permutations = [np.eye(size)[rng.permutation(size)] for _ in range(4)]
    W = np.tensordot(rng.dirichlet(np.ones(4)), permutations, axes=1)
    expected = 1 - np.linalg.norm(W - 1 / size, 2) ** 2
    assert mixing_parameter(W) == pytest.approx(expected, abs=1e-12)
    assert mixing_parameter(sparse.csr_array(W)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "graph",
    [
        nx.random_regular_graph(4, 600, seed=1),
        nx.barabasi_albert_graph(600, 2, seed=1),
        nx.star_graph(599),
        nx.path_graph(600),
        nx.complete_graph(520),
    ],
    ids=["regular", "hubs", "star", "path", "complete"],
)
def test_lanczos_agrees_with_lapack(graph: nx.Graph) -> None:
    """Above the size where W is decomposed whole, iteration finds the same p."""
    W = metropolis(graph)
    size = len(graph)
    assert size > 512
    assert mixing_parameter(W) == pytest.approx(
        1 - np.linalg.norm(W.toarray() - 1 / size, 2) ** 2, abs=1e-9
    )


def test_large_laplacian_weights() -> None:
    """The best constant of large graphs agrees with the closed form of rings."""
    m = 2000
    lambda_2 = 4 * np.sin(np.pi / m) ** 2
    assert laplacian(nx.cycle_graph(m))[0, 1] == pytest.approx(2 / (4 + lambda_2), rel=1e-9)


# Several islands


@st.composite
def fleets_of_weights(draw: st.DrawFn) -> list[np.ndarray]:
    return [
        metropolis(graph).toarray() for graph in draw(st.lists(graphs(), min_size=1, max_size=4))
    ]


@settings(deadline=None, max_examples=40)
@given(blocks=fleets_of_weights(), seed=st.integers(0, 2**32 - 1))
def test_p_min_holds_for_every_model(blocks: list[np.ndarray], seed: int) -> None:
    """||X W (I - Pi_C)||^2 <= (1 - p_min) ||X (I - Pi_C)||^2, with equality for some X."""
    sizes = [len(W) for W in blocks]
    n = sum(sizes)
    W = sparse.block_diag(blocks).toarray()
    Q = np.eye(n) - sparse.block_diag([np.full((m, m), 1 / m) for m in sizes]).toarray()
    kept = 1 - p_min([mixing_parameter(block) for block in blocks], sizes)
    X = np.random.default_rng(seed).normal(size=(3, n))
    assert np.linalg.norm(X @ W @ Q) ** 2 <= kept * np.linalg.norm(X @ Q) ** 2 + 1e-9
    assert np.linalg.norm(W @ Q, 2) ** 2 == pytest.approx(kept, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(blocks=fleets_of_weights())
def test_the_three_parameters_are_ordered(blocks: list[np.ndarray]) -> None:
    """p_min <= p_average <= p_frobenius."""
    sizes = [len(W) for W in blocks]
    ps = [mixing_parameter(W) for W in blocks]
    frobenius = p_frobenius(sparse.block_diag(blocks), islands=len(blocks))
    assert p_min(ps, sizes) <= p_average(ps, sizes) + 1e-12 <= frobenius + 2e-12


def test_lone_devices_are_left_out() -> None:
    """A lone device has no disagreement: it neither lowers p nor counts in the average."""
    assert p_min([0.3, 0.0], [5, 1]) == 0.3
    assert p_average([0.3, 0.0], [5, 1]) == 0.3
    assert p_min([1.0, 1.0], [1, 1]) == p_average([1.0, 1.0], [1, 1]) == 1.0
    assert p_frobenius(np.eye(2), islands=2) == 1.0


def test_p_average_does_not_hold_for_every_model() -> None:
    """K_2 beside a path of three contracts v = (0, 0, 1, 0, -1) by less than p_average claims."""
    sizes = [2, 3]
    blocks = [metropolis(nx.path_graph(m)) for m in sizes]
    ps = [mixing_parameter(W) for W in blocks]
    v = np.array([0, 0, 1, 0, -1])
    mixed = v @ sparse.block_diag(blocks)
    kept = (mixed @ mixed) / (v @ v)
    assert kept == pytest.approx(0.444444, abs=1e-6)
    assert 1 - p_average(ps, sizes) == pytest.approx(0.296296, abs=1e-6)
    assert kept <= 1 - p_min(ps, sizes) + 1e-12


# Random W


def test_estimate_is_unbiased() -> None:
    """Direction and quotient from different draws leave no bias; the plain average has one."""

    def draw(k: int) -> sparse.csr_array:
        return metropolis(nx.random_regular_graph(4, 50, seed=k))

    p, error = estimate_expected_p(draw, 300)
    assert 0 < error < 0.005
    assert p == pytest.approx(0.816327, abs=4 * error)
    average = sum((W @ W.T).toarray() for W in map(draw, range(300))) / 300
    assert 1 - np.linalg.norm(average - 1 / 50, 2) < 0.816327 - 4 * error


def test_estimate_of_a_fixed_matrix_is_exact() -> None:
    """Where nothing is random, the estimate is p and its error zero."""
    W = metropolis(nx.path_graph(6))
    p, error = estimate_expected_p(lambda k: W, 10)
    assert p == pytest.approx(mixing_parameter(W))
    assert error == pytest.approx(0, abs=1e-15)
    assert estimate_expected_p(lambda k: sparse.eye_array(1), 4) == (1.0, 0.0)
    with pytest.raises(NetworkError, match="at least 4 draws"):
        estimate_expected_p(lambda k: W, 3)


def test_estimate_of_asymmetric_matrices() -> None:
    """Models multiply W from the left, so it is E[W W^T] that counts, not E[W^T W]."""
    shift = np.roll(np.eye(5), 1, axis=1)
    swap = np.eye(5)[[1, 0, 2, 3, 4]]
    W = (np.eye(5) + shift) @ (np.eye(5) + swap) / 4
    values = [W, W @ shift]
    left = sum(V @ V.T for V in values) / 2
    p, _ = estimate_expected_p(lambda k: values[k % 2], 8)
    assert p == pytest.approx(1 - np.linalg.norm(left - 1 / 5, 2))
    right = sum(V.T @ V for V in values) / 2
    assert abs(p - (1 - np.linalg.norm(right - 1 / 5, 2))) > 0.01


def test_every_weight_is_registered() -> None:
    """The registry and these tests know the same weights."""
    assert {registry.resolve("mixing", name) for name in registry.KINDS["mixing"]} == set(WEIGHTS)


@pytest.mark.parametrize("single", [np.float32, torch.float32])
def test_w_may_be_in_single_precision(single):
    """Rounding of single precision is no error of W; a larger error is."""
    W = metropolis(nx.gnp_random_graph(40, 0.3, seed=1)).toarray()
    W = W.astype(single) if single is np.float32 else torch.from_numpy(W).to(single)
    assert abs(check_mixing_matrix(W).sum(axis=0) - 1).max() > 1e-8
    with pytest.raises(NetworkError, match="sums to"):
        check_mixing_matrix(W * 1.0001)
