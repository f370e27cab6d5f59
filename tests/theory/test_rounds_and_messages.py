from dataclasses import replace

import numpy as np
import pytest

from skerry.errors import SkerryError
from skerry.theory.bounds import bound
from skerry.theory.certified import best_blend, certified_rounds
from skerry.theory.communication import Prices
from skerry.theory.crossings import Stretch, cheapest, stretches
from skerry.theory.parameters import Parameters
from skerry.theory.rounds_and_messages import MODES, ask

SMALL = Parameters(10, 2, 4, 3, 0.5, 0.2, 0.3, 0.5, 2, 3, 0.01)


@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("primitive", ["s2s", "s2a"])
def test_answers_are_those_of_the_bounds(mode, primitive, convex):
    """Asking gives what the mode's own function gives, and the terms add up."""
    answer = ask(SMALL, primitive, mode, convex)
    if mode == "certified":
        own = certified_rounds(SMALL, primitive, convex=convex)
        last = own.rounds - 1
    else:
        own = bound(SMALL, primitive, mode, convex)
        last = own.rounds if mode == "order" else own.horizon
    assert answer.rounds == own.rounds
    assert answer.stepsize == own.stepsize if mode == "certified" else True
    assert answer.assumptions == own.assumptions
    whole = answer.rounds if mode == "order" else SMALL.epsilon
    assert sum(answer.terms.values()) == pytest.approx(
        whole, rel=1e-3 if mode == "certified" else 1e-9
    )
    per_server_round = 8 if primitive == "s2s" else 14
    server_rounds = last / 3 if mode == "order" else np.ceil(last / 3)
    assert answer.messages == pytest.approx(per_server_round * server_rounds)


@pytest.mark.parametrize("dial", ["s2s", "s2a", "blend"])
def test_terms_of_a_certificate_add_up(dial):
    """What initial error, noise, heterogeneity and sampling add makes up the certified average."""
    found = certified_rounds(SMALL, dial, convex=False)
    assert sum(found.terms.values()) == pytest.approx(found.average, rel=1e-9)
    assert min(found.terms.values()) >= 0
    assert ("sampling_inter" in found.terms) == (dial != "s2s")
    silent = certified_rounds(replace(SMALL, zeta_intra=0, sigma2=0), dial, convex=False)
    assert silent.terms["intra"] == silent.terms["noise"] == 0 < silent.terms["inter"]


def test_the_best_blend():
    """beta = "best" is the blend with the fewest certified rounds."""
    best = ask(SMALL, "blend", "certified", False, beta="best")
    assert best.rounds == best_blend(SMALL, convex=False).rounds
    assert best.rounds <= ask(SMALL, "blend", "certified", False, beta=0.5).rounds
    assert best.label == f"blend({best.beta:.3g})"


def test_blend_of_nothing_sends_what_s2s_sends():
    """Downlinks of a blend are paid only where beta is above 0."""
    s2s, still, moved = (
        ask(SMALL, primitive, "certified", True, beta=beta)
        for primitive, beta in (("s2s", 0.5), ("blend", 0.0), ("blend", 1e-9))
    )
    assert still.messages == s2s.messages
    assert moved.messages == pytest.approx(14 / 8 * s2s.messages)


@pytest.mark.parametrize("mode", MODES)
def test_one_sampled_device(mode):
    """S2S with K = 1 needs infinitely many rounds and messages, and JSON says why."""
    row = ask(replace(SMALL, sampled=1), "s2s", mode, False).to_json()
    assert row["rounds"] is row["messages"] is row["stepsize"] is None
    assert "one sampled device" in row["reason"]
    assert "reason" not in ask(SMALL, "s2s", mode, False).to_json()


def test_prices_count():
    """Messages are paid at their prices."""
    dear = ask(SMALL, "s2a", "order", False, prices=Prices(downlink=2)).messages
    assert dear == pytest.approx(24 / 14 * ask(SMALL, "s2a", "order", False).messages)


def test_wrong_names_are_explained():
    """Unknown modes and primitives, and blends without a certificate, get one line."""
    for arguments, words in (
        (("s2s", "exact"), "unknown mode 'exact'"),
        (("s2b", "order"), "unknown primitive 's2b'"),
        (("s2b", "certified"), "unknown primitive 's2b'"),
        (("blend", "printed"), "blend has certified bounds only"),
    ):
        with pytest.raises(SkerryError, match=words):
            ask(SMALL, *arguments, convex=True)


def line_and_parabola(x):
    return {"line": 2 * x, "parabola": x**2, "never": np.full_like(x, np.inf)}


def test_stretches_on_a_continuous_axis():
    """Neighbouring stretches meet where the costs do: x^2 = 2x at 2."""
    found = stretches(np.linspace(0.1, 3, 7), line_and_parabola, continuous=True)
    assert [stretch.winner for stretch in found] == ["parabola", "line"]
    assert found[0].last == found[1].first == pytest.approx(2, abs=1e-8)
    assert (found[0].first, found[1].last) == (0.1, 3)


def test_stretches_of_whole_numbers():
    """On whole numbers stretches end at the last value that is won; equal costs are a tie."""
    found = stretches(np.arange(1.0, 5), line_and_parabola, continuous=False)
    assert found == (Stretch("parabola", 1, 1), Stretch("tie", 2, 2), Stretch("line", 3, 4))


def test_cheapest():
    """The cheapest of several; a tie where rounding alone decides or nobody gets there."""
    assert cheapest({"a": 1.0, "b": 2.0, "c": 3.0}) == "a"
    assert cheapest({"a": 1.0, "b": 1.0 + 1e-15}) == "tie"
    assert cheapest({"a": np.inf, "b": np.inf}) == "tie"
    assert cheapest({"a": np.inf, "b": 5.0}) == "b"
