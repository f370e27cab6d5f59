"""Lemmas 3 to 5 and 7 as printed: on quadratics they hold, and where they do not is told."""

import numpy as np
import pytest

from skerry.errors import SkerryError
from skerry.theory.lemmas import (
    convergence_bound,
    convex_descent,
    inter_after_mixing,
    intra_after_mixing,
    nonconvex_descent,
)
from skerry.theory.operators import W_s2a

# Six devices on two islands, f_i = (x - b_i)^2 / 2: L = 1, f is (x - mean b)^2 / 2 + a constant.
B = np.array([1.0, 2.0, 4.0, 7.0, 9.0, 5.0])
ISLANDS = np.kron(np.eye(2), np.full((3, 3), 1 / 3))
MIXING = 0.5 * np.eye(6) + 0.5 * ISLANDS
ALL = np.full((6, 6), 1 / 6)
STEPSIZE = 0.1


def after_mixing(x):
    """A local step with full gradients, then mixing."""
    return (x - STEPSIZE * (x - B)) @ MIXING


@pytest.fixture(params=range(5))
def models(request):
    return np.random.default_rng(request.param).normal(3, 4, 6)


@pytest.mark.parametrize("sampled", [(0, 3), (1, 2), (0, 1, 2, 3, 4, 5)])
def test_the_descent_lemmas_hold(models, sampled):
    """Lemmas 3 and 4 on quadratics, with S2A's bias averaged over who is sampled: the cross term is
    then zero, so what is checked is the mean over all samples of that size."""
    from itertools import combinations

    mixed = after_mixing(models)
    every = [mixed @ W_s2a(6, list(chosen)) for chosen in combinations(range(6), len(sampled))]
    means = np.array([x.mean() for x in every])
    optimum, before, middle = B.mean(), models.mean(), mixed.mean()
    disagreement = models.var()
    bias = ((means - middle) ** 2).mean()
    shared = {"stepsize": STEPSIZE, "smoothness": 1.0, "sigma2": 0.0, "devices": 6}
    gap = (before - optimum) ** 2 / 2
    bound = convex_descent((before - optimum) ** 2, gap, disagreement, bias, **shared)
    assert ((means - optimum) ** 2).mean() <= bound + 1e-12
    bound = nonconvex_descent(gap, (before - optimum) ** 2, disagreement, bias, **shared)
    assert ((means - optimum) ** 2 / 2).mean() <= bound + 1e-12


def test_the_disagreement_lemma_holds(models):
    """Lemma 5, with the heterogeneity of these gradients: it differs by a shift from device to
    device, so that zeta is the same at every x, and drift is within the slack."""
    p = 1 - np.linalg.norm(MIXING - ISLANDS, 2) ** 2
    gradients = models - B
    zeta_intra2 = ((gradients @ (MIXING - ISLANDS)) ** 2).sum() / 6
    zeta_inter2 = ((gradients @ (ISLANDS - ALL)) ** 2).sum() / 6
    mixed = after_mixing(models)
    shared = {"stepsize": 0.05, "p": p, "devices": 6, "smoothness": 1.0}
    mixed = (models - 0.05 * gradients) @ MIXING
    intra, inter = (
        [((x @ part) ** 2).sum() for x in (models, mixed)]
        for part in (np.eye(6) - ISLANDS, ISLANDS - ALL)
    )
    assert intra[1] <= intra_after_mixing(intra[0], zeta_intra=zeta_intra2**0.5, **shared)
    for rho in (0.1, 1.0, 10.0):
        bound = inter_after_mixing(inter[0], zeta_inter=zeta_inter2**0.5, rho=rho, **shared)
        assert inter[1] <= bound + 1e-12


def test_lemmas_say_which_stepsizes_they_are_for():
    with pytest.raises(SkerryError, match=r"up to 1/\(4L\) = 0.25 \(got 0.3\)"):
        convex_descent(1, 1, 0, 0, stepsize=0.3, smoothness=1, sigma2=0, devices=4)
    with pytest.raises(SkerryError, match=r"p/\(8L\)"):
        intra_after_mixing(1, stepsize=0.1, p=0.5, zeta_intra=1, devices=4, smoothness=1)
    with pytest.raises(SkerryError, match="rho must be above 0"):
        inter_after_mixing(1, stepsize=0.01, p=0.5, zeta_inter=1, devices=4, smoothness=1, rho=0)


RATES = {"a": 0.2, "b": 0.3, "c": 0.05, "d": 0.02, "e": 0.1}
REST = {"stepsize": 0.1, "sigma2": 0.6, "devices": 6}


def exact_mean(H, T, xi_intra, xi_inter, r0=4.0):
    """The mean of Delta if the recursion holds with equality and r ends at zero."""
    noise = 0.1**2 * 0.6 / 6
    total = r0
    for t in range(T + 1):
        if t % H == 0:
            total += noise + 0.2 * xi_intra[t] + 0.3 * xi_inter[t] + 0.07
        else:
            total += noise + 0.1 * (xi_intra[t] + xi_inter[t])
    return total / 0.1 / (T + 1)


@pytest.mark.parametrize(("H", "T"), [(1, 9), (5, 99), (5, 101), (20, 50)])
def test_lemma_7_repaired_holds_for_any_disagreement(H, T):
    """With the exact share of server rounds, whatever rounds disagreement is in."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        intra, inter = rng.exponential(size=(2, T + 1))
        bound = convergence_bound(
            4.0, intra.mean(), inter.mean(), **RATES, **REST, H=H, T=T, printed=False
        )
        assert exact_mean(H, T, intra, inter) <= bound * (1 + 1e-12)


def test_lemma_7_as_printed_is_too_small():
    """Where all disagreement is in server rounds, and where T + 1 is no multiple of H."""
    H, T = 5, 99
    intra = np.where(np.arange(T + 1) % H == 0, 1.0, 0.0)
    printed = convergence_bound(4.0, intra.mean(), 0.0, **RATES, **REST, H=H, T=T)
    assert exact_mean(H, T, intra, 0 * intra) > printed
    H, T = 20, 20
    nothing = np.zeros(T + 1)
    assert exact_mean(H, T, nothing, nothing) > convergence_bound(
        4.0, 0.0, 0.0, **RATES, **REST, H=H, T=T
    )


def test_lemma_7_as_printed_is_exact_for_even_disagreement():
    """Disagreement that is the same in all rounds, and whole periods: equality."""
    H, T = 5, 99
    even = np.full(T + 1, 0.7)
    printed = convergence_bound(4.0, 0.7, 0.7, **RATES, **REST, H=H, T=T)
    assert exact_mean(H, T, even, even) == pytest.approx(printed)
