"""The server's step as a matrix, and its exact effect on disagreement and bias.

X is d x n, one column per device; mixing acts from the right, X W. Islands are contiguous: sizes
(2, 3) means devices 0-1 and devices 2-4. Symbols: n devices, K sampled, Pi = 11^T/n, and Pi_C the
average inside each island.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.errors import SkerryError

Array: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = float | Array
Moments: TypeAlias = tuple[float, float, float]


class Split(NamedTuple):
    """Disagreement inside islands and between them; their sum is the total."""

    intra: float
    inter: float


def delta(n: npt.ArrayLike, K: npt.ArrayLike) -> Numbers:
    """Expected share of disagreement that S2S leaves, (n-K)/(n-1)."""
    n, K = check_sampled(n, K)
    return ((n - K) / np.maximum(n - 1, 1))[()]


def kappa(n: npt.ArrayLike, K: npt.ArrayLike) -> Numbers:
    """Expected bias of S2A as a share of the disagreement, (n-K)/(K(n-1))."""
    return delta(n, K) / np.asarray(K, float)


def q(n: npt.ArrayLike, K: npt.ArrayLike) -> Numbers:
    """q = 1/(1-delta) = (n-1)/(K-1); infinite if K = 1 < n."""
    n, K = check_sampled(n, K)
    alone = n == 1
    with np.errstate(divide="ignore"):
        return (np.where(alone, 1.0, n - 1) / np.where(alone, 1.0, K - 1))[()]


def Pi(n: int) -> Array:
    """Matrix 11^T/n: every device takes the global average."""
    return np.full((n, n), 1 / n)


def Pi_C(sizes: Sequence[int]) -> Array:
    """Matrix with which every device takes the average of its island."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    same = labels[:, None] == labels
    return np.asarray(same / np.repeat(np.asarray(sizes, float), sizes))


def W_s2s(n: int, sampled: Sequence[int]) -> Array:
    """Matrix of S2S, I - diag(s) + s s^T/K: sampled devices take their average, others stay."""
    return W_blend(n, sampled, 0.0)


def W_s2a(n: int, sampled: Sequence[int]) -> Array:
    """Matrix of S2A, s 1^T/K: every device takes the average of the sampled ones."""
    return W_blend(n, sampled, 1.0)


def W_blend(n: int, sampled: Sequence[int], beta: float) -> Array:
    """Matrix of blend: sampled devices take their average, others move towards it by beta."""
    if not sampled or len(set(sampled)) < len(sampled) or not set(sampled) <= set(range(n)):
        raise SkerryError(
            f"sampled must name at least one device, each once, from 0 to {n - 1} "
            f"(got {list(sampled)}). Draw K distinct devices."
        )
    check_beta(beta)
    s = np.zeros(n)
    s[list(sampled)] = 1
    kept = (1 - beta) * np.diag(1 - s)
    return np.asarray(kept + np.outer(s, s + beta * (1 - s)) / s.sum())


def disagreement(X: npt.ArrayLike) -> float:
    """Disagreement ||X(I - Pi)||_F^2 of the columns of X [d, n]."""
    X = np.asarray(X, float)
    return float(np.sum((X - X.mean(axis=-1, keepdims=True)) ** 2))


def split_disagreement(X: npt.ArrayLike, sizes: Sequence[int]) -> Split:
    """Disagreement ||X(I - Pi_C)||_F^2 inside islands and ||X(Pi_C - Pi)||_F^2 between them."""
    X = np.asarray(X, float)
    island_means = X @ Pi_C(sizes)
    return Split(float(np.sum((X - island_means) ** 2)), disagreement(island_means))


def bias(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """Bias ||Xbar_after - Xbar_before||_F^2: n times the squared move of the global average."""
    before, after = np.asarray(before, float), np.asarray(after, float)
    return float(after.shape[-1] * np.sum((after.mean(axis=-1) - before.mean(axis=-1)) ** 2))


def best_beta(disagreement_weight: float, bias_weight: float, K: int) -> float:
    """The beta that minimises `a D + b bias` after one server round: a/(a + b/K)."""
    a, b = disagreement_weight, bias_weight
    if min(a, b) < 0 or a + b <= 0 or K < 1:
        raise SkerryError(
            f"best_beta needs weights of at least 0, not both 0, and K of at least 1 "
            f"(got {a}, {b}, K = {K}). Give the weights of disagreement and of bias."
        )
    return a / (a + b / K)


def expected_gram(G: npt.ArrayLike, K: int, beta: float = 0.0) -> Array:
    """Expected centred Gram matrix after one blend, from the centred one before.

    With G = (X - Xbar)^T (X - Xbar): `(1-beta)^2 E[W G W]`, W = W_s2s. Uniform sampling treats
    devices alike, so the mean is `a G + b Diag(G) + c tr(G) I`, centred again.
    """
    G = np.asarray(G, float)
    n = len(G)
    a, b, c = sampling_moments(n, K)
    centre = np.eye(n) - Pi(n)
    mixed = a * G + np.diag(b * np.diag(G) + c * np.trace(G))
    return np.asarray((1 - beta) ** 2 * centre @ mixed @ centre)


def exchange_matrix(sizes: Sequence[int], K: int, beta: float = 0.0) -> Array:
    """M with E_S (intra, inter)(after) = M (intra, inter)(before), for blend(beta); 0 is S2S.

    It is exact for islands of equal size, where columns sum to (1-beta)^2 delta. For unequal sizes
    the two parts do not determine the result: each entry is the largest over all X, so that M
    bounds both parts from above.
    """
    check_beta(beta)
    return (1 - beta) ** 2 * exchange_by_moments(sizes, sampling_moments(sum(sizes), K))


def exchange_by_moments(sizes: Sequence[int], moments: Moments) -> Array:
    """M for S2S with any sampling that treats devices alike, from its moments."""
    n, C = sum(sizes), len(sizes)
    if min(sizes, default=0) < 1:
        raise SkerryError(
            f"every island needs at least one device (got sizes {list(sizes)}). Drop empty ones."
        )
    a, b, c = moments
    share = 1 / np.asarray(sizes, float)
    # What a unit of disagreement at a device of each island adds to both parts, besides `a` of its
    # own part: Diag and trace of the projections I - Pi_C and Pi_C - Pi.
    to_intra = b * (1 - share) + c * (n - C)
    to_inter = b * (share - 1 / n) + c * (C - 1)
    M = np.zeros((2, 2))
    inside = share < 1
    if inside.any():
        M[:, 0] = a + to_intra[inside].max(), to_inter[inside].max()
    if C > 1:
        M[:, 1] = _largest_between(to_intra, sizes), a + _largest_between(to_inter, sizes)
    if C == 1 or not inside.any():
        M = np.diag(np.diag(M))  # only one of the two parts exists
    return M


def _largest_between(weights: Array, sizes: Sequence[int]) -> float:
    """Largest eigenvalue of Diag(weights) among differences of island means."""
    basis = differences_of_means(np.asarray(sizes, float))
    return float(np.linalg.eigvalsh(basis.T @ (weights[:, None] * basis))[-1])


def differences_of_means(n_c: Array) -> Array:
    """Orthonormal basis of the differences of island means, orthogonal to sqrt(n_c / n)."""
    z = np.sqrt(n_c / n_c.sum())
    return np.asarray(np.linalg.svd(z[None, :])[2][1:].T)


def sampling_moments(n: int, K: int) -> Moments:
    """Moments (a, b, c): E_S[W A W] = a A + b Diag(A) + c tr(A) I, centred, for centred A.

    W is W_s2s. (W A W)_ij is the mean of A over S x S if both i and j are sampled, the mean of
    column j over S if only i is, and A_ij if neither is. The expectation needs only the
    probabilities that one to four given devices are sampled; rows of A sum to zero.
    """
    check_sampled(n, K)
    if n == K:
        return 0.0, 0.0, 0.0  # W = Pi
    # Exact fractions, because the differences below cancel; at K = 1 completely.
    one, two, three, four = (
        Fraction(math.perm(K, k), math.perm(n, k)) if k <= n else Fraction(0) for k in (1, 2, 3, 4)
    )
    off_diagonal = (
        2 * (two - 2 * three + four) / K**2 + 2 * (one - 2 * two + three) / K + 1 - 2 * one + two
    )
    row_and_column = (two - 3 * three + 2 * four) / K**2 - (two - three) / K
    diagonal = (one - 3 * two + 2 * three) / K**2 + 1 - one
    trace = (two - 2 * three + four) / K**2
    return float(off_diagonal), float(diagonal - off_diagonal - 2 * row_and_column), float(trace)


def check_beta(beta: float) -> None:
    if not 0 <= beta <= 1:
        raise SkerryError(
            f"beta must be between 0 (S2S) and 1 (S2A) (got {beta}). Choose one between them."
        )


def check_sampled(n: npt.ArrayLike, K: npt.ArrayLike) -> tuple[Array, Array]:
    """n and K as arrays of one shape; raises SkerryError unless 1 <= K <= n everywhere."""
    n, K = np.broadcast_arrays(np.asarray(n, float), np.asarray(K, float))
    wrong = (K < 1) | (n < K)
    if wrong.any():
        raise SkerryError(
            f"sampled must be between 1 and devices (got {K[wrong].flat[0]:g} of "
            f"{n[wrong].flat[0]:g} devices). Lower sampled or raise devices."
        )
    return n, K
