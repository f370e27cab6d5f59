"""What the paper prints, and where its numbers do not fit each other (the audit)."""

import pytest

from skerry_paper.printed import CELL, printed_aggregates, printed_cells, statements
from skerry_paper.targets import TARGETS
from skerry_paper.views.aggregates import recompute_aggregates, win_percentages

SHARE_TABLES = ["table3", "table4"]


def stated(key):
    (found,) = [one for one in statements() if one.key == key]
    return found


def test_every_table_is_whole():
    """Tables 3 to 6 have 48 cells each: 4 regimes, 4 values along the axis, 3 topologies."""
    cells = printed_cells()
    assert cells["table"].value_counts().to_dict() == dict.fromkeys(
        ["table3", "table4", "table5", "table6"], 48
    )
    assert not cells.duplicated(["table", *CELL]).any()
    assert set(cells["topology"]) == {"complete", "grid", "ring"}
    assert set(cells.loc[cells["table"].isin(SHARE_TABLES), "period"]) == {5}
    assert set(cells.loc[~cells["table"].isin(SHARE_TABLES), "share"]) == {0.2}


def test_winner_follows_the_sign():
    """Positive gaps favour S2S, negative ones S2A, and a dash favours none."""
    cells = printed_cells()
    assert (cells.loc[cells["winner"] == "S2S", "gap"] > 0).all()
    assert (cells.loc[cells["winner"] == "S2A", "gap"] < 0).all()
    assert cells.loc[cells["winner"] == "--", "gap"].isna().all()
    assert (cells["winner"] == "--").sum() == 10


def test_single_cells():
    """Corners of the tables, read off the page."""
    gaps = printed_cells().set_index(["table", *CELL])["gap"]
    assert gaps["table3", "mnist", "iid", "iid", "ring", 0.2, 5] == -0.05
    assert gaps["table4", "cifar10", "non-iid", "non-iid", "complete", 0.2, 5] == 7.01
    assert gaps["table5", "mnist", "iid", "non-iid", "ring", 0.2, 20] == -0.30
    assert gaps["table6", "cifar10", "non-iid", "non-iid", "ring", 0.2, 20] == -6.90


def test_aggregates_count_twelve_cells():
    """Wins and ties of a row of tables 1 and 2 add up to its 12 configurations."""
    rows = printed_aggregates()
    assert rows["table"].value_counts().to_dict() == {"table1": 8, "table2": 8}
    assert (rows[["s2s", "s2a", "tie"]].sum(axis=1) == 12).all()


def test_largest_gaps_are_in_the_cells():
    """The largest gap of an aggregate row is that of its cell, but for a last digit in two rows."""
    rows = printed_aggregates().set_index(["table", "dataset", "intra", "inter"])
    apart = {}
    for table, along in (("table1", "share"), ("table2", "period")):
        for row in recompute_aggregates(printed_cells(), along).itertuples():
            printed = rows.loc[table, row.dataset, row.intra, row.inter]
            assert printed["at"] == row.at
            if printed["gap_max"] != row.gap_max:
                apart[table, row.dataset, row.intra, row.inter] = row.gap_max - printed["gap_max"]
    assert apart == {
        ("table1", "cifar10", "iid", "non-iid"): pytest.approx(0.01),
        ("table2", "cifar10", "iid", "non-iid"): pytest.approx(0.01),
    }


def test_statements_name_targets():
    """Every statement has a key of its own and speaks of tables or figures that exist."""
    found = statements()
    assert len({one.key for one in found}) == len(found)
    assert all(target in TARGETS for one in found for target in one.targets)
    assert {one.key for one in statements("fig14")} == {
        "fig14_disagreement_ratio",
        "fig14_bias_ratio",
    }
    assert statements("fig1") == []


def test_statement_in_words():
    """A value is told with its sign, error, hedge and unit, as far as the text gives them."""
    assert stated("fig11_gap_fixed").value_in_words == "+8.58 ± 0.32 p.p."
    assert stated("fig12_change").value_in_words == "-0.03 ± 0.10 p.p."
    assert stated("table1_r1_s2a").value_in_words == "over 80 %"
    assert stated("fig14_bias_ratio").value_in_words == "about 0.04"


def test_changes_are_differences_of_the_gaps():
    """The changes stated for figures 11 and 12 are the differences of the stated gaps."""
    for change, after, before in (
        ("fig11_gap_change", "fig11_gap_random", "fig11_gap_fixed"),
        ("fig12_change", "fig12_gap_fedavgm", "fig12_gap_fedavg"),
    ):
        difference = stated(after).value - stated(before).value
        assert stated(change).value == pytest.approx(difference)


def test_audit_one_configuration_two_values():
    """K/n = 0.2 with H = 5 stands in two tables, in 10 of 24 cells with different gaps."""
    cells = printed_cells()
    both = cells[(cells["share"] == 0.2) & (cells["period"] == 5)].assign(
        gap=cells["gap"].fillna(0)
    )
    along_share = both["table"].isin(SHARE_TABLES)
    pairs = both[along_share].merge(both[~along_share], on=CELL)
    assert len(pairs) == 24
    assert (pairs["gap_x"] != pairs["gap_y"]).sum() == 10
    worst = pairs[(pairs["dataset"] == "cifar10") & (pairs["intra"] == "non-iid")]
    worst = worst[worst["inter"] == "iid"]
    assert worst["gap_x"].tolist() == [0.01, 7.74, 8.43]
    assert worst["gap_y"].tolist() == [0.46, 7.28, 8.52]


def test_audit_wins():
    """The cells give 66.7 / 29.2 / 4.2 % along K/n where the text says about 60 / 30 / 10, and
    58.3 / 35.4 / 6.2 % along H where it says 60 and 40."""
    cells = printed_cells()
    assert win_percentages(recompute_aggregates(cells, "share")) == pytest.approx(
        (66.7, 29.2, 4.2), abs=0.05
    )
    assert win_percentages(recompute_aggregates(cells, "period")) == pytest.approx(
        (58.3, 35.4, 6.25), abs=0.05
    )
    assert [stated(f"table1_{who}").value for who in ("s2s", "s2a", "tie")] == [60, 30, 10]
    assert [stated(f"table2_{who}").value for who in ("s2s", "s2a")] == [60, 40]


@pytest.mark.parametrize(
    ("along", "key", "intra", "inter", "who", "percent"),
    [
        ("share", "table1_r1_s2a", "iid", "iid", "s2a", 79.2),
        ("period", "table2_r1_s2a", "iid", "iid", "s2a", 83.3),
        ("period", "table2_r2_s2s", "non-iid", "iid", "s2s", 62.5),
        ("period", "table2_r3_s2s", None, "non-iid", "s2s", 83.3),
    ],
)
def test_audit_regimes_below_the_text(along, key, intra, inter, who, percent):
    """In four regimes the cells show the named winner less often than the text says."""
    rows = recompute_aggregates(printed_cells(), along)
    rows = rows[(rows["inter"] == inter) & (rows["intra"].eq(intra) if intra else True)]
    found = getattr(win_percentages(rows), who)
    assert found == pytest.approx(percent, abs=0.05)
    assert found < stated(key).value


def test_the_largest_gap_along_the_period_is_not_at_five():
    """The text says +2 points at H = 5, MNIST, islands that differ; Table 5 has more at H = 10."""
    cells = printed_cells()
    there = cells[(cells["table"] == "table5") & (cells["inter"] == "non-iid")]
    largest = there.loc[there["gap"].idxmax()]
    assert (largest["gap"], largest["period"]) == (3.0, 10)
    assert there.loc[there["period"] == 5, "gap"].max() == 2.35
