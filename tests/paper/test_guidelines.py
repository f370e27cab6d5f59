"""The paper's conclusion as a rule."""

import numpy as np
import pandas as pd
import pytest

from skerry_paper.views.guidelines import BOUNDS, GUIDELINE, RULES, guideline, judge


@pytest.mark.parametrize(
    ("inter", "intra", "share", "period", "choice"),
    [
        ("non-iid", "iid", 0.8, 20, "s2s"),
        ("non-iid", "non-iid", 0.2, 5, "s2s"),
        ("iid", "non-iid", 0.2, 5, "s2s"),
        ("iid", "non-iid", 0.4, 5, "s2a"),
        ("iid", "non-iid", 0.2, 10, "s2a"),
        ("iid", "iid", 0.2, 5, "s2a"),
    ],
)
def test_the_rule_is_that_of_the_conclusion(inter, intra, share, period, choice):
    cell = {"inter": inter, "intra": intra, "share": share, "period": period}
    assert guideline(cell) == choice


def cells(*rows):
    names = ["inter", "intra", "topology", "share", "period", "gap", "p"]
    return pd.DataFrame(rows, columns=names)


def test_a_rule_is_judged_by_decided_cells_and_costs_all():
    """One right, one wrong by half a point, one too close to call."""
    found = judge(
        cells(
            ("non-iid", "iid", "ring", 0.2, 5, 1.0, 0.001),
            ("iid", "iid", "ring", 0.2, 5, 0.5, 0.001),
            ("iid", "iid", "ring", 0.2, 5, 0.1, 0.3),
        ),
        RULES[GUIDELINE],
    )
    assert (found.right, found.decided) == (1, 2)
    assert found.cost == pytest.approx((0.5 + 0.1) / 3)
    assert found.worst == 0.5


def test_the_bounds_choose_as_figure_1_draws_them():
    """High inter heterogeneity: S2S; all alike on a well-connected graph: S2A."""
    differ, alike = cells(
        ("non-iid", "iid", "complete", 0.2, 5, 0.0, np.nan),
        ("iid", "iid", "complete", 0.2, 5, 0.0, np.nan),
    ).to_dict("records")
    assert (RULES[BOUNDS](differ), RULES[BOUNDS](alike)) == ("s2s", "s2a")
