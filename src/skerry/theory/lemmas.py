"""Lemmas 3 to 7 of the paper: bounds on one round, and on averages over many rounds.

Distances are squared: `distance` is E ||xbar - x*||^2, `disagreement` E ||X - Xbar||_F^2 / n per
device (in Lemma 5 without 1/n, as printed), `bias` E ||xbar^{t+1} - xbar^{t+2/3}||^2.

Lemma 6 is about the recursion Xi^0 = 0 and, for t = 1..T, Xi^t = a1 Xi^{t-1} + b1 if t mod H = 0,
else Xi^t = a2 Xi^{t-1} + b2.
"""

import numpy as np

from skerry.errors import SkerryError


def convex_descent(
    distance: float, gap: float, disagreement: float, bias: float, *, stepsize: float,
    smoothness: float, sigma2: float, devices: int,
) -> float:  # fmt: skip
    """Lemma 3: bound on the distance of the average to the optimum after a round, if convex.

    `gap` is f(xbar) - f* before it. The stepsize must be at most 1/(4L).
    """
    _check_stepsize(stepsize, 1 / (4 * smoothness), "1/(4L)")
    return (
        distance
        - stepsize * gap
        + stepsize**2 * sigma2 / devices
        + 1.5 * stepsize * smoothness * disagreement
        + bias
    )


def nonconvex_descent(
    value: float, gradient2: float, disagreement: float, bias: float, *, stepsize: float,
    smoothness: float, sigma2: float, devices: int,
) -> float:  # fmt: skip
    """Lemma 4: bound on f at the average after a round, without convexity.

    `gradient2` is ||grad f(xbar)||^2 before it. The stepsize must be at most 1/(4L).
    """
    _check_stepsize(stepsize, 1 / (4 * smoothness), "1/(4L)")
    return (
        value
        - stepsize / 4 * gradient2
        + stepsize**2 * smoothness * sigma2 / (2 * devices)
        + stepsize * smoothness**2 * disagreement
        + smoothness / 2 * bias
    )


def intra_after_mixing(
    intra: float, *, stepsize: float, p: float, zeta_intra: float, devices: int, smoothness: float
) -> float:
    """Lemma 5: bound on the disagreement inside islands after a local step and mixing. The stepsize
    must be at most p/(8L)."""
    _check_stepsize(stepsize, p / (8 * smoothness), "p/(8L)")
    return (1 - p / 4) * intra + 6 * devices * stepsize**2 * zeta_intra**2 / p


def inter_after_mixing(
    inter: float, *, stepsize: float, p: float, zeta_inter: float, devices: int, smoothness: float,
    rho: float,
) -> float:  # fmt: skip
    """Lemma 5: bound on the disagreement between islands after a local step, for any rho > 0.
    Mixing does not reduce it. The stepsize must be at most p/(8L)."""
    _check_stepsize(stepsize, p / (8 * smoothness), "p/(8L)")
    if rho <= 0:
        raise SkerryError(f"rho must be above 0 (got {rho:g}). Raise it.")
    return (1 + rho) * inter + (1 + 1 / rho) * devices * stepsize**2 * zeta_inter**2


def convergence_bound(
    r0: float, intra: float, inter: float, *, a: float, b: float, c: float, d: float, e: float,
    stepsize: float, sigma2: float, devices: int, H: int, T: int, printed: bool = True,
) -> float:  # fmt: skip
    """Lemma 7: bound on the mean of Delta^0..Delta^T, if in every round
    r <- r - eta Delta + eta^2 sigma2 / n + a Xi_intra + b Xi_inter + c + d  if t mod H = 0, else
    r <- r - eta Delta + eta^2 sigma2 / n + e (Xi_intra + Xi_inter).
    `intra` and `inter` are the means of Xi over t = 0..T.

    The printed lemma can be too small: it takes 1/H for the share of server rounds, which is at
    least that, and spreads disagreement evenly over rounds. With `printed=False` the share is
    exact, and all disagreement counts as in the rounds with the larger factor.
    """
    share = 1 / H if printed else server_share(H, T)
    if printed:
        charged = (e + (a - e) / H) * intra + (e + (b - e) / H) * inter
    else:
        charged = max(a, e) * intra + max(b, e) * inter
    start, noise = r0 / (stepsize * (T + 1)), stepsize * sigma2 / devices
    return start + noise + charged / stepsize + share * (c + d) / stepsize


def _check_stepsize(stepsize: float, largest: float, words: str) -> None:
    if not 0 < stepsize <= largest * (1 + 1e-12):
        raise SkerryError(
            f"the lemma holds for stepsizes above 0 and up to {words} = {largest:g} (got "
            f"{stepsize:g}). Lower the stepsize."
        )


def simulate_recursion(a1: float, b1: float, a2: float, b2: float, H: int, T: int) -> float:
    """The mean of Xi^0..Xi^T of Lemma 6's recursion, step by step."""
    _check_recursion(a1, b1, a2, b2, H, T)
    xi = total = 0.0
    for t in range(1, T + 1):
        xi = a1 * xi + b1 if t % H == 0 else a2 * xi + b2
        total += xi
    return total / (T + 1)


def recursion_bound(
    a1: float, b1: float, a2: float, b2: float, H: int, T: int, *, exact: bool = True
) -> float:
    """Lemma 6: the mean of Xi^0..Xi^T is at most Q (1/H + 1/(T+1)). The printed form
    (`exact=False`) is looser for a2 < 1, where it replaces both geometric sums by their limits, and
    has no case for a2 = 1."""
    _check_recursion(a1, b1, a2, b2, H, T)
    return period_sum(a1, b1, a2, b2, H, exact=exact) * (1 / H + 1 / (T + 1))


def period_sum(a1: float, b1: float, a2: float, b2: float, H: int, *, exact: bool = True) -> float:
    """Q of Lemma 6: the sum of Xi over one period of H rounds in the steady state."""
    _check_recursion(a1, b1, a2, b2, H, 0)
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
    """The sum over s = 1..H-1 of 1 + a + ... + a^(s-1)."""
    k = np.arange(H - 1)
    with np.errstate(over="ignore"):
        return float(np.sum((H - 1 - k) * float(a) ** k))


def server_share(H: int, T: int) -> float:
    """Share of server rounds among t = 0..T, between 1/H and 1/H + 1/(T+1). The printed Lemma 7
    uses 1/H as an upper bound, but it is a lower bound."""
    _check_recursion(0, 0, 0, 0, H, T)
    return (T // H + 1) / (T + 1)


def _check_recursion(a1: float, b1: float, a2: float, b2: float, H: int, T: int) -> None:
    if min(a1, b1, a2, b2) < 0 or H < 1 or T < 0:
        raise SkerryError(
            "the recursion needs a1, b1, a2, b2, T of at least 0 and H of at least 1 (got "
            f"a1 = {a1:g}, b1 = {b1:g}, a2 = {a2:g}, b2 = {b2:g}, H = {H}, T = {T}). "
            "Raise the negative ones."
        )
