"""Mixing matrices W: their weights, their rules, and how fast they mix (the parameter p).

X holds a model per column and mixing is X W, so new x_i = sum_j W[j, i] x_j. W is doubly
stochastic, nonnegative, and zero where two devices share no link. The weights here are symmetric.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from skerry.errors import NetworkError
from skerry.network.links import GraphLike, Links
from skerry.network.spectrum import extremes, smallest_beside_constants

Matrix = npt.NDArray[np.float64] | sparse.csr_array

TOLERANCE = 1e-8


# Weights


def metropolis(graph: GraphLike) -> sparse.csr_array:
    """Metropolis-Hastings: w_ij = 1 / (1 + max(deg_i, deg_j)); local knowledge is enough."""
    links = Links.of(graph)
    return _symmetric(links, 1 / (1 + _larger_degrees(links)))


def max_degree(graph: GraphLike) -> sparse.csr_array:
    """The same weight 1 / (1 + largest degree) on every link."""
    links = Links.of(graph)
    return _symmetric(links, np.full(len(links.edges), 1 / (1 + links.degrees.max())))


def laplacian(graph: GraphLike) -> sparse.csr_array:
    """I - epsilon L with the best constant epsilon = 2 / (lambda_max(L) + lambda_2(L)), lowered
    to 1 / (largest degree) where W would have a negative entry.

    Every connected piece (a graph with links down may have several) has its own epsilon.
    """
    links = Links.of(graph)
    weights = np.empty(len(links.edges))
    known: dict[bytes, float] = {}  # links that fail leave many pieces alike
    for inside in _edges_by_piece(links):
        nodes, ends = np.unique(links.edges[inside], return_inverse=True)
        piece = Links(len(nodes), ends.reshape(-1, 2))
        shape = piece.edges.tobytes()
        if shape not in known:
            known[shape] = _best_constant(piece)
        weights[inside] = known[shape]
    return _symmetric(links, weights)


def _edges_by_piece(links: Links) -> list[npt.NDArray[np.intp]]:
    piece_of_edge = links.pieces[links.edges[:, 0]]
    order = np.argsort(piece_of_edge, kind="stable")
    ends = np.flatnonzero(np.diff(piece_of_edge[order])) + 1
    return np.split(order, ends) if order.size else []


def lazy(graph: GraphLike) -> sparse.csr_array:
    """(I + metropolis) / 2: slower, but without negative eigenvalues, so nothing oscillates."""
    links = Links.of(graph)
    return _symmetric(links, 0.5 / (1 + _larger_degrees(links)))


def _larger_degrees(links: Links) -> npt.NDArray[np.int64]:
    """For every link, the larger degree of its two ends."""
    return np.asarray(links.degrees[links.edges].max(axis=1))


def _symmetric(links: Links, weights: npt.NDArray[np.float64]) -> sparse.csr_array:
    """W with these weights on the links; the diagonal takes what is left of each row."""
    i, j = links.edges.T
    given = np.bincount(i, weights, links.size) + np.bincount(j, weights, links.size)
    device = np.arange(links.size)
    return sparse.csr_array(
        (
            np.concatenate([weights, weights, np.maximum(1 - given, 0)]),
            (np.concatenate([i, j, device]), np.concatenate([j, i, device])),
        ),
        shape=(links.size, links.size),
    )


def _best_constant(links: Links) -> float:
    i, j = links.edges.T
    degrees = links.degrees
    device = np.arange(links.size)
    L = sparse.csr_array(
        (
            np.concatenate([-np.ones(2 * len(i)), degrees]),
            (np.concatenate([i, j, device]), np.concatenate([j, i, device])),
        )
    )
    # lambda_max <= max(deg_i + deg_j) (Anderson and Morley 1985), with equality where Lanczos is
    # slowest to settle: even rings and tori.
    lambda_2, lambda_max = extremes(L, bound=float((degrees[i] + degrees[j]).max()))
    return float(min(2 / (lambda_max + lambda_2), 1 / degrees.max()))


# Rules


def verify(W: Any, graph: GraphLike | None = None) -> None:
    """Raise NetworkError unless W is doubly stochastic, nonnegative and inside the graph."""
    verified(W, graph)


def verified(W: Any, graph: GraphLike | None = None) -> sparse.csr_array:
    """W as a sparse float64 matrix, once it has passed every rule."""
    matrix = _as_csr(W)
    _verify_doubly_stochastic(matrix)
    if graph is not None:
        _verify_support(matrix, Links.of(graph))
    return matrix


_FIX = " Build W with skerry.network.mixing.metropolis(graph)."


def _as_csr(W: Any) -> sparse.csr_array:
    try:
        return sparse.csr_array(W, dtype=np.float64)
    except (TypeError, ValueError):
        raise NetworkError(f"W must be a matrix of numbers (got {W!r:.40}).{_FIX}") from None


def _entry(W: sparse.csr_array, where: npt.NDArray[np.bool_]) -> str:
    entries = W.tocoo()
    k = np.flatnonzero(where)[0]
    return f"W[{entries.row[k]}, {entries.col[k]}] is {W.data[k]:.12g}"


def _verify_doubly_stochastic(W: sparse.csr_array) -> None:
    rows, columns = W.shape
    if rows != columns:
        raise NetworkError(f"W must be square (got {rows} x {columns}).{_FIX}")
    if not np.isfinite(W.data).all():
        raise NetworkError(f"{_entry(W, ~np.isfinite(W.data))}; weights are finite.{_FIX}")
    if (W.data < 0).any():
        raise NetworkError(f"{_entry(W, W.data < 0)}; weights are nonnegative.{_FIX}")
    for line, axis in (("row", 1), ("column", 0)):
        sums = np.asarray(W.sum(axis=axis))
        wrong = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
        if wrong.size:
            k = wrong[0]
            raise NetworkError(f"{line} {k} of W sums to {sums[k]:.12g}, not 1.{_FIX}")


def _verify_support(W: sparse.csr_array, links: Links) -> None:
    if W.shape[0] != links.size:
        raise NetworkError(
            f"W must have a row for each of the {links.size} devices (got {W.shape[0]}).{_FIX}"
        )
    entries = W.tocoo()
    i, j = np.minimum(entries.row, entries.col), np.maximum(entries.row, entries.col)
    codes = links.edges[:, 0] * links.size + links.edges[:, 1]
    outside = (i != j) & (entries.data != 0) & ~np.isin(i.astype(np.int64) * links.size + j, codes)
    if outside.any():
        raise NetworkError(
            f"{_entry(W, outside)}, but the graph has no such link; weights are zero off the "
            f"links.{_FIX}"
        )


# Speed of mixing


def mixing_parameter(W: Any) -> float:
    """p = 1 - ||W - Pi||_2^2 of one component: a round of mixing keeps at most 1 - p of the
    squared disagreement. A lone device has no disagreement: 1."""
    size = W.shape[0]
    if size == 1:
        return 1.0
    # Assembled only where it must be: W^T W of a star is dense.
    loss = LinearOperator(
        (size, size),
        matvec=lambda v: v - W.T @ (W @ v),
        matmat=lambda V: V - W.T @ (W @ V),
        dtype=np.dtype(np.float64),
    )
    p, _ = smallest_beside_constants(loss, lambda: sparse.eye_array(size) - _as_csr(W.T @ W))
    return min(max(p, 0.0), 1.0)


def p_min(ps: Sequence[float], sizes: Sequence[int]) -> float:
    """The p that holds for every X: the smallest over the components of two or more devices."""
    return min((p for p, m in zip(ps, sizes, strict=True) if m >= 2), default=1.0)


def p_average(ps: Sequence[float], sizes: Sequence[int]) -> float:
    """The paper's average, weighted by n_c - 1. It holds for X = I only: with different
    components, use `p_min` in bounds."""
    directions = [m - 1 for m in sizes]
    if not any(directions):
        return 1.0
    return float(np.average(ps, weights=directions))


def p_frobenius(W: Any, components: int = 1) -> float:
    """1 - (||W||_F^2 - C) / (n - C): the mean loss over all directions. Never below `p_average`;
    for X = I only."""
    size = W.shape[0]
    if size == components:
        return 1.0
    norm_squared = float(np.square(_as_csr(W).data).sum())
    return 1 - (norm_squared - components) / (int(size) - components)


def expected_p(equally_likely: Sequence[Any]) -> float:
    """p = 1 - lambda_max(E[W W^T] - Pi) of a W that is one of these."""
    moment: Any = sum(_as_csr(W) @ _as_csr(W).T for W in equally_likely) / len(equally_likely)
    loss = sparse.csr_array(sparse.eye_array(moment.shape[0]) - moment)
    return max(0.0, smallest_beside_constants(loss, lambda: loss)[0])


def estimate_expected_p(draw: Callable[[int], Any], draws: int = 400) -> tuple[float, float]:
    """p = 1 - lambda_max(E[W W^T] - Pi) of a random W, and its standard error.

    The top eigenvalue of an average exceeds that of the expectation, because its direction fits
    the noise. So the direction v comes from the first half of the draws, and the mean of
    ||W^T v||^2 from the second.
    """
    check_draws(draws)
    half = draws // 2
    first_half = (_as_csr(draw(k)) for k in range(half))
    moment: Any = sum(W @ W.T for W in first_half) / half
    size = moment.shape[0]
    if size == 1:
        return 1.0, 0.0
    loss = sparse.csr_array(sparse.eye_array(size) - moment)
    _, v = smallest_beside_constants(loss, lambda: loss)
    losses = [1 - float(np.sum((draw(k).T @ v) ** 2)) for k in range(half, draws)]
    return float(np.mean(losses)), float(np.std(losses, ddof=1) / np.sqrt(len(losses)))


def check_draws(draws: int) -> None:
    if draws < 4:
        raise NetworkError(f"an estimate of p needs at least 4 draws (got {draws}). Raise draws.")
