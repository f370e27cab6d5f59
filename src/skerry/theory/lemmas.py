"""The paper's lemmas 3 to 5 and 7 as printed: what one round may do at most, and what many rounds
add up to.

Distances are squared: `distance` is E ||xbar - x*||^2, `disagreement` E ||X - Xbar||_F^2 / n per
device (lemma 5: without 1/n, as printed), `bias` E ||xbar^{t+1} - xbar^{t+2/3}||^2.
"""

from skerry.errors import SkerryError
from skerry.theory.recursion import server_share


def convex_descent(
    distance: float,
    gap: float,
    disagreement: float,
    bias: float,
    *,
    stepsize: float,
    smoothness: float,
    sigma2: float,
    devices: int,
) -> float:
    """Lemma 3: at most so far from the optimum is the average after a round, of convex losses;
    `gap` is f(xbar) - f*. For stepsizes up to 1/(4L)."""
    _check_stepsize(stepsize, 1 / (4 * smoothness), "1/(4L)")
    return (
        distance
        - stepsize * gap
        + stepsize**2 * sigma2 / devices
        + 1.5 * stepsize * smoothness * disagreement
        + bias
    )


def nonconvex_descent(
    value: float,
    gradient2: float,
    disagreement: float,
    bias: float,
    *,
    stepsize: float,
    smoothness: float,
    sigma2: float,
    devices: int,
) -> float:
    """Lemma 4: at most so large is f at the average after a round; `gradient2` is
    ||grad f(xbar)||^2. For stepsizes up to 1/(4L)."""
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
    """Lemma 5: the disagreement inside components after a local step and mixing, at most; for
    stepsizes up to p/(8L)."""
    _check_stepsize(stepsize, p / (8 * smoothness), "p/(8L)")
    return (1 - p / 4) * intra + 6 * devices * stepsize**2 * zeta_intra**2 / p


def inter_after_mixing(
    inter: float,
    *,
    stepsize: float,
    p: float,
    zeta_inter: float,
    devices: int,
    smoothness: float,
    rho: float,
) -> float:
    """Lemma 5: the same between components, which mixing does not bring together; it holds for any
    rho > 0."""
    _check_stepsize(stepsize, p / (8 * smoothness), "p/(8L)")
    if rho <= 0:
        raise SkerryError(f"rho must be above 0 (got {rho:g}). Raise it.")
    return (1 + rho) * inter + (1 + 1 / rho) * devices * stepsize**2 * zeta_inter**2


def convergence_bound(
    r0: float,
    intra: float,
    inter: float,
    *,
    a: float,
    b: float,
    c: float,
    d: float,
    e: float,
    stepsize: float,
    sigma2: float,
    devices: int,
    H: int,
    T: int,
    printed: bool = True,
) -> float:
    """Lemma 7: what the mean of Delta^0..Delta^T is at most, if in every round
    r <- r - eta Delta + eta^2 sigma2 / n + a Xi_intra + b Xi_inter + c + d  where t mod H = 0, and
    r <- r - eta Delta + eta^2 sigma2 / n + e (Xi_intra + Xi_inter)          otherwise.
    `intra` and `inter` are the means of Xi over t = 0..T.

    As printed it takes 1/H for the share of server rounds, which is at least that, and spreads
    disagreement over server rounds and others alike: it can be too small. Otherwise (`printed` is
    false) the share is exact, and disagreement counts as if all of it were in the rounds that
    charge more.
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
