"""Mixing matrices W: the built-in weights, the rules every W must obey, and spectral gaps.

X holds a model per column and mixing is X W, so new x_i = sum_j W[j, i] x_j. W is doubly
stochastic, nonnegative, and zero where two devices share no link. The built-in W are symmetric.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

from skerry.errors import NetworkError
from skerry.network.links import GraphLike, Links

Matrix = npt.NDArray[np.float64] | sparse.csr_array
Vector = npt.NDArray[np.float64]

TOLERANCE = 1e-8
SINGLE_TOLERANCE = 2e-6
"""Largest errors of a row or column sum of W, and of one in single precision."""
DENSE = 512
"""Up to this size LAPACK is faster than Lanczos, and it always converges."""
LANCZOS: dict[str, Any] = {"k": 1, "tol": 1e-9, "ncv": 40, "maxiter": 20}


# Weights


def metropolis(graph: GraphLike) -> sparse.csr_array:
    """Metropolis-Hastings weights 1 / (1 + max(deg_i, deg_j)), which need local knowledge only."""
    links = Links.of(graph)
    return _symmetric(links, 1 / (1 + _larger_degrees(links)))


def max_degree(graph: GraphLike) -> sparse.csr_array:
    """The same weight 1 / (1 + largest degree) on every link."""
    links = Links.of(graph)
    return _symmetric(links, np.full(len(links.edges), 1 / (1 + links.degrees.max())))


def laplacian(graph: GraphLike) -> sparse.csr_array:
    """I - epsilon L with the best constant epsilon = 2 / (lambda_max(L) + lambda_2(L)), lowered
    to 1 / (largest degree) where W would have a negative entry.

    A graph with links down may have several connected pieces; each has its own epsilon.
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
    """The indices of the edges of each connected piece that has edges."""
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
    """W with these weights on the links; the diagonal completes each row to 1."""
    i, j = links.edges.T
    off_diagonal = np.bincount(i, weights, links.size) + np.bincount(j, weights, links.size)
    return _assemble(links, weights, np.maximum(1 - off_diagonal, 0))


def _assemble(links: Links, weights: Vector, diagonal: Vector) -> sparse.csr_array:
    """The symmetric matrix with these weights on the links and this diagonal."""
    (i, j), device = links.edges.T, np.arange(links.size)
    places = np.concatenate([i, j, device]), np.concatenate([j, i, device])
    values = np.concatenate([weights, weights, diagonal])
    return sparse.csr_array((values, places), shape=(links.size, links.size))


def _best_constant(links: Links) -> float:
    """epsilon of `laplacian` for a connected graph."""
    degrees = links.degrees
    L = _assemble(links, -np.ones(len(links.edges)), degrees.astype(np.float64))
    # lambda_max <= max(deg_i + deg_j) (Anderson and Morley 1985), with equality where Lanczos is
    # slowest to converge: even rings and tori.
    lambda_2, lambda_max = laplacian_extremes(
        L, bound=float(degrees[links.edges].sum(axis=1).max())
    )
    return float(min(2 / (lambda_max + lambda_2), 1 / degrees.max()))


# Rules


def check_mixing_matrix(W: Any, graph: GraphLike | None = None) -> sparse.csr_array:
    """Return W as a sparse float64 matrix; raise NetworkError unless it is doubly stochastic,
    nonnegative and zero between devices that `graph` does not link."""
    matrix = as_csr(W)
    is_single = str(getattr(W, "dtype", "")).endswith("float32")
    _check_doubly_stochastic(matrix, SINGLE_TOLERANCE if is_single else TOLERANCE)
    if graph is not None:
        _check_support(matrix, Links.of(graph))
    return matrix


_FIX = " Build W with skerry.network.mixing.metropolis(graph)."


def as_csr(W: Any) -> sparse.csr_array:
    """Convert a dense or sparse W to a sparse float64 matrix."""
    try:
        matrix = sparse.csr_array(W, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = None
    if matrix is None or matrix.ndim != 2:
        raise NetworkError(f"W must be a matrix of numbers (got {W!r:.40}).{_FIX}")
    return matrix


def _entry(W: sparse.csr_array, where: npt.NDArray[np.bool_]) -> str:
    entries = W.tocoo()
    k = np.flatnonzero(where)[0]
    return f"W[{entries.row[k]}, {entries.col[k]}] is {W.data[k]:.12g}"


def _check_doubly_stochastic(W: sparse.csr_array, tolerance: float) -> None:
    rows, columns = W.shape
    if rows != columns:
        raise NetworkError(f"W must be square (got {rows} x {columns}).{_FIX}")
    for rule, broken in (("finite", ~np.isfinite(W.data)), ("nonnegative", W.data < 0)):
        if broken.any():
            raise NetworkError(f"{_entry(W, broken)}; weights must be {rule}.{_FIX}")
    for line, axis in (("row", 1), ("column", 0)):
        sums = np.asarray(W.sum(axis=axis))
        wrong = np.flatnonzero(np.abs(sums - 1) > tolerance)
        if wrong.size:
            k = wrong[0]
            raise NetworkError(f"{line} {k} of W sums to {sums[k]:.12g}, not 1.{_FIX}")


def _check_support(W: sparse.csr_array, links: Links) -> None:
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
            f"{_entry(W, outside)}, but the graph has no such link; weights must be zero "
            f"between devices without a link.{_FIX}"
        )


# Spectral gaps


def smallest_eigenpair(A: Any, assemble: Callable[[], Any]) -> tuple[float, Vector]:
    """The smallest eigenvalue of A on the vectors that sum to zero, and its unit eigenvector.

    A is symmetric with eigenvalues in [0, 1] and A 1 = 0, such as I - W^T W. It may be a linear
    operator; `assemble` returns it as a sparse matrix, for the case that Lanczos does not converge.
    """
    size = A.shape[0]
    if size <= DENSE:
        # Constant vectors get an eigenvalue above all others, so that they are not the smallest.
        _, vectors = np.linalg.eigh(A @ np.eye(size) + 2 / size)
        v = vectors[:, 0]
    else:
        try:
            v = _lanczos(A)
        except ArpackNoConvergence:
            # A tiny gap means a small cut (Cheeger); such graphs factorise with little fill-in.
            v = _shift_invert(sparse.csc_array(assemble()))
    v = _center(v)
    v /= np.linalg.norm(v)
    return float(v @ (A @ v)), v


def _lanczos(A: Any) -> Vector:
    raised = LinearOperator(
        A.shape, matvec=lambda v: A @ v.ravel() + 2 * v.mean(), dtype=np.dtype(np.float64)
    )
    _, v = eigsh(raised, which="SA", v0=_start_vector(A.shape[0]), **LANCZOS)
    return np.asarray(v[:, 0])


def _shift_invert(A: sparse.csc_array) -> Vector:
    size = A.shape[0]
    shift = 1.0 / size**2  # A itself is singular
    factors = splu(
        sparse.csc_array(A + shift * sparse.eye_array(size)),
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    inverse = LinearOperator(
        A.shape,
        matvec=lambda v: _center(factors.solve(_center(v.ravel()))),
        dtype=np.dtype(np.float64),
    )
    _, v = eigsh(A, sigma=-shift, OPinv=inverse, v0=_start_vector(size), **LANCZOS)
    return np.asarray(v[:, 0])


def laplacian_extremes(L: Any, bound: float) -> tuple[float, float]:
    """lambda_2 and lambda_max of a connected graph's Laplacian L.

    `bound` is at least lambda_max, and replaces it where Lanczos does not converge.
    """
    size = L.shape[0]
    if size <= DENSE:
        values = np.linalg.eigvalsh(L.toarray())
        return float(values[1]), float(values[-1])
    gap, _ = smallest_eigenpair(L / bound, lambda: L / bound)
    try:
        top = eigsh(L, which="LA", v0=_start_vector(size), return_eigenvectors=False, **LANCZOS)[0]
    except ArpackNoConvergence:
        top = bound
    return bound * gap, float(top)


def _center(v: Vector) -> Vector:
    return np.asarray(v - v.mean())


def _start_vector(size: int) -> Vector:
    """A start vector without symmetry, the same in every run."""
    return _center(np.cos(np.arange(1, size + 1, dtype=np.float64) ** 2))
