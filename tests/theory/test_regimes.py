import pytest

from skerry.theory.communication import Prices
from skerry.theory.regimes import regime_table

S2S, S2A, TIE = "s2s", "s2a", "tie"
ALL = "sampled", "period", "p"

# Who wins along each axis; a sampled device alone is always S2A's, everybody sampled a tie.
ONLY_S2S = ([(S2A, 1, 1), (S2S, 2, 99), (TIE, 100, 100)], [(S2S, 1, 50)], [(S2S, 0.01, 1)])
FIGURE_1 = {
    (0.1, 0.1): (
        [(S2A, 1, 99), (TIE, 100, 100)],
        [(S2A, 1, 50)],
        [(S2S, 0.01, 0.0953), (S2A, 0.0953, 1)],
    ),
    (1, 0.1): (
        [(S2A, 1, 99), (TIE, 100, 100)],
        [(S2S, 1, 4), (S2A, 5, 50)],
        [(S2S, 0.01, 0.9533), (S2A, 0.9533, 1)],
    ),
    (0.1, 1): ONLY_S2S,
    (1, 1): ONLY_S2S,
}
FIGURE_6 = {
    (0.1, 0.1): (
        [(S2A, 1, 1), (S2S, 2, 49), (S2A, 50, 99), (TIE, 100, 100)],
        [(S2S, 1, 50)],
        [(S2S, 0.01, 1)],
    ),
    (1, 0.1): ONLY_S2S,
    (0.1, 1): ONLY_S2S,
    (1, 1): ONLY_S2S,
}


def test_the_regime_table():
    """Figures 1 and 6 with all constants one: who wins where, and the crossing points."""
    for regime in regime_table():
        figure = FIGURE_1 if regime.measure == "rounds" else FIGURE_6
        expected = figure[regime.zeta_intra, regime.zeta_inter][ALL.index(regime.axis)]
        found = [(s.winner, s.first, s.last) for s in regime.stretches]
        assert [one[0] for one in found] == [one[0] for one in expected], regime
        for (_, *ends), (_, *expected_ends) in zip(found, expected, strict=True):
            assert ends == pytest.approx(expected_ends, abs=5e-5), regime


def test_the_table_covers_both_figures():
    """Four heterogeneities, two figures, three axes."""
    assert len(regime_table()) == 24


@pytest.mark.parametrize("change", [{"epsilon": 1e-4}, {"prices": Prices(downlink=0.25)}])
def test_the_text_of_figure_6_fits_other_settings(change):
    """At eps = 1e-4, or with cheap downlinks, S2A wins messages along H at low heterogeneity."""
    table = {
        (r.zeta_intra, r.zeta_inter, r.measure, r.axis): r.stretches for r in regime_table(**change)
    }
    winners = {stretch.winner for stretch in table[0.1, 0.1, "messages", "period"]}
    assert "s2a" in winners
