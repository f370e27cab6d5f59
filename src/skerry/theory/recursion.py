"""The disagreement recursion (Lemma 6) and the share of server rounds (Lemma 7).

Xi^0 = 0; for t = 1..T: Xi^t = a1 Xi^{t-1} + b1 when t mod H = 0, else a2 Xi^{t-1} + b2.
"""

import numpy as np

from skerry.errors import SkerryError


def simulate_recursion(a1: float, b1: float, a2: float, b2: float, H: int, T: int) -> float:
    """The mean of Xi^0..Xi^T, step by step."""
    _check(a1, b1, a2, b2, H, T)
    xi = total = 0.0
    for t in range(1, T + 1):
        xi = a1 * xi + b1 if t % H == 0 else a2 * xi + b2
        total += xi
    return total / (T + 1)


def recursion_bound(
    a1: float, b1: float, a2: float, b2: float, H: int, T: int, *, exact: bool = True
) -> float:
    """Lemma 6: the mean of Xi^0..Xi^T is at most Q (1/H + 1/(T+1)).

    The printed form (`exact=False`) is looser for a2 < 1, where it bounds both geometric sums
    by their limits, and has no case for a2 = 1.
    """
    _check(a1, b1, a2, b2, H, T)
    return period_sum(a1, b1, a2, b2, H, exact=exact) * (1 / H + 1 / (T + 1))


def period_sum(a1: float, b1: float, a2: float, b2: float, H: int, *, exact: bool = True) -> float:
    """Q of Lemma 6: what one period of H rounds adds up to once the start is forgotten."""
    _check(a1, b1, a2, b2, H, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        contraction = float(a1 * np.float64(a2) ** (H - 1))
    if not contraction < 1:
        raise SkerryError(
            f"a1 a2^(H-1) must be below 1 for the recursion to stay bounded (got "
            f"{contraction:.6g}). Lower a1, a2 or H."
        )
    at_server = (a1 * b2 * geometric_sum(a2, H - 1) + b1) / (1 - contraction)
    if exact or a2 > 1:
        return at_server * geometric_sum(a2, H) + b2 * _double_geometric_sum(a2, H)
    if a2 == 1:
        raise SkerryError("the printed lemma has no case a2 = 1 (got a2 = 1). Use exact=True.")
    return (at_server + b2 * (H - 1)) / (1 - a2)


def geometric_sum(a: float, terms: int) -> float:
    """1 + a + ... + a^(terms-1), without cancellation near a = 1."""
    if terms == 0 or a == 0 or a == 1:
        return float(terms if a == 1 else min(terms, 1))
    with np.errstate(over="ignore"):
        return float(np.expm1(terms * np.log(a)) / (a - 1))


def _double_geometric_sum(a: float, H: int) -> float:
    """The sum over s = 1..H-1 of 1 + a + ... + a^(s-1), term by term: all are positive."""
    k = np.arange(H - 1)
    with np.errstate(over="ignore"):
        return float(np.sum((H - 1 - k) * float(a) ** k))


def server_share(H: int, T: int) -> float:
    """|{0 <= t <= T: t mod H = 0}|/(T+1), which lies between 1/H and 1/H + 1/(T+1).

    Lemma 7 as printed takes 1/H for an upper bound; it is a lower one.
    """
    _check(0, 0, 0, 0, H, T)
    return (T // H + 1) / (T + 1)


def _check(a1: float, b1: float, a2: float, b2: float, H: int, T: int) -> None:
    if min(a1, b1, a2, b2) < 0 or H < 1 or T < 0:
        raise SkerryError(
            "the recursion needs a1, b1, a2, b2, T of at least 0 and H of at least 1 (got "
            f"a1 = {a1:g}, b1 = {b1:g}, a2 = {a2:g}, b2 = {b2:g}, H = {H}, T = {T}). "
            "Raise the negative ones."
        )
