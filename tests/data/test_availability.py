"""Public traces become traces of who is awake."""

import json

import numpy as np
import pytest

from command_line import skerry
from skerry.config.fields import Availability
from skerry.data.sources.availability import convert
from skerry.engine.participation.awake import Awake
from skerry.errors import DataError

TRACE = {
    "17": {"duration": 9, "active": [0, 250], "inactive": [150, 301], "finish_time": 500},
    "4": {"active": [90, 420], "inactive": [210], "finish_time": 500, "model": "phone"},
    "8": {"active": [10], "inactive": [20], "finish_time": 500},
}


@pytest.fixture
def source(tmp_path):
    def written(content):
        path = tmp_path / "behave.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return written


def test_who_was_there_when_a_round_began_is_awake(source, tmp_path):
    target = tmp_path / "trace.csv"
    made = convert(source(TRACE), target, 100, None)
    assert (
        target.read_text() == "device,from,to\n0,0,2\n0,3,4\n1,1,3\n"
    )  # 420 to 500: round 5 is out
    assert (made.devices, made.rounds) == (3, 4)
    assert made.awake_share == pytest.approx(5 / 12)
    awake = Awake(Availability(awake=str(target)), 0, np.zeros(3, dtype=int), ("0", "1", "2"))
    for t in range(4):
        there = [
            any(a <= 100 * t < b for a, b in zip(one["active"], one["inactive"], strict=False))
            for one in TRACE.values()
        ]
        assert awake(t).tolist() == there


def test_a_record_may_end_while_a_device_is_there(source, tmp_path):
    made = convert(
        source({"a": {"active": [0], "inactive": [], "finish_time": 300}}),
        tmp_path / "t.csv",
        100,
        None,
    )
    assert made.spans == ((0, 0, 3),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot read .* as JSON"),
        ([1], "must be a table of devices"),
        ({}, "must be a table of devices"),
        ({"a": 3}, "device 'a' of .* must have active and inactive"),
        ({"a": {"messages": "2020"}}, "must have active and inactive"),
        ({"a": {"active": [1, 2, 3], "inactive": [2]}}, "as long as each other"),
        ({"a": {"active": ["dawn"], "inactive": ["dusk"]}}, "two lists of seconds"),
        ({"a": {"active": [1], "inactive": []}}, "two lists of seconds"),
        ({"a": {"active": [5], "inactive": [2]}}, "must come before its inactive time"),
        ({"a": {"active": [-5], "inactive": [2]}}, "all at least 0"),
        ({"a": {"active": [1], "inactive": [2]}}, "no device of .* beginning of a round of 100"),
    ],
)
def test_what_is_no_trace_is_told(source, tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        convert(source(content), tmp_path / "trace.csv", 100, None)
    assert not (tmp_path / "trace.csv").exists()


def test_the_command(source, tmp_path):
    target = tmp_path / "trace.csv"
    told = skerry(
        "data", "trace", str(source(TRACE)), str(target), "--round-seconds", "100", "--devices", "2"
    )
    assert told.code == 0, told.err
    assert "2 devices, 4 rounds of 100 s, awake 62% of the time" in told.out
    wrong = skerry("data", "trace", str(source(TRACE)), str(target), "--devices", "9")
    assert wrong.code == 2
    assert "--devices must be between 1 and the 3 devices" in wrong.err
    wrong = skerry("data", "trace", str(source(TRACE)), str(target), "--round-seconds", "0")
    assert "--round-seconds must be above 0" in wrong.err
