"""The spectral gap of symmetric matrices that map constants to zero, at any size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

Vector = npt.NDArray[np.float64]

DENSE = 512  # up to here LAPACK beats Lanczos, and it never fails to converge
LANCZOS: dict[str, Any] = {"k": 1, "tol": 1e-9, "ncv": 40, "maxiter": 20}


def smallest_beside_constants(A: Any, assemble: Callable[[], Any]) -> tuple[float, Vector]:
    """The smallest eigenvalue of A on the vectors that sum to zero, and its unit eigenvector.

    A is symmetric with eigenvalues in [0, 1] and A 1 = 0, such as I - W^T W. It may be an operator
    that only multiplies; `assemble` gives the sparse matrix where multiplying is not enough.
    """
    size = A.shape[0]
    if size <= DENSE:
        # Constants get an eigenvalue above all others, so that the smallest is the one wanted.
        _, vectors = np.linalg.eigh(A @ np.eye(size) + 2 / size)
        v = vectors[:, 0]
    else:
        try:
            v = _by_multiplying(A)
        except ArpackNoConvergence:
            # A tiny gap means a small cut (Cheeger); such graphs factorise with little fill-in.
            v = _by_factorising(sparse.csc_array(assemble()))
    v = _centred(v)
    v /= np.linalg.norm(v)
    return float(v @ (A @ v)), v


def _by_multiplying(A: Any) -> Vector:
    raised = LinearOperator(
        A.shape, matvec=lambda v: A @ v.ravel() + 2 * v.mean(), dtype=np.dtype(np.float64)
    )
    _, v = eigsh(raised, which="SA", v0=_start(A.shape[0]), **LANCZOS)
    return np.asarray(v[:, 0])


def _by_factorising(A: sparse.csc_array) -> Vector:
    size = A.shape[0]
    shift = 1.0 / size**2  # A itself is singular
    factors = splu(
        sparse.csc_array(A + shift * sparse.eye_array(size)),
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    inverse = LinearOperator(
        A.shape,
        matvec=lambda v: _centred(factors.solve(_centred(v.ravel()))),
        dtype=np.dtype(np.float64),
    )
    _, v = eigsh(A, sigma=-shift, OPinv=inverse, v0=_start(size), **LANCZOS)
    return np.asarray(v[:, 0])


def extremes(L: Any, bound: float) -> tuple[float, float]:
    """lambda_2 and lambda_max of a connected graph's Laplacian.

    `bound` is at least lambda_max, and stands for it where Lanczos does not settle.
    """
    size = L.shape[0]
    if size <= DENSE:
        values = np.linalg.eigvalsh(L.toarray())
        return float(values[1]), float(values[-1])
    gap, _ = smallest_beside_constants(L / bound, lambda: L / bound)
    try:
        top = eigsh(L, which="LA", v0=_start(size), return_eigenvectors=False, **LANCZOS)[0]
    except ArpackNoConvergence:
        top = bound
    return bound * gap, float(top)


def _centred(v: Vector) -> Vector:
    return np.asarray(v - v.mean())


def _start(size: int) -> Vector:
    """A start vector without symmetry, the same in every run."""
    return _centred(np.cos(np.arange(1, size + 1, dtype=np.float64) ** 2))
