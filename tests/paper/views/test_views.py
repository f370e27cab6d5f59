"""The reproduction as it is shown: what it says is what the studies hold, and nothing is hidden."""

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from skerry.report.text import Sheet
from skerry.theory.regimes import regime_table
from skerry_paper.paired_curves import curves_to_draw
from skerry_paper.study import StudyData, last_20_column
from skerry_paper.targets import TARGETS
from skerry_paper.views import VIEWS, view_of
from skerry_paper.views.bound_claims import CLAIMS, holds, leading_fraction
from skerry_paper.views.drops import momentum_parts
from skerry_paper.views.view import View

Grid = Callable[..., StudyData]
KEPT = Path(__file__).parents[3] / "studies" / "reproduction" / "data"


def sheets(view: View) -> list[Sheet]:
    return [part for part in view.parts if isinstance(part, Sheet)]


def check_markdown(text: str) -> None:
    """Every table has as many cells in each row as in its head."""
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
        assert len(widths) == 1, table
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert text.startswith("# ")


class Views(dict[str, View]):
    """Each is made when it is first asked for."""

    def __init__(self, studies: dict[str, StudyData]):
        self._studies = studies

    def __missing__(self, name: str) -> View:
        self[name] = view_of(TARGETS[name], self._studies)
        return self[name]


@pytest.fixture(scope="module")
def views(studies: dict[str, StudyData]) -> dict[str, View]:
    return Views(studies)


def test_every_view_is_shown() -> None:
    """No target names a view that cannot be shown."""
    assert {target.kind for target in TARGETS.values()} <= VIEWS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_markdown_is_well_formed(views: dict[str, View], name: str) -> None:
    """Tables of every target have rows of equal width, and every picture is linked."""
    text = views[name].to_markdown()
    check_markdown(text)
    for picture in views[name].figures:
        assert f"]({picture}.png)" in text
    assert views[name].verdict in text


@pytest.mark.parametrize("name", TARGETS)
def test_the_terminal_shows_every_table(views: dict[str, View], name: str) -> None:
    """What is printed holds the verdict and the title of every table."""
    heard = StringIO()
    views[name].print_to(Console(file=heard, width=120))
    assert views[name].verdict in heard.getvalue()
    for sheet in sheets(views[name]):
        assert sheet.title in heard.getvalue()


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.studies])
def test_a_study_that_is_absent_is_named(name: str) -> None:
    """Without studies a target says so, and with which command to make them."""
    found = view_of(TARGETS[name], {})
    assert found.verdict == "Not run here."
    assert f"skerry reproduce {name}" in found.to_markdown()
    assert not found.figures


def test_cifar100_says_where_its_data_come_from() -> None:
    """CIFAR-100 must be fetched first; the page says how."""
    assert "skerry data fetch cifar100" in view_of(TARGETS["fig13"], {}).to_markdown()


def test_what_is_missing_stands_beside_what_is_there(studies: dict[str, StudyData]) -> None:
    """With one data set of two, its rows are shown and the other is said to be missing."""
    found = view_of(TARGETS["table1"], {"mnist": studies["mnist"]})
    titles = [sheet.title for sheet in sheets(found)]
    assert "MNIST" in titles
    assert "CIFAR-10" not in titles
    assert "Missing: the CNN on CIFAR-10" in found.to_markdown()


@pytest.mark.parametrize(
    "name", [n for n, t in TARGETS.items() if set(t.studies) & {"mnist", "cifar10"}]
)
def test_few_cells_are_enough(studies: dict[str, StudyData], name: str) -> None:
    """A study of one regime, topology and seed is shown as far as it goes."""
    few = {
        key: study.of(
            intra="non-iid", inter="iid", topology="ring", seed=0, share=[0.2], period=[5, 20]
        )
        for key, study in studies.items()
    }
    found = view_of(TARGETS[name], few)
    check_markdown(found.to_markdown())
    assert all(len(figure.axes) for figure in found.figures.values())


# Without blend, whose theory takes long: its front and table are tested below.
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "blend"])
def test_scores_that_diverged_are_left_out(studies: dict[str, StudyData], name: str) -> None:
    """NaN scores of a seed do not spoil a view, nor come up in it."""
    hurt = {}
    for key, study in studies.items():
        runs = study.runs.copy()
        runs.loc[runs["seed"] == 1, [column for column in runs if "accuracy" in column]] = np.nan
        hurt[key] = StudyData(key, study.about, runs, study.curves)
    text = view_of(TARGETS[name], hurt).to_markdown()
    check_markdown(text)
    assert "nan" not in re.findall(r"[a-z]+", text.lower())


def test_a_seed_that_diverged_is_drawn_for_neither(studies: dict[str, StudyData]) -> None:
    """Unless it is the only one: then the primitive that reached its end is drawn."""
    ring = studies["mnist-curves"].of(stepsize=0.1)
    astray = (ring.runs["seed"] == 1) & (ring.runs["primitive"] == "s2a")
    runs = ring.runs.assign(status=np.where(astray, "diverged", "finished"))
    hurt = StudyData(ring.name, ring.about, runs, ring.curves)
    assert set(curves_to_draw(ring, "average_accuracy")["seed"]) == {0, 1}
    assert set(curves_to_draw(hurt, "average_accuracy")["seed"]) == {0}
    assert set(curves_to_draw(hurt.of(seed=1), "average_accuracy")["primitive"]) == {"s2s"}


# Tables


@pytest.mark.parametrize(
    ("name", "large"), [("table3", 26), ("table4", 45), ("table5", 31), ("table6", 45)]
)
def test_signs_are_counted(views: dict[str, View], name: str, large: int) -> None:
    """The made-up devices have every printed sign, the made-up average model none, at both
    timings, the stated one first; guesses that need no runs stand beside them."""
    told = views[name].verdict
    for when in ("final round", "mean of the last 20 rounds"):
        here = told.partition(when)[2].partition(";")[0]
        assert re.fullmatch(
            rf" devices, own labels 0\.\d\d \(signs {large} of {large}\), "
            rf"average model \d\.\d\d \(signs 0 of {large}\)",
            here,
        )
    assert told.index("final round") < told.index("last 20") < told.index("zero")
    assert re.search(rf"zero \d\.\d\d, always S2S \d\.\d\d \(signs \d+ of {large}\)", told)


def test_a_gap_table_holds_the_printed_and_the_found_gap(views: dict[str, View]) -> None:
    """A cell of Table 3: printed, ours with its interval, and whether the sign agrees."""
    (sheet,) = [one for one in sheets(views["table3"]) if one.title == "intra IID, inter non-IID"]
    assert sheet.rows[0] == (
        "0.2", "complete", "+2.37", "S2S",
        *(("+2.37 ± 0.05", "✓", "-2.37 ± 0.05", "✗") * 2),
    )  # fmt: skip
    assert len(sheet.rows) == 12


def test_tables_say_among_which_stepsizes_they_choose(views: dict[str, View]) -> None:
    assert "Stepsizes tried in these runs: 0.01, 0.1." in views["table3"].to_markdown()
    alone = "Stepsizes tried in these runs: only 0.1 (`protocol` has others)."
    assert alone in views["table4"].to_markdown()
    assert alone in views["fig3"].to_markdown()


def test_one_seed_has_no_error(views: dict[str, View]) -> None:
    """CIFAR-10 has one seed here: no ± beside its gaps."""
    table = [sheet for sheet in sheets(views["table4"]) if sheet.title.startswith("intra")]
    assert len(table) == 4
    assert not any("±" in cell for sheet in table for row in sheet.rows for cell in row)


def test_small_printed_gaps_say_nothing(views: dict[str, View]) -> None:
    """A printed gap within 0.1 points, or a dash, is neither agreed with nor contradicted."""
    (sheet,) = [one for one in sheets(views["table3"]) if one.title == "intra IID, inter IID"]
    assert {row[5] for row in sheet.rows} == {row[7] for row in sheet.rows} == {"·"}
    assert ("0.4", "complete", "--", "--") in {row[:4] for row in sheet.rows}


def test_an_aggregate_stands_beside_what_its_cells_give(views: dict[str, View]) -> None:
    """Printed, recomputed over 12 and 15 cells, and ours: a row each, for every regime."""
    (sheet,) = [one for one in sheets(views["table1"]) if one.title == "MNIST"]
    third = sheet.rows[14:21]
    assert [row[1] for row in third] == [
        "printed", "recomputed", "recomputed, 15 cells",
        "devices, own labels; final", "average model; final",
        "devices, own labels; last 20", "average model; last 20",
    ]  # fmt: skip
    assert [row[4] for row in third[:3]] == ["+0.91 ± 0.22", "+1.14 ± 0.23", "+0.91 ± 0.22"]
    assert [row[3] for row in third[:3]] == ["-"] * 3  # what is printed has no seeds to test
    assert [row[2] for row in third[3:]] == ["12/0/0", "0/12/0"] * 2


# Figures


def test_heat_maps_have_the_colour_of_the_winner(views: dict[str, View]) -> None:
    """Where S2S leads a cell is blue as S2S is everywhere, else orange; the text is the gap."""
    axes = views["fig8"].figures["fig8"].axes
    printed, own, average = axes[9:12]
    for axis, sign in ((printed, 1), (own, 1), (average, -1)):
        gap = axis.collections[0].get_array()
        assert gap[0, 0] == pytest.approx(3.6 * sign)  # H = 5, K/n = 0.2
        assert gap[3, 0] == pytest.approx(-6.9 * sign)
        red, _, blue, _ = axis.collections[0].to_rgba(np.asarray(gap[0, 0]))
        assert (blue > red) == (sign > 0)
    assert np.ma.getmaskarray(printed.collections[0].get_array()).sum() == 9
    assert not np.ma.getmaskarray(own.collections[0].get_array()).any()


def test_accuracies_are_those_of_the_best_stepsize(views: dict[str, View]) -> None:
    """The first point of the first panel is the mean over seeds at K/n = 0.2."""
    axis = views["fig2"].figures["fig2-own"].axes[4]
    line = axis.get_lines()[0]
    assert line.get_xdata()[0] == pytest.approx(0.2)
    assert line.get_ydata()[0] == pytest.approx(80 + 1 - 0.5 + 2.37 / 2)


def test_the_text_about_accuracies_is_recomputed(views: dict[str, View]) -> None:
    """The made-up accuracy gains 4 points along K/n and loses 1.5 along H."""
    assert "devices, own labels; final +4.00 and -1.50" in views["fig2"].verdict
    (text,) = [one for one in sheets(views["fig2"]) if one.title == "Statements of the text"]
    assert text.rows[0][1:] == ("+2 p.p.", *["+4.00 p.p."] * 4)


def test_curves_are_drawn_for_both_scorings(views: dict[str, View]) -> None:
    """A panel for each setting and scoring; S2S is 4 points below, then 6 above S2A."""
    axes = views["fig9"].figures["fig9"].axes
    assert len(axes) == 4
    s2s, s2a = (axes[0].get_lines()[i].get_ydata() for i in (0, 1))
    np.testing.assert_allclose((s2s - s2a)[[0, -1]], [-4, 6])
    (sheet,) = sheets(views["fig10"])
    row = {row[0]: row for row in sheet.rows}["H = 15: gap after 100 rounds"]
    assert row[1:3] == ("-4.8 p.p.", "-4.00")


def test_numbers_within_their_own_error_have_no_sign(views: dict[str, View]) -> None:
    """The text's -0.03 ± 0.10 for FedAvgM says nothing about who gains."""
    assert views["fig12"].verdict.startswith("Signs that agree with the text: average model 2 of 2")


def test_server_rounds_beside_their_theory(views: dict[str, View]) -> None:
    """Ratios are those of the made-up runs, the theory's line beside them; six panels."""
    axes = views["fig14"].figures["fig14"].axes
    assert len(axes) == 6
    for axis, whose, value in ((axes[4], 0, 80 / 99), (axes[5], 1, 4 / 99)):
        np.testing.assert_allclose(axis.get_lines()[whose].get_ydata(), value)
        assert axis.get_lines()[-1].get_ydata()[0] == pytest.approx(value)
    between, after = axes[1].get_lines()[0].get_xdata(), axes[2].get_lines()[0].get_xdata()
    assert set(after) == set(range(1, 1000, 20))
    assert not set(between) & set(after)
    assert "0.8081" in views["fig14"].verdict


# Theory, protocol, blend


def test_statements_about_the_bounds() -> None:
    """The text's lead of S2S below K/n = 0.2 does not hold; every lead at high ζ inter does."""
    panels = {
        (r.zeta_intra, r.zeta_inter, r.axis): r for r in regime_table() if r.measure == "rounds"
    }
    told = {
        (one.zetas, one.words): holds(one, panels[*one.zetas, one.axis]) for one in CLAIMS["rounds"]
    }
    assert [key for key, held in told.items() if not held] == [((1.0, 0.1), "S2S for K/n < 0.2")]
    (claim,) = [one for one in CLAIMS["rounds"] if one.words == "S2S for H < 5"]
    assert leading_fraction(claim, panels[1.0, 0.1, "period"]) == 1


def test_the_best_protocol_is_said_first(views: dict[str, View]) -> None:
    """Own labels fit by construction; the average model is shown just as clearly, with its 0."""
    text = views["protocol"].to_markdown()
    assert views["protocol"].verdict.startswith(
        "Closest at the stated timing. MNIST: devices, own labels; final round"
    )
    assert "The winner depends on what is scored." in text
    leads, best, scorings, _, mnist, *_ = sheets(views["protocol"])
    assert [row[:2] for row in scorings.rows[:2]] == [
        ("MNIST", "devices, own labels"), ("MNIST", "average model"),
    ]  # fmt: skip
    assert scorings.rows[1][6] == "0 of 49"
    assert [row[:2] for row in leads.rows] == [
        (dataset, islands) for dataset in ("MNIST", "CIFAR-10") for islands in ("differ", "alike")
    ]
    assert leads.rows[0][2].startswith("S2S by")
    assert leads.rows[0][3].startswith("S2A by")
    # 240 cells of S2S and of S2A, three seeds; the larger the stepsize, the better.
    chosen = ("MNIST", "standard", "devices, own labels", "final", "0", "1440", "1440 of 1440")
    assert best.rows[0] == chosen
    assert mnist.rows[0][0] == "devices, own labels"
    assert [row[0] for row in mnist.rows[-4:]] == [
        "average model", "always S2S", "always S2A", "zero",
    ]  # fmt: skip
    assert len(mnist.rows) == 2 * 3 + 3  # scorings, tuned or one of two stepsizes; guesses


def test_a_lead_within_its_interval_is_none(studies: dict[str, StudyData]) -> None:
    """Seeds that disagree on who leads, by much more than they do on average, name no leader."""
    runs = studies["mnist"].runs.copy()
    s2s = runs["primitive"] == "s2s"
    shift = np.where(runs["seed"] % 2 == 0, 9.0, -9.0) * s2s
    for column in ("own_accuracy final", last_20_column("own_accuracy")):
        runs[column] += shift
    split = StudyData("mnist", {}, runs, studies["mnist"].curves)
    leads = sheets(view_of(TARGETS["protocol"], {"mnist": split}))[0]
    assert all(row[2].startswith("neither (") for row in leads.rows)
    assert leads.rows[0][3].startswith("S2A by")


def test_who_meets_one_table_but_not_the_other_is_told(studies: dict[str, StudyData]) -> None:
    """Along H all gaps are turned round; along K/n they stay those of the paper."""
    told = "Table by table it beats `always S2S` along K/n"
    assert told not in view_of(TARGETS["protocol"], {"mnist": studies["mnist"]}).to_markdown()
    runs = studies["mnist"].runs.drop(
        columns=["average_accuracy final", last_20_column("average_accuracy")]
    )
    along_h = runs["period"] > 5
    runs.loc[along_h, "primitive"] = runs.loc[along_h, "primitive"].map(
        {"s2s": "s2a", "s2a": "s2s"}
    )
    turned = StudyData("mnist", {}, runs, studies["mnist"].curves)
    assert told in view_of(TARGETS["protocol"], {"mnist": turned}).to_markdown()


def test_every_protocol_is_a_point(views: dict[str, View]) -> None:
    """MNIST's protocols lie where their rank correlations say, right way round or wrong way; lines
    mark what needs no runs."""
    axis = views["protocol"].figures["protocol"].axes[0]
    points = [line for line in axis.get_lines() if line.get_marker() not in ("None", "")]
    assert len(points) == len(sheets(views["protocol"])[4].rows) - 3
    np.testing.assert_allclose(
        sorted({round(float(line.get_ydata()[0]), 3) for line in points}), [-1, 1]
    )
    lines = {line.get_label(): line.get_xdata()[0] for line in axis.get_lines()}
    assert lines["zero"] == pytest.approx(1.1749, abs=1e-4)
    assert lines["one gap for all cells"] == pytest.approx(0.8948, abs=1e-4)


# Studies of our own


def test_the_moment_of_scoring_is_told(views: dict[str, View]) -> None:
    """Just after a server round S2S is 5 points ahead, just before it 1.6 (two cells with H = 5) or
    0.1 (one with H = 20); made-up, and read off the rounds of each period."""
    (sheet,) = [one for one in sheets(views["timing"]) if one.title.startswith("MNIST")]
    told = {row[1]: float(row[2]) for row in sheet.rows if row[0] == "devices, own labels"}
    assert told == {
        "final round": pytest.approx((2 * 1.6 + 0.1) / 3),
        "just after the last server round": 5.0,
        "just before it": pytest.approx((2 * 1.6 + 0.1) / 3),
    }


def test_drops_of_devices_come_from_where_they_are_scored_in_every_round(
    views: dict[str, View],
) -> None:
    """The long runs look at devices every seventh round; the drop of S2A is read elsewhere."""
    (sheet,) = sheets(views["fig9"])
    rows = {row[0]: row for row in sheet.rows}
    own = rows["intra IID, inter non-IID: mean drop of S2A in a server round"][3]
    assert own.startswith("+3.00")


def test_kept_drops_say_who_diverged_and_how_much_is_lost() -> None:
    """Momentum on averages diverged under S2A; its S2S is shown all the same. A drop is counted
    here once more, by hand."""
    study = StudyData.load(KEPT / "cifar10-drops.json")
    view = view_of(TARGETS["drops"], {study.name: study})
    (lost,) = sheets(view)
    rows = {row[0]: row[1:] for row in lost.rows}
    ring = "intra IID, inter non-IID, ring, H = 20"
    assert rows[f"{ring}, fedavgm_averages"][2] == "-"
    assert rows[f"{ring}, fedavgm_averages"][1].startswith("+4.0")
    by_seed = []
    for run in (1, 17):  # S2A with FedAvg on the ring
        accuracy = study.curves[study.curves["run"] == run].set_index("round")["own_accuracy"]
        by_seed.append(np.mean([accuracy[t] - accuracy[t + 1] for t in range(20, 200, 20)]))
    assert rows[ring][2].startswith(f"{np.mean(by_seed):+.2f} ")


def momentum_change(study: StudyData, measure: str, optimizer: str) -> list[float]:
    """By seed: the mean gap of an optimizer minus that of FedAvg, on figure 12's ring, by hand."""
    ring = study.runs[
        (study.runs["intra"] == "iid")
        & (study.runs["inter"] == "non-iid")
        & (study.runs["topology"] == "ring")
        & (study.runs["period"] == 20)
    ]
    means = {}
    for number, run in ring.iterrows():
        curve = study.curves[(study.curves["run"] == number) & (study.curves["round"] > 0)]
        means[run["optimizer"], run["primitive"], run["seed"]] = curve[measure].mean()
    return [
        means[optimizer, "s2s", seed] - means[optimizer, "s2a", seed]
        - (means["fedavg", "s2s", seed] - means["fedavg", "s2a", seed])
        for seed in sorted(set(ring["seed"]))
    ]  # fmt: skip


def test_figure_12_beside_both_readings_of_momentum() -> None:
    """The paragraph has the printed change, ours by hand, and who diverged in the other reading."""
    names = ("cifar10-long", "cifar10-drops")
    studies = {name: StudyData.load(KEPT / f"{name}.json") for name in names}
    told, table, _ = momentum_parts(studies)
    assert isinstance(told, str)
    assert told.startswith("**The text and our runs contradict each other.**")
    assert "-0.03 ± 0.10" in told
    change = momentum_change(studies["cifar10-long"], "average_accuracy", "fedavgm")
    assert f"the gap changes by {np.mean(change):+.2f} ± " in told
    assert np.mean(change) == pytest.approx(-5.63, abs=0.01)
    assert "S2A diverged in rounds 111 and 148" in told
    assert isinstance(table, Sheet)
    assert len(table.rows) == 6


def test_momentum_that_changes_nothing_contradicts_nobody(curves: Grid) -> None:
    """Made-up curves with the same gap with and without momentum agree with the text."""
    ring = {"dataset": "cifar10", "intra": "iid", "inter": "non-iid", "topology": "ring"}
    settings = [{**ring, "period": 20, "optimizer": one} for one in ("fedavg", "fedavgm")]
    study = curves("cifar10-long", settings, 1000, seeds=(0, 1, 2))
    s2s = study.runs.index[
        (study.runs["primitive"] == "s2s") & (study.runs["optimizer"] == "fedavgm")
    ]
    shift = study.curves["run"].map(dict(zip(s2s, (-0.3, 0.1, 0.2), strict=True))).fillna(0.0)
    for scoring in ("average_accuracy", "own_accuracy"):
        study.curves[scoring] += shift
    told = momentum_parts({study.name: study})[0]
    assert isinstance(told, str)
    assert "contradict" not in told
    assert "contains the printed change" in told


def test_tuning_beyond_the_range_is_told(views: dict[str, View]) -> None:
    """Beyond the range S2S wins another point, S2A nothing; in eight cells and three seeds each."""
    (sheet,) = sheets(views["stepsizes"])
    row = sheet.rows[0]
    assert row[:3] == ("MNIST", "standard", "devices, own labels; final")
    assert row[3:5] == ("48 of 48", "24 of 48")


def test_variants_are_paired(views: dict[str, View]) -> None:
    """The other network has half a point more of a gap, float32 has the same."""
    main_text, float32 = sheets(views["variants"])
    assert main_text.rows[0][3].startswith("+0.50 ± 0.00")
    assert float32.rows[0][3].startswith("+0.00 ± 0.00")


def test_the_guideline_is_judged(views: dict[str, View]) -> None:
    """On made-up fleets S2S always leads on own labels: the rule errs where islands are alike and
    devices too, and costs a point there."""
    (sheet,) = [one for one in sheets(views["guidelines"]) if one.title.endswith("paper's")]
    rules = {row[0]: row[1:] for row in sheet.rows}
    assert rules["always S2S"][0] == "8 of 8 (0.00)"
    assert rules["the paper's guideline"][0] == "6 of 8 (0.25)"
    assert rules["always S2A"][1] == "8 of 8 (0.00)"


def test_scorings_that_agree_are_not_said_to_decide(studies: dict[str, StudyData]) -> None:
    """Where both scorings have the same gaps, the page says so."""
    runs = studies["mnist"].runs.copy()
    for column in ("average_accuracy final", last_20_column("average_accuracy")):
        runs[column] = runs[column.replace("average", "own")]
    same = StudyData("mnist", {}, runs, studies["mnist"].curves)
    assert (
        "Both scorings agree on the winner."
        in view_of(TARGETS["protocol"], {"mnist": same}).to_markdown()
    )


def test_the_front_goes_from_s2s_to_s2a(views: dict[str, View]) -> None:
    """Points by β, the average model across and own labels up; middles win where made to."""
    axis = views["blend"].figures["blend-complete"].axes[4]  # intra IID, inter non-IID, H = 5
    path = axis.get_lines()[0]
    np.testing.assert_allclose(path.get_xdata()[[0, 3, -1]], [88.01, 91.015, 90.02], atol=0.01)
    np.testing.assert_allclose(path.get_ydata()[[0, -1]], [95.01, 91.02], atol=0.01)
    assert "average model 4 of 8; devices, own labels 0 of 8" in views["blend"].verdict


def test_pictures_tell_what_they_show(views: dict[str, View]) -> None:
    """Every picture has words for those who cannot see it."""
    for one in views.values():
        for picture in one.pictures:
            assert len(picture.about) > 20
            assert "]" not in picture.about


def test_frames_are_not_changed(studies: dict[str, StudyData]) -> None:
    """Showing a study leaves it as it was."""
    before = studies["mnist"].runs.copy()
    view_of(TARGETS["table3"], studies)
    pd.testing.assert_frame_equal(before, studies["mnist"].runs)
