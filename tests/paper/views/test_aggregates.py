"""Rows of tables 1 and 2 from gaps."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skerry_paper.printed import printed_aggregates, printed_cells
from skerry_paper.views.aggregates import aggregate_gaps, recompute_aggregates

TABLES = {"table1": "share", "table2": "period"}


def found(gaps, se=0.5, **factors):
    """Gaps of one regime along K/n on one topology."""
    cell = {"dataset": "mnist", "intra": "iid", "inter": "iid", "topology": "ring", "period": 5}
    rows = [
        cell | factors | {"gap": gap, "se": se, "share": 0.2 + 0.1 * i}
        for i, gap in enumerate(gaps)
    ]
    return pd.DataFrame(rows)


def distance(table, cells):
    """Of the means that the printed cells give from those printed in tables 1 and 2, by row."""
    rows = printed_aggregates()
    rows = rows[rows["table"] == table].merge(
        recompute_aggregates(printed_cells(), TABLES[table], cells),
        on=["dataset", "intra", "inter"],
    )
    assert len(rows) == 8
    return np.abs(rows["gap_mean_x"] - rows["gap_mean_y"]).to_numpy()


def test_a_row():
    """A row counts wins beyond the standard error, and tests all gaps against zero."""
    gaps = [1.0, 0.3, -0.2, -2.0, 0.6]
    (row,) = aggregate_gaps(found(gaps), "share").to_dict("records")
    assert (row["s2s"], row["s2a"], row["tie"], row["cells"]) == (2, 1, 2, 5)
    assert row["gap_mean"] == pytest.approx(np.mean(gaps))
    assert row["gap_se"] == pytest.approx(stats.sem(gaps))
    assert row["p_value"] == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)
    assert (row["gap_max"], row["at"]) == (-2.0, "0.5, ring")


def test_without_error_every_gap_counts():
    """One seed has no standard error: then every gap is a win, and no gap at all a tie."""
    (row,) = aggregate_gaps(found([0.1, -0.1, 0.0], se=np.nan), "share").to_dict("records")
    assert (row["s2s"], row["s2a"], row["tie"]) == (1, 1, 1)


def test_only_the_cells_of_the_table():
    """Table 1 takes H = 5 without K = n, table 2 takes K/n = 0.2."""
    cells = pd.concat(
        [
            found([1.0, 2.0]),
            found([3.0], period=10),
            found([9.0], period=10).assign(share=0.4),
            found([0.0]).assign(share=1.0),
        ]
    )
    assert aggregate_gaps(cells, "share")["gap_mean"].tolist() == [1.5]
    assert aggregate_gaps(cells, "period")["gap_mean"].tolist() == [2.0]


def test_regimes_keep_their_order():
    """There is a row per data set and regime, in the order in which they come."""
    cells = pd.concat(
        [found([1.0, 2.0]), found([1.0, 2.0], intra="non-iid"), found([1.0], dataset="a")]
    )
    rows = aggregate_gaps(cells, "share")
    assert rows[["dataset", "intra"]].to_numpy().tolist() == [
        ["mnist", "iid"],
        ["mnist", "non-iid"],
        ["a", "iid"],
    ]
    assert np.isnan(rows["p_value"].iloc[2])


def test_nothing_gives_no_rows():
    """Without cells there is a table without rows."""
    assert aggregate_gaps(found([1.0]).iloc[:0], "period").empty


def test_audit_table1_was_averaged_over_15_cells():
    """The means of table 1 are met with three zeros for K/n = 1, and missed without them."""
    assert (distance("table1", 15) < 0.02).all()
    assert (distance("table1", 12) > 0.05).sum() == 6


def test_audit_table2_was_averaged_over_12_cells():
    """The means of table 2 need no zeros, though three of them stray from their cells."""
    assert np.sort(distance("table2", 12))[-3:] == pytest.approx([0.0275, 0.0433, 0.0758], abs=1e-3)
    assert (distance("table2", 15) > 0.2).sum() == 4


def test_audit_counts():
    """The printed counts are those of the cells but in one row: CIFAR-10, non-IID twice, along H,
    has 6/5/1 where 7/5/0 is printed."""
    counts = ["s2s", "s2a", "tie"]
    regime = ["dataset", "intra", "inter"]
    apart = {}
    for table, along in TABLES.items():
        printed = printed_aggregates()
        printed = printed[printed["table"] == table].set_index(regime)[counts]
        cells = recompute_aggregates(printed_cells(), along).set_index(regime)[counts]
        for name in printed.index[(printed != cells.loc[printed.index]).any(axis=1)]:
            apart[table, *name] = (printed.loc[name].tolist(), cells.loc[name].tolist())
    assert apart == {("table2", "cifar10", "non-iid", "non-iid"): ([7, 5, 0], [6, 5, 1])}
