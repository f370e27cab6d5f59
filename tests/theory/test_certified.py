from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skerry.errors import SkerryError
from skerry.theory.bounds import coefficients, guaranteed_average
from skerry.theory.certified import best_blend, certified_average, certified_rounds
from skerry.theory.full_recursion import FullRecursion
from skerry.theory.operators import Pi_C, W_blend, delta, exchange_matrix, kappa
from skerry.theory.parameters import Parameters

SMALL = Parameters(10, 2, 4, 3, 0.5, 0.2, 0.3, 0.5, 2, 3, 0.01)
RING = Parameters(100, 2, 20, 5, 0.010486, 0.1, 0.1, 0, 1, 1, 1e-3)
UNEQUAL = Parameters(20, (3, 7, 10), 5, 4, 0.5, 0.2, 0.4, 0.3, 1, 1, 0.01)
SETTINGS = {"small": SMALL, "ring": RING, "unequal": UNEQUAL}
DIALS = ("s2s", "s2a", "blend")
BETAS = {"s2s": 0.0, "s2a": 1.0, "blend": 0.5}


def plain_loop(x, beta, eta, alpha, rho, rounds, convex):
    """The bound of the certified recursion, round by round, as it is written down."""
    p, L, H, sizes = x.p, x.smoothness, x.period, x.sizes
    a, b = 2 * (1 + 1 / alpha) * eta**2 * L**2, 2 * (1 + 1 / rho) * eta**2 * L**2
    P = np.array([[(1 - p) * (1 + alpha + a), (1 - p) * a], [b, 1 + rho + b]])
    g = np.array([a * x.zeta_intra**2, b * x.zeta_inter**2]) / L**2
    keep = np.array([max(sizes) > 1, len(sizes) > 1])
    M = exchange_matrix(sizes, x.sampled, beta)
    v, disagreements, biases = np.zeros(2), 0.0, 0.0
    for t in range(rounds):
        disagreements += v.sum()
        v = (P @ v + g) * keep
        if t % H == 0:
            biases += beta**2 * kappa(x.devices, x.sampled) * v.sum()
            v = M @ v
    s2, start = x.sigma2 / x.devices, x.initial_error
    if convex:
        return (start / eta + 1.5 * L * disagreements + biases / eta) / rounds + eta * s2
    rest = 4 * start / eta + 4 * L**2 * disagreements + 2 * L * biases / eta
    return rest / rounds + 2 * eta * L * s2


@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("dial", DIALS)
@pytest.mark.parametrize(
    "components", [1, 2, 10, (3, 7)], ids=["one", "two", "lone devices", "unequal"]
)
def test_matrix_powers_are_the_loop(components, dial, convex):
    """Powers of the period's matrix give what a loop over rounds gives, for any horizon."""
    x = replace(SMALL, components=components)
    recursion = FullRecursion(x, BETAS[dial], convex)
    for rounds in (1, 2, 3, 4, 6, 7, 100):
        powers = recursion.average(*map(np.asarray, (0.03, 0.3, 0.1)), rounds=rounds)
        loop = plain_loop(x, BETAS[dial], 0.03, 0.3, 0.1, rounds, convex)
        assert powers == pytest.approx(loop, rel=1e-12)


@pytest.mark.parametrize("dial", DIALS)
@pytest.mark.parametrize("name", SETTINGS)
def test_enough_rounds_are_enough(name, dial):
    """The closed form in the steady state never claims fewer rounds than the recursion needs."""
    x = SETTINGS[name]
    recursion = FullRecursion(x, BETAS[dial], convex=True)
    for eta in np.geomspace(1e-4, recursion.largest_stepsize, 6):
        point = [np.asarray(number) for number in (eta, x.p / 2, 0.01 / x.period)]
        rounds = recursion.sufficient_rounds(*point)
        if np.isfinite(rounds):
            average = recursion.average(*point, rounds=int(np.ceil(rounds)))
            assert average <= x.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("dial", DIALS)
@pytest.mark.parametrize("name", SETTINGS)
def test_certified_rounds_keep_their_promise(name, dial, convex):
    """After the certified rounds the certified average is epsilon, and no free search of
    stepsize, alpha and rho gets there with a tenth of a percent fewer."""
    x = SETTINGS[name]
    found = certified_rounds(x, dial, convex=convex)
    again = certified_average(
        x, dial, stepsize=found.stepsize, rounds=int(found.rounds), convex=convex
    )
    assert found.average <= x.epsilon
    assert again <= x.epsilon * (1 + 1e-5)
    recursion = FullRecursion(x, found.beta, convex)
    fewer = int(found.rounds * 0.999)

    def objective(logs):
        eta, alpha, rho = np.exp(logs)
        eta = min(eta, recursion.largest_stepsize)
        return np.log(recursion.average(eta, alpha, rho, rounds=fewer))

    start = np.log([found.stepsize, x.p / 2, 0.5 / x.period / 10])
    free = minimize(objective, start, method="Nelder-Mead", options={"maxiter": 400})
    assert np.exp(free.fun) > x.epsilon


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
    st.floats(0, 1),
    st.integers(1, 60),
    st.sampled_from([1e-3, 0.1, 1.0]),
    st.lists(st.sampled_from([0.0, 1e-3, 1.0, 100.0]), min_size=4, max_size=4),
    st.sampled_from([1e-6, 1e-2, 5.0]),
    st.sampled_from(["s2a", "blend"]),
    st.booleans(),
)
def test_s2a_and_blends_always_get_there(sizes, rate, H, p, amounts, epsilon, dial, convex):
    """Whatever the setting, S2A and blends reach any accuracy, with a stepsize in the domain."""
    n = sum(sizes)
    K = max(1, round(rate * n))
    zeta_intra, zeta_inter, sigma2, initial_error = amounts
    x = Parameters(
        n, tuple(sizes), K, H, p, zeta_intra, zeta_inter, sigma2, 50, initial_error, epsilon
    )
    found = certified_rounds(x, dial, convex=convex)
    assert 1 <= found.rounds < np.inf
    assert found.average <= epsilon
    assert 0 < found.stepsize <= 1 / 200


@pytest.mark.parametrize("convex", [True, False])
def test_best_blend_beats_both_ends(convex):
    """The best blend needs no more rounds than S2S, S2A or any beta tried."""
    best = best_blend(SMALL, convex=convex)
    for beta in (0, 0.25, 0.5, 0.75, 1):
        other = certified_rounds(SMALL, "blend", beta=beta, convex=convex)
        assert best.rounds <= other.rounds * (1 + 1e-3)
    assert best.rounds < min(
        certified_rounds(SMALL, end, convex=convex).rounds for end in ("s2s", "s2a")
    )


def test_ends_of_the_dial():
    """blend(0) is S2S and blend(1) is S2A, exactly."""
    for beta, end in ((0.0, "s2s"), (1.0, "s2a")):
        assert certified_rounds(SMALL, "blend", beta=beta, convex=True) == certified_rounds(
            SMALL, end, convex=True
        )


def test_everybody_sampled():
    """At K = n S2S, S2A and every blend have the same certified rounds."""
    everybody = replace(SMALL, sampled=10)
    rounds = {certified_rounds(everybody, dial, convex=False).rounds for dial in DIALS}
    assert len(rounds) == 1


def test_where_the_recursion_has_no_steady_state():
    """S2S with one sampled device has no certificate between components, but has one inside."""
    alone = replace(SMALL, sampled=1)
    assert certified_rounds(alone, "s2s", convex=True).rounds == np.inf
    assert np.isfinite(certified_rounds(replace(alone, components=1), "s2s", convex=True).rounds)
    assert np.isfinite(certified_rounds(alone, "s2a", convex=True).rounds)


def test_large_stepsizes_are_not_covered():
    """The descent lemmas need stepsizes up to 1/(4L)."""
    for stepsize, finite in ((0.125, True), (0.126, False)):
        average = certified_average(SMALL, "s2a", stepsize=stepsize, rounds=9, convex=True)
        assert np.isfinite(average) == finite


@settings(max_examples=40, deadline=None)
@given(
    st.integers(4, 100),
    st.floats(0.02, 1),
    st.integers(1, 20),
    st.floats(0.01, 1),
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_repaired_cap_tames_the_recursion(half, rate, H, p, zeta_intra, zeta_inter):
    """With two components, the repaired disagreement at the repaired non-convex stepsize cap
    dominates the certified one, drift and exchange included: evidence, not a proof."""
    n = 2 * half
    K = max(2, round(rate * n))
    x = Parameters(n, 2, K, H, p, zeta_intra, zeta_inter, 0, 1, 0, 1)
    cap = float(1 / coefficients(x, "s2s", "repaired", False).d) * (1 - 1e-12)
    rounds = 200 * H * n
    claimed = guaranteed_average(x, "s2s", "repaired", False, stepsize=cap, rounds=rounds)
    certified = certified_average(x, "s2s", stepsize=cap, rounds=rounds, convex=False)
    assert certified <= claimed


def test_repaired_cap_has_limits():
    """With a component for each device the repaired cap does not tame the certified recursion."""
    x = Parameters(21, 21, 3, 20, 1, 0, 1, 0, 1, 0, 1)
    case = {"stepsize": 0.999 / float(coefficients(x, "s2s", "repaired", False).d), "rounds": 10**6}
    claimed = guaranteed_average(x, "s2s", "repaired", False, **case)
    assert certified_average(x, "s2s", convex=False, **case) > 1e6 * claimed


# The exact test bench: f_i = (x - b_i)^2/2 on four devices, W = (I + Pi_C)/2.
TARGETS = np.array([1.0, 2.0, 3.0, 6.0])
SIZES = (2, 2)
W = (np.eye(4) + Pi_C(SIZES)) / 2
BENCH = Parameters(
    devices=4,
    components=SIZES,
    sampled=2,
    period=2,
    p=0.75,
    zeta_intra=np.sqrt(np.sum((TARGETS @ (W - Pi_C(SIZES))) ** 2) / 4),
    zeta_inter=1.5,
    sigma2=0,
    smoothness=1,
    initial_error=9,
    epsilon=1,
)


def exact_bench(beta, eta, rounds, K=2, H=2):
    """E of f - f*, intra and inter at t = 0..rounds, over every S: second moments of (x, 1)."""
    step = np.eye(5)
    step[:4, :4] = (1 - eta) * W
    step[:4, 4] = eta * W @ TARGETS
    samples = []
    for S in combinations(range(4), K):
        served = np.eye(5)
        served[:4, :4] = W_blend(4, S, beta).T
        samples.append(served)
    moments = np.zeros((5, 5))
    moments[4, 4] = 1
    rows = []
    for t in range(rounds + 1):
        xx, x = moments[:4, :4], moments[:4, 4]
        error = (xx.mean() - 6 * x.mean() + 9) / 2
        intra = np.sum(xx * (np.eye(4) - Pi_C(SIZES))) / 4
        inter = np.sum(xx * (Pi_C(SIZES) - 0.25)) / 4
        rows.append((error, intra, inter, x.mean()))
        moments = step @ moments @ step.T
        if t % H == 0:
            moments = np.mean([served @ moments @ served.T for served in samples], axis=0)
    return np.array(rows)


@pytest.mark.parametrize(
    ("beta", "t", "expected"),
    [
        (0, 1, (3.645000, 0.005573, 0.011510)),
        (1, 1, (3.649271, 0, 0)),
        (0, 2, (2.952450, 0.006129, 0.058823)),
        (1, 2, (2.955909, 0.003125, 0.022500)),
    ],
)
def test_exact_trajectory(beta, t, expected):
    """The quadratic bench by enumeration of S, to the printed digits."""
    rows = exact_bench(beta, 0.1, 5)
    np.testing.assert_allclose(rows[t, :3], expected, atol=6e-7)
    np.testing.assert_allclose(rows[:, 3], 3 * (1 - 0.9 ** np.arange(6)))
    if beta == 0:
        np.testing.assert_allclose(rows[:, 0], 4.5 * 0.81 ** np.arange(6))


@pytest.mark.parametrize("eta", [0.01, 0.1, 0.25])
@pytest.mark.parametrize("dial", DIALS)
def test_measured_averages_stay_below_the_certificate(dial, eta):
    """On the quadratic bench no exact running average exceeds its certified bound."""
    errors = exact_bench(BETAS[dial], eta, 200)[:, 0]
    for rounds in (1, 2, 3, 5, 10, 50, 200):
        convex = certified_average(BENCH, dial, stepsize=eta, rounds=rounds, convex=True)
        assert errors[:rounds].mean() <= convex
        slopes = certified_average(
            replace(BENCH, initial_error=4.5), dial, stepsize=eta, rounds=rounds, convex=False
        )
        assert 2 * errors[:rounds].mean() <= slopes  # |f'|^2 = 2 (f - f*)


@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("dial", DIALS)
def test_the_recursion_bounds_the_measured_disagreement(dial, convex):
    """With nothing to descend, what is left of the certificate is disagreement and bias, and it
    is not below the exact one."""
    eta, rounds = 0.1, 100
    rows = exact_bench(BETAS[dial], eta, rounds - 1)
    weight = 1.5 if convex else 4
    certified = certified_average(
        replace(BENCH, initial_error=0), dial, stepsize=eta, rounds=rounds, convex=convex
    )
    assert weight * rows[:, 1:3].sum(axis=1).mean() <= certified


def test_wrong_input_is_explained():
    """Bad input is met with one line that says the rule."""
    with pytest.raises(SkerryError, match="one setting at a time \\(got 2 values of sampled\\)"):
        certified_rounds(replace(SMALL, sampled=np.array([2, 3])), "s2s", convex=True)
    with pytest.raises(SkerryError, match="unknown primitive 's2'"):
        certified_rounds(SMALL, "s2", convex=True)
    with pytest.raises(SkerryError, match="beta must be between 0"):
        certified_rounds(SMALL, "blend", beta=2, convex=True)
    with pytest.raises(SkerryError, match="rounds must be at least 1"):
        certified_average(SMALL, "s2s", stepsize=0.1, rounds=0, convex=True)


def test_unequal_components_still_contract():
    """The worst-case exchange of unequal components keeps its certificate finite."""
    assert exchange_matrix(UNEQUAL.sizes, 5).sum(axis=0).max() > delta(20, 5)
    assert np.isfinite(certified_rounds(UNEQUAL, "s2s", convex=False).rounds)
