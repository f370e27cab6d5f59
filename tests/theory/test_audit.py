"""Statements of the paper that are false as printed, each with the case that shows it."""

from math import cos, sin

import numpy as np
import pytest

from skerry.theory.bounds import coefficients, guaranteed_average
from skerry.theory.certified import certified_average
from skerry.theory.parameters import Parameters

L, ZETA, H = 2, 1e-6, 400


def slope(y, z):
    """The gradient of f(y, z) = cos y - 1 + z^2/2 - sin(z)(1 - cos y)/2."""
    return -sin(y) * (1 + sin(z) / 2), z - cos(z) * (1 - cos(y)) / 2


def two_lone_devices(stepsize, rounds):
    """The mean of ||grad f(xbar^t)||^2 when device losses are f + zeta y and f - zeta y, each
    device is a component, both are sampled, and all start at the saddle (0, 0)."""
    devices = [(0.0, 0.0), (0.0, 0.0)]
    total = 0.0
    for t in range(rounds):
        (y1, z1), (y2, z2) = devices
        across, along = slope((y1 + y2) / 2, (z1 + z2) / 2)
        total += across**2 + along**2
        devices = []
        for y, z, tilt in ((y1, z1, ZETA), (y2, z2, -ZETA)):
            across, along = slope(y, z)
            devices.append((y - stepsize * (across + tilt), z - stepsize * along))
        if t % H == 0:
            (y1, z1), (y2, z2) = devices
            devices = [((y1 + y2) / 2, (z1 + z2) / 2)] * 2
    return total / rounds


def cosine_setting():
    # f is lowest at y = pi, z = cos z: f0 = 2 + sin z - z^2/2.
    z = 0.7390851332151607
    return Parameters(2, 2, 2, H, 1, 0, ZETA, 0, L, 2 + sin(z) - z**2 / 2, 1e-3)


def test_the_cosine_is_smooth():
    """No curvature of the counterexample exceeds L = 2."""
    y, z = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(-4, 4, 81))
    hessian = np.empty((81, 81, 2, 2))
    hessian[..., 0, 0] = -np.cos(y) * (1 + np.sin(z) / 2)
    hessian[..., 0, 1] = hessian[..., 1, 0] = -np.cos(z) * np.sin(y) / 2
    hessian[..., 1, 1] = 1 + np.sin(z) * (1 - np.cos(y)) / 2
    assert np.abs(np.linalg.eigvalsh(hessian)).max() <= L + 1e-12


def test_printed_nonconvex_theorems_are_false():
    """at an allowed stepsize and H = 400 the mean is 0.210, not 3.9e-4."""
    stepsize, rounds = 1 / 16.08, 400_000
    measured = two_lone_devices(stepsize, rounds)
    assert measured == pytest.approx(0.210, abs=5e-4)
    x = cosine_setting()
    for primitive in ("s2s", "s2a"):
        case = {"stepsize": stepsize, "rounds": rounds}
        claimed = guaranteed_average(x, primitive, "printed", False, **case)
        assert claimed == pytest.approx(3.9e-4, abs=5e-6)
        assert measured > 500 * claimed
        # The repaired cap excludes this stepsize, and the certificate says how much may go wrong.
        assert guaranteed_average(x, primitive, "repaired", False, **case) == np.inf
        assert measured <= certified_average(x, primitive, convex=False, **case)


def test_repaired_and_certified_hold_on_the_cosine():
    """At the repaired stepsize cap the mean stays below both bounds."""
    x = cosine_setting()
    stepsize, rounds = float(1 / coefficients(x, "s2s", "repaired", False).d), 40_000
    measured = two_lone_devices(stepsize, rounds)
    for primitive in ("s2s", "s2a"):
        case = {"stepsize": stepsize, "rounds": rounds}
        assert measured <= guaranteed_average(x, primitive, "repaired", False, **case) < np.inf
        assert measured <= certified_average(x, primitive, convex=False, **case) < np.inf


def test_the_mean_mixing_parameter_is_not_a_contraction():
    """K_2 and a path of 3: p averaged over components promises .296, X keeps .444."""
    W = np.zeros((5, 5))
    W[:2, :2] = 1 / 2
    W[2:, 2:] = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3
    p_pair, p_path = 1.0, 1 - (2 / 3) ** 2
    p_mean = (p_pair * 1 + p_path * 2) / 3
    v = np.array([0, 0, 1, 0, -1.0])
    kept = np.sum((v @ W) ** 2) / np.sum(v**2)
    assert kept == pytest.approx(0.444444, abs=5e-7)
    assert 1 - p_mean == pytest.approx(0.296296, abs=5e-7)
    assert kept > 1 - p_mean
    assert kept <= 1 - min(p_pair, p_path) + 1e-12


def test_the_initial_error_counts_more_than_once():
    """Non-convex, without noise or heterogeneity: on f = L x^2/2 the mean squared slope exceeds
    f0/(eta N) and stays below 4 f0/(eta N)."""
    L, x0, rounds = 2.0, 1.0, 1000
    f0 = L * x0**2 / 2
    x = Parameters(2, 1, 2, 1, 1, 0, 0, 0, L, f0, 1e-3)
    stepsize = float(1 / coefficients(x, "s2a", "printed", False).d)
    slopes = (L * x0 * (1 - stepsize * L) ** np.arange(rounds)) ** 2
    claimed = guaranteed_average(x, "s2a", "printed", False, stepsize=stepsize, rounds=rounds)
    assert claimed == pytest.approx(4 * f0 / (stepsize * rounds))
    assert f0 / (stepsize * rounds) < slopes.mean() <= claimed
