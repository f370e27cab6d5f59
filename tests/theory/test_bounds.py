from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from skerry.errors import SkerryError
from skerry.theory.bounds import (
    CAP,
    best_rounds,
    best_stepsize,
    bound,
    coefficients,
    guaranteed_average,
    lemma_rounds,
    sufficient_rounds,
)
from skerry.theory.operators import kappa, q
from skerry.theory.parameters import Parameters

ORACLE = Parameters(
    devices=10,
    components=2,
    sampled=4,
    period=3,
    p=0.5,
    zeta_intra=0.2,
    zeta_inter=0.3,
    sigma2=0.5,
    smoothness=2,
    initial_error=3,
    epsilon=0.01,
)
FIGURE = Parameters(100, 2, 20, 5, 1, 0.1, 0.1, 0, 1, 1, 1e-5)
PRIMITIVES = ("s2s", "s2a")
MODES = ("order", "printed", "repaired")
positive = st.floats(1e-3, 1e3)
maybe_zero = st.one_of(st.just(0.0), positive)


@st.composite
def settings_of_theory(draw):
    n = draw(st.integers(2, 200))
    return Parameters(
        devices=n,
        components=1,
        sampled=draw(st.integers(2, n)),
        period=draw(st.integers(1, 50)),
        p=draw(st.floats(1e-3, 1)),
        zeta_intra=draw(maybe_zero),
        zeta_inter=draw(maybe_zero),
        sigma2=draw(maybe_zero),
        smoothness=draw(positive),
        initial_error=draw(positive),
        epsilon=draw(st.floats(1e-6, 10)),
    )


@pytest.mark.parametrize(
    ("zeta_intra", "zeta_inter", "s2s", "s2a"),
    [
        (0.1, 0.1, 89704052, 40083767),
        (1, 0.1, 154669630, 148544266),
        (0.1, 1, 831174946, 2182386262),
        (1, 1, 896140524, 2290846761),
    ],
)
def test_figure_oracles(zeta_intra, zeta_inter, s2s, s2a):
    """The bound with all constants one, where the axes of Figure 1 meet."""
    here = replace(FIGURE, zeta_intra=zeta_intra, zeta_inter=zeta_inter)
    for primitive, value in (("s2s", s2s), ("s2a", s2a)):
        assert round(bound(here, primitive, "order", convex=False).rounds) == value


@pytest.mark.parametrize(
    ("convex", "order", "r0", "c", "e", "b1", "b2", "best", "stepsize"),
    [
        (True, 17094.517547, 3, 0.05, 2110.32, 2108253.5492, 481636.7829, 361438.5779, 0.00124892),
        (
            False,
            24556.921938,
            12,
            0.2,
            11255.04,
            19689538.4299,
            4615520.686,
            3361845.1267,
            0.00053832,
        ),
    ],
)
def test_s2s_oracles(convex, order, r0, c, e, b1, b2, best, stepsize):
    """Every form of the S2S bound at one setting, to the printed digits."""
    assert bound(ORACLE, "s2s", "order", convex).rounds == pytest.approx(order, abs=6e-7)
    psi = coefficients(ORACLE, "s2s", "printed", convex)
    assert (psi.r0, psi.c, psi.e) == (r0, pytest.approx(c), pytest.approx(e))
    printed = bound(ORACLE, "s2s", "printed", convex)
    assert printed.N_b1 == pytest.approx(b1, abs=6e-5)
    assert printed.N_b2 == pytest.approx(b2, abs=6e-5)
    assert printed.rounds == pytest.approx(best, abs=6e-5)
    assert printed.stepsize == pytest.approx(stepsize, abs=5.1e-9)
    assert printed.horizon == np.ceil(best) - 1


# The appendix, term by term: c and e as functions of zi^2/p^2, ze^2, H, L, q, kappa, sigma^2/n.
TABLE = {
    ("printed", "s2s", True): (
        lambda i, e, H, L, q, k, s: s,
        lambda i, e, H, L, q, k, s: 72 * L * q * i + 210 * L * q**2 * H * (H - 1) * e,
    ),
    ("printed", "s2s", False): (
        lambda i, e, H, L, q, k, s: 2 * L * s,
        lambda i, e, H, L, q, k, s: 192 * L**2 * q * i + 560 * L**2 * q**2 * H * (H - 1) * e,
    ),
    ("printed", "s2a", True): (
        lambda i, e, H, L, q, k, s: s + k * (54 * i / H + 26 * H * e),
        lambda i, e, H, L, q, k, s: 96 * L * i + 16 * L * H**2 * e,
    ),
    ("printed", "s2a", False): (
        lambda i, e, H, L, q, k, s: 2 * L * s + k * (108 * L * i / H + 52 * L * H * e),
        lambda i, e, H, L, q, k, s: 192 * L**2 * i + 32 * L**2 * H**2 * e,
    ),
    ("repaired", "s2s", True): (
        lambda i, e, H, L, q, k, s: s,
        lambda i, e, H, L, q, k, s: 72 * L * q * i + 12 * L * q**2 * H**2 * e,
    ),
    ("repaired", "s2s", False): (
        lambda i, e, H, L, q, k, s: 2 * L * s,
        lambda i, e, H, L, q, k, s: 192 * L**2 * q * i + 32 * L**2 * q**2 * H**2 * e,
    ),
    ("repaired", "s2a", True): (
        lambda i, e, H, L, q, k, s: s + k * (48 * i / H + 2 * H * e),
        lambda i, e, H, L, q, k, s: 72 * L * i + 12 * L * H**2 * e,
    ),
    ("repaired", "s2a", False): (
        lambda i, e, H, L, q, k, s: 2 * L * s + k * (96 * L * i / H + 4 * L * H * e),
        lambda i, e, H, L, q, k, s: 192 * L**2 * i + 32 * L**2 * H**2 * e,
    ),
}


@pytest.mark.parametrize(("mode", "primitive", "convex"), TABLE)
@settings(deadline=None)
@given(x=settings_of_theory())
def test_explicit_constants(mode, primitive, convex, x):
    """c, e, r0 and d are those of the appendix, or their repaired values."""
    n, K, H, L = x.devices, x.sampled, x.period, x.smoothness
    symbols = (
        (x.zeta_intra / x.p) ** 2,
        x.zeta_inter**2,
        H,
        L,
        q(n, K),
        kappa(n, K),
        x.sigma2 / n,
    )
    c, e = (formula(*symbols) for formula in TABLE[mode, primitive, convex])
    psi = coefficients(x, primitive, mode, convex)
    assert psi.c == pytest.approx(c)
    assert psi.e == pytest.approx(e)
    assert psi.r0 == pytest.approx(x.initial_error if convex else 4 * x.initial_error)
    d = 8 * L / x.p
    if mode == "repaired" and not convex:
        d = max(d, H * L / CAP * (q(n, K) if primitive == "s2s" else 1))
    assert psi.d == pytest.approx(d)


@settings(deadline=None)
@given(settings_of_theory(), st.booleans())
def test_everybody_sampled(x, convex):
    """At K = n the primitives coincide, with all constants one and with the repaired ones."""
    x = replace(x, sampled=x.devices)
    for mode in ("order", "repaired"):
        s2s, s2a = (bound(x, primitive, mode, convex).rounds for primitive in PRIMITIVES)
        assert s2s == pytest.approx(s2a, rel=1e-12)


def test_everybody_sampled_as_printed():
    """The printed constants of S2S and S2A differ at K = n."""
    everybody = replace(FIGURE, sampled=100)
    s2s, s2a = (coefficients(everybody, one, "printed", False).e for one in PRIMITIVES)
    assert (s2s, s2a) == (pytest.approx(113.92), pytest.approx(9.92))


@settings(deadline=None)
@given(settings_of_theory(), st.booleans())
def test_three_ways_to_tune_are_ordered(x, convex):
    """The best stepsize needs no more rounds than the lemma, nor that than its closed form."""
    for mode in ("printed", "repaired"):
        for primitive in PRIMITIVES:
            here = bound(x, primitive, mode, convex)
            assert here.rounds <= here.N_b2 * (1 + 1e-9)
            assert here.N_b2 <= here.N_b1 * (1 + 1e-9)


@settings(deadline=None)
@given(maybe_zero, maybe_zero, positive, positive, st.floats(1e-6, 10))
def test_best_rounds_by_a_root_finder(c, e, d, r0, eps):
    """The closed-form stepsize and its N solve min over eta of Psi(eta; N) = eps, to 1e-9."""

    def lowest_average(N):
        def psi(log_eta):
            eta = np.exp(log_eta)
            return r0 / (eta * N) + c * eta + e * eta**2

        slope = 2 * e, c, 0.0, -r0 / N  # eta^2 Psi'(eta): one positive root
        roots = np.roots(slope) if e else np.array([np.sqrt(r0 / N / c) if c else np.inf])
        eta = min([1 / d, *(r.real for r in roots if abs(r.imag) < 1e-9 * abs(r) and r.real > 0)])
        return psi(np.log(eta))

    N = float(best_rounds(r0, c, e, d, eps))
    found = brentq(lambda u: np.log(lowest_average(np.exp(u)) / eps), np.log(N) - 1, np.log(N) + 1)
    assert np.exp(found) == pytest.approx(N, rel=1e-9)


@settings(deadline=None)
@given(maybe_zero, maybe_zero, positive, st.floats(1e-6, 10))
def test_best_stepsize_is_best(c, e, d, eps):
    """No stepsize up to 1/d makes more progress than the closed form."""
    eta = float(best_stepsize(c, e, d, eps))

    def progress(eta):
        return eps * eta - c * eta**2 - e * eta**3

    other = minimize_scalar(lambda x: -progress(x), bounds=(0, 1 / d), method="bounded")
    assert 0 < eta <= 1 / d
    assert progress(eta) >= -other.fun * (1 - 1e-12)


@settings(deadline=None)
@given(maybe_zero, maybe_zero, positive, positive, st.floats(1e-6, 10))
def test_lemma_rounds_invert_the_lemma(c, e, d, r0, eps):
    """N_b2 makes the tuning lemma an equality, and some stepsize keeps the lemma's promise."""
    N = float(lemma_rounds(r0, c, e, d, eps))
    y = r0 / N
    assert 2 * np.sqrt(c * y) + 2 * np.cbrt(e * y**2) + d * y == pytest.approx(eps, rel=1e-9)
    steps = [1 / d, *([np.sqrt(y / c)] if c else []), *([np.cbrt(y / e)] if e else [])]
    eta = min(steps)
    assert y / eta + c * eta + e * eta**2 <= eps * (1 + 1e-9)
    assert sufficient_rounds(r0, c, e, d, eps) >= N * (1 - 1e-9)


@settings(deadline=None)
@given(settings_of_theory(), st.booleans())
def test_terms_add_up(x, convex):
    """Terms add up to the rounds (order) or to epsilon (printed, repaired)."""
    for primitive in PRIMITIVES:
        for mode in MODES:
            here = bound(x, primitive, mode, convex)
            whole = here.rounds if mode == "order" else x.epsilon
            assert sum(here.terms.values()) == pytest.approx(whole, rel=1e-9)
            assert all(term >= 0 for term in here.terms.values())
            if mode != "order":
                average = guaranteed_average(
                    x,
                    primitive,
                    mode,
                    convex,
                    stepsize=here.stepsize * (1 - 1e-12),
                    rounds=max(here.rounds, x.period),
                )
                assert average <= x.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("primitive", PRIMITIVES)
@pytest.mark.parametrize("convex", [True, False])
def test_arrays_broadcast(mode, primitive, convex):
    """A bound of arrays is the array of bounds."""
    K, H = np.arange(1, 11), np.array([[1], [4]])
    whole = bound(replace(ORACLE, sampled=K, period=H), primitive, mode, convex)
    assert whole.rounds.shape == (2, 10)
    for i, j in np.ndindex(2, 10):
        one = bound(
            replace(ORACLE, sampled=int(K[j]), period=int(H[i, 0])), primitive, mode, convex
        )
        assert whole.rounds[i, j] == pytest.approx(one.rounds, rel=1e-12)
        if mode != "order":
            assert whole.N_b2[i, j] == pytest.approx(one.N_b2, rel=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("zeta", [0, 0.5])
def test_s2s_with_one_sampled_device_never_gets_there(mode, convex, zeta):
    """K = 1: S2S needs infinitely many rounds, and says why; S2A does not."""
    alone = replace(ORACLE, sampled=1, zeta_intra=zeta, zeta_inter=zeta)
    hopeless = bound(alone, "s2s", mode, convex)
    assert hopeless.rounds == np.inf
    assert "one sampled device" in hopeless.reason
    fine = bound(alone, "s2a", mode, convex)
    assert np.isfinite(fine.rounds)
    assert fine.reason == ""
    if mode != "order":
        assert hopeless.N_b1 == hopeless.N_b2 == np.inf
        average = guaranteed_average(alone, "s2s", mode, convex, stepsize=1e-6, rounds=10**9)
        assert average == np.inf


def test_theorems_are_silent_outside_their_domain():
    """Above the stepsize cap, or within the first period, there is no guarantee."""
    cap = float(1 / coefficients(ORACLE, "s2s", "repaired", False).d)
    kwargs = {"primitive": "s2s", "mode": "repaired", "convex": False}
    assert np.isfinite(guaranteed_average(ORACLE, **kwargs, stepsize=cap, rounds=3))
    assert guaranteed_average(ORACLE, **kwargs, stepsize=1.01 * cap, rounds=3) == np.inf
    assert guaranteed_average(ORACLE, **kwargs, stepsize=cap, rounds=2) == np.inf


def test_assumptions_name_the_flaws():
    """Each mode says under which assumptions it holds, the printed one where it is false."""
    printed = bound(ORACLE, "s2s", "printed", convex=False).assumptions
    assert any("false for long periods" in line for line in printed)
    assert any("fails at H = 1 and near K = n" in line for line in printed)
    order = bound(ORACLE, "s2a", "order", convex=True).assumptions
    assert any("hidden constants are one" in line for line in order)
    assert any("convex" in line for line in order)
    repaired = bound(ORACLE, "s2a", "repaired", convex=False).assumptions
    assert any("not proved" in line for line in repaired)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampled": 0}, "sampled must be between 1 and devices (got 0 of 10 devices)"),
        ({"sampled": 11}, "sampled must be between 1 and devices (got 11 of 10 devices)"),
        ({"sampled": 2.5}, "sampled must be a whole number (got 2.5)"),
        ({"p": 0}, "p must be above 0 and at most 1 (got 0)"),
        ({"p": np.array([0.5, 1.5])}, "p must be above 0 and at most 1 (got 1.5)"),
        ({"epsilon": 0}, "epsilon must be above 0 (got 0)"),
        ({"smoothness": -1}, "smoothness must be above 0 (got -1)"),
        ({"zeta_intra": -0.1}, "zeta_intra must be at least 0 (got -0.1)"),
        ({"sigma2": np.nan}, "sigma2 must be finite (got nan)"),
        ({"period": 0}, "period must be at least 1 (got 0)"),
        ({"components": 11}, "components must be at most devices"),
        ({"components": (4, 5)}, "island sizes must add up to devices (got 9 for 10 devices)"),
    ],
)
def test_wrong_parameters_are_explained(change, words):
    """Bad parameters are met with one line that says the rule."""
    with pytest.raises(SkerryError) as caught:
        replace(ORACLE, **change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_names_are_explained():
    """Unknown primitives and modes are met with what there is."""
    with pytest.raises(SkerryError, match="unknown primitive 's2b'; did you mean"):
        bound(ORACLE, "s2b", "order", convex=True)
    with pytest.raises(SkerryError, match="unknown mode 'printd'; did you mean 'printed'"):
        bound(ORACLE, "s2s", "printd", convex=True)
