import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import SkerryError
from skerry.theory.lemmas import (
    geometric_sum,
    period_sum,
    recursion_bound,
    server_share,
    simulate_recursion,
)
from skerry.theory.operators import delta

rates = st.floats(0, 1.2)
amounts = st.floats(0, 5)


@pytest.mark.parametrize(
    ("a2", "simulated", "bound", "exact"),
    [
        (0.9, 2.963239, 10.579256, False),
        (1.0, 4.460000, 5.040000, True),
        (1.1, 8.683073, 10.832011, True),
        (1.1, 8.683073, 10.832011, False),
    ],
)
def test_oracles_of_the_recursion_lemma(a2, simulated, bound, exact):
    """a1 = .5, b1 = .3, b2 = .7, H = 5, T = 99, to the printed digits."""
    case = (0.5, 0.3, a2, 0.7, 5, 99)
    assert simulate_recursion(*case) == pytest.approx(simulated, abs=1e-6)
    assert recursion_bound(*case, exact=exact) == pytest.approx(bound, abs=1e-6)


@settings(deadline=None)
@given(rates, amounts, rates, amounts, st.integers(1, 12), st.integers(0, 60))
def test_the_bound_holds(a1, b1, a2, b2, H, T):
    """The mean of the recursion never exceeds the exact bound, nor that the printed one."""
    if a1 * a2 ** (H - 1) >= 0.99:
        return
    exact = recursion_bound(a1, b1, a2, b2, H, T)
    assert simulate_recursion(a1, b1, a2, b2, H, T) <= exact * (1 + 1e-9) + 1e-12
    if a2 != 1:
        assert exact <= recursion_bound(a1, b1, a2, b2, H, T, exact=False) * (1 + 1e-9)


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_the_exact_form_is_smooth_at_one(distance):
    """The exact form passes through a2 = 1; the printed one blows up below it."""
    at_one = period_sum(0.5, 0.3, 1.0, 0.7, 50)
    for a2 in (1 - distance, 1 + distance):
        assert period_sum(0.5, 0.3, a2, 0.7, 50) == pytest.approx(
            at_one, rel=100 * distance + 1e-13
        )
    assert period_sum(0.5, 0.3, 1 - distance, 0.7, 50, exact=False) > 0.1 / distance


@settings(deadline=None)
@given(st.floats(0, 2), st.integers(0, 40))
def test_geometric_sum(a, terms):
    """The closed form is the sum."""
    assert geometric_sum(a, terms) == pytest.approx(sum(a**k for k in range(terms)), rel=1e-12)


def test_lemma_7_has_its_inequality_reversed():
    """The share of server rounds is at least 1/H, and at most 1/H + 1/(T+1)."""
    for H in range(1, 12):
        for T in range(60):
            share = np.mean([t % H == 0 for t in range(T + 1)])
            assert server_share(H, T) == pytest.approx(share)
            assert 1 / H <= share + 1e-15 <= 1 / H + 1 / (T + 1) + 1e-14
    assert server_share(5, 100) > 1 / 5


def inter_sum(K, n, H):
    """T3 + T4 + T5 of the S2S proof, at its rho = (1-delta)/(2H)."""
    d = delta(n, K)
    rho = (1 - d) / (2 * H)
    growth, push = 1 + rho, 1 + 1 / rho
    return period_sum(d * growth, d * push, growth, push, H)


@pytest.mark.parametrize(("K", "H", "value"), [(20, 1, 80.691), (100, 5, 121.561)])
def test_printed_inter_constant_fails(K, H, value):
    """70 delta H^2(H-1)/(1-delta)^2 is 0 where T3 + T4 + T5 is not."""
    d = delta(100, K)
    assert inter_sum(K, 100, H) == pytest.approx(value, abs=5e-4)
    assert 70 * d * H**2 * (H - 1) / (1 - d) ** 2 == 0
    assert inter_sum(K, 100, H) <= 4 * H**3 / (1 - d) ** 2


@settings(deadline=None)
@given(st.integers(2, 400), st.integers(1, 200), st.data())
def test_repaired_inter_constant_holds(n, H, data):
    """T3 + T4 + T5 <= 4 H^3/(1-delta)^2 for every period and sampling rate."""
    K = data.draw(st.integers(2, n))
    assert inter_sum(K, n, H) <= 4 * H**3 / (1 - delta(n, K)) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: recursion_bound(1, 0, 1, 1, 3, 10), "a1 a2^(H-1) must be below 1"),
        (lambda: recursion_bound(0.5, 0, 1, 1, 3, 10, exact=False), "Use exact=True"),
        (lambda: recursion_bound(-0.5, 0, 1, 1, 3, 10), "a1 = -0.5"),
        (lambda: server_share(0, 3), "H of at least 1"),
    ],
)
def test_wrong_input_is_explained(call, words):
    """Bad input is met with one line that says the rule."""
    with pytest.raises(SkerryError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
