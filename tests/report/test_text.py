"""Text that all screens and pages write alike."""

import io
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from skerry.analysis.statistics import estimate
from skerry.config.measures import MEASURES
from skerry.errors import printable
from skerry.report import text
from skerry.report.text import Sheet


@pytest.mark.parametrize(
    ("measure", "value", "told"),
    [
        ("average_accuracy", 91.236, "91.24"),
        ("average_accuracy", -0.001, "0.00"),
        ("average_loss", 0.5, "0.5000"),
        ("average_loss", 2.30258, "2.303"),
        ("disagreement", 1.23456e-7, "1.235e-07"),
        ("uplink_messages", 12345.0, "12,345"),
        ("mine:own", 0.1, "0.1000"),
    ],
)
def test_a_measure_tells_how_its_values_are_written(measure, value, told):
    """Accuracies to a hundredth of a percent, counts whole, all else to four digits."""
    assert text.format_measure(measure, value) == told


def test_a_difference_shows_its_sign():
    assert text.format_measure("own_accuracy", 1.5, "+") == "+1.50"
    assert text.format_measure("own_accuracy", -1.5, "+") == "-1.50"
    assert text.format_measure("own_accuracy", -0.001, "+") == "+0.00"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([90.0, 92.0, 91.0], "91.00 ± 2.48"),
        ([90.0], "90.00"),
        ([90.0, nan], "90.00"),
        ([90.0, 90.0], "90.00"),
        ([nan], "-"),
        ([], "-"),
    ],
)
def test_an_interval_is_shown_where_there_is_one(values, told):
    """One seed has none, nor have seeds that agree; a measure that nobody has is a dash."""
    assert text.format_estimate("average_accuracy", estimate(values)) == told


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_can_be_written(measure):
    assert " ± " in text.format_estimate(measure, estimate([1.0, 2.0, 4.0]), sign="+")


@pytest.mark.parametrize("error", [None, nan, inf])
def test_an_error_that_nobody_knows_is_not_written(error):
    assert text.plus_minus(0.87123, error) == "0.8712"


def test_an_error_has_digits_of_its_own():
    assert text.plus_minus(0.87123, 0.0213) == "0.8712 ± 0.021"
    assert text.plus_minus(0.87123, 0.0213, ".6f", ".1g") == "0.871230 ± 0.02"
    assert text.plus_minus(0.87123, 0.0, ".2f", ".2f") == "0.87 ± 0.00"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (7, "7"),
        (1234.4, "1,234"),
        (0.123456, "0.1235"),
        (12345678.0, "1.235e+07"),
        (inf, "infinite"),
        (nan, "-"),
        (None, "-"),
        ((30, 70), "30+70"),
    ],
)
def test_numbers_of_the_theory(value, told):
    assert text.number(value) == told


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 losses"), (1, "1 loss"), (2, "2 losses"), (1200, "1,200 losses")]
)
def test_one_is_singular(count, told):
    assert text.plural(count, "loss", "losses") == told
    assert text.plural(count, "run").endswith("run" if count == 1 else "runs")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.2, "1 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (3_600, "1 h 0 min"),
        (7_800, "2 h 10 min"),
        (3 * 86_400, "3 days"),
    ],
)
def test_a_duration_has_the_unit_that_people_would_take(seconds, told):
    assert text.duration(seconds) == told


def test_bytes_are_written_in_millions_and_billions():
    assert text.size(11_490_000) == "11.5 MB"
    assert text.size(2_345_600_000) == "2,345.6 MB"
    assert text.size(2_345_600_000, "GB", 2) == "2.35 GB"


@given(st.text())
def test_no_control_character_reaches_a_terminal(anything):
    """Neither through a table, nor through a printed line; what is printable stays as it is."""
    lines = io.StringIO()
    safe = text.safe_console(file=lines, width=10_000, force_terminal=False)
    safe.print(Text(anything), soft_wrap=True)
    table = text.empty_table()
    table.add_row(Text(anything))
    safe.print(table)
    assert lines.getvalue().replace("\n", "").isprintable()
    assert printable(anything).isprintable()
    assert printable(anything) == anything or not anything.isprintable()


def test_a_pipe_has_no_edge(capsys):
    """Lines stay whole, however long; a page is folded."""
    line = "word " * 60
    text.console().print(line)
    assert capsys.readouterr().out.splitlines() == [line]
    text.console(fold_at=text.PAGE).print(line)
    folded = capsys.readouterr().out.splitlines()
    assert len(folded) == 3
    assert max(map(len, folded)) <= text.PAGE


def test_a_sheet_is_the_same_table_in_three_ways(capsys):
    """On a terminal markup stays text; Markdown and LaTeX escape what would mean something."""
    sheet = Sheet("A title", ("name", "a|b"), (("[red]x_1[/]", "-1.5 ± 0.2"),), "lr")
    text.console().print(sheet.to_rich())
    shown = capsys.readouterr().out
    assert "[red]x_1[/]" in shown
    assert "-1.5 ± 0.2" in shown
    assert r"| name | a\|b |" in sheet.to_markdown()
    assert r"[red]x\_1[/] & $-$1.5 $\pm$ 0.2 \\" in sheet.to_latex()
