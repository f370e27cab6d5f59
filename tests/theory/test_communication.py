import numpy as np
import pytest

from skerry.errors import SkerryError
from skerry.theory.communication import Prices, communication_cost, server_round_cost, server_rounds

SETTING = {"rounds": 101, "devices": 100, "sampled": 20, "period": 5}


def test_messages_of_the_example():
    """T = 101, H = 5, K = 20, n = 100: 21 server rounds, 840 messages for S2S, 2520 for S2A."""
    assert server_rounds(101, 5) == 21
    assert communication_cost("s2s", **SETTING) == 840
    assert communication_cost("s2a", **SETTING) == 2520
    assert communication_cost("blend", **SETTING) == 2520


@pytest.mark.parametrize("T", [1, 4, 5, 6, 100])
@pytest.mark.parametrize("H", [1, 5, 7])
def test_server_rounds_are_counted(T, H):
    """R is the number of rounds t < T with t mod H = 0, round 0 included."""
    assert server_rounds(T, H) == sum(t % H == 0 for t in range(T))
    assert server_rounds(T, H, smooth=True) == T / H


def test_the_ratio_of_costs():
    """S2A costs (K+n)/(2K) of S2S per round, so their totals are in that ratio times rounds'."""
    rounds = {"s2s": 1000.0, "s2a": 400.0}
    s2s, s2a = (
        communication_cost(p, **{**SETTING, "rounds": rounds[p]}, smooth=True) for p in rounds
    )
    assert s2a / s2s == pytest.approx(120 / 40 * 400 / 1000)


def test_prices():
    """Downlinks may be cheaper, a broadcast is one message, D2D counts both ways every round."""
    assert server_round_cost("s2s", 100, 20, Prices(downlink=0.25)) == 20 + 0.25 * 20
    assert server_round_cost("s2a", 100, 20, Prices(downlink=0.25)) == 20 + 0.25 * 100
    assert server_round_cost("s2a", 100, 20, Prices(broadcast=1)) == 21
    assert server_round_cost("s2s", 100, 20, Prices(broadcast=50)) == 40
    assert server_round_cost("s2a", 100, 20, Prices(broadcast=50)) == 70
    d2d = communication_cost("s2s", **SETTING, edges=100, prices=Prices(d2d=0.1))
    assert d2d == pytest.approx(840 + 0.1 * 200 * 101)


def test_arrays_and_infinity_pass_through():
    """Costs broadcast, and an infinite number of rounds costs infinitely much."""
    costs = communication_cost("s2s", **{**SETTING, "rounds": [5, np.inf], "sampled": [2, 1]})
    np.testing.assert_array_equal(costs, [4, np.inf])


def test_wrong_input_is_explained():
    """Bad input is met with one line that says the rule."""
    with pytest.raises(SkerryError, match="uplink must be at least 0"):
        Prices(uplink=-1)
    with pytest.raises(SkerryError, match="unknown primitive 's3s'"):
        server_round_cost("s3s", 10, 2)
    with pytest.raises(SkerryError, match="sampled must be between 1 and devices"):
        server_round_cost("s2s", 10, 0)
