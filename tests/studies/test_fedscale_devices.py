"""FedScale's table of devices becomes a CSV file; a pickle that does more is refused."""

import collections
import csv
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skerry.clock.devices import device_speeds
from skerry.clock.settings import Clock

SCRIPT = Path(__file__).parents[2] / "studies" / "clock" / "fedscale_devices.py"
CLIENTS = {
    1: {"computation": 91.0, "communication": 5648.1},
    2: {"computation": 30.0, "communication": 800.0},
    "3": {"computation": 200, "communication": 16},
}


def convert(table, out, *options):
    command = [sys.executable, str(SCRIPT), str(table), str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def pickled(path, content, protocol=2):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_the_table_is_what_a_clock_reads(tmp_path, protocol):
    """Step times are scaled by the batch, the passes and the operations of the model."""
    table, out = pickled(tmp_path / "capacity", CLIENTS, protocol), tmp_path / "devices.csv"
    done = convert(table, out, "--operations", "3e6", "--batch", "10")
    assert done.returncode == 0, done.stderr
    assert "is a pickle" in done.stderr
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    for row, one in zip(rows, CLIENTS.values(), strict=True):
        seconds = 3 * 10 * one["computation"] / 1000 * 3e6 / 300e6
        assert float(row["seconds_per_step"]) == pytest.approx(seconds, rel=1e-5)
        assert float(row["uplink"]) == pytest.approx(125 * one["communication"], rel=1e-5)
        assert row["uplink"] == row["downlink"]
    speeds = device_speeds(Clock.parse({"devices": str(out)}), [str(i) for i in range(50)], seed=0)
    known = {float(row["seconds_per_step"]) for row in rows}
    assert set(speeds.step_n.tolist()) == known
    np.testing.assert_allclose(speeds.uplink_n, speeds.downlink_n)
    about = (tmp_path / "devices.csv.txt").read_text(encoding="utf-8")
    assert "3e+06 operations of the model / 3e+08 of the one that was measured" in about
    assert done.stdout == about


def test_some_devices_are_kept(tmp_path):
    """`--rows` draws, by a seed; devices without a speed are left out and counted."""
    clients = {i: {"computation": float(i), "communication": 100.0} for i in range(200)}
    table = pickled(tmp_path / "capacity", clients)
    kept = []
    for seed in ("0", "0", "1"):
        out = tmp_path / "devices.csv"
        done = convert(table, out, "--operations", "1e6", "--rows", "20", "--seed", seed)
        kept.append(out.read_text(encoding="utf-8"))
        assert "20 devices of capacity (FedScale), which has 200; 1 of them" in done.stdout
    assert kept[0] == kept[1] != kept[2]
    assert len(kept[0].splitlines()) == 21


class Hostile:
    """Makes a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_a_hostile_pickle_is_refused_in_one_line(tmp_path):
    """Nothing in it is run, and no file is written."""
    trap, out = tmp_path / "trap", tmp_path / "devices.csv"
    table = pickled(tmp_path / "capacity", {1: Hostile(trap)})
    done = convert(table, out, "--operations", "1e6")
    assert done.returncode == 1
    _, line = done.stderr.splitlines()
    assert line.startswith(f"Error: {table} is not opened")
    assert "mkdir" in line
    assert not trap.exists()
    assert not out.exists()
    pickle.loads(table.read_bytes())  # noqa: S301 - the trap works elsewhere
    assert trap.is_dir()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no pickle", "is not opened"),
        (b"", "is not opened"),
        (pickle.dumps(collections.OrderedDict(a=1)), "collections.OrderedDict"),
        (pickle.dumps([1, 2]), "got a list"),
        (pickle.dumps({}), "must hold"),
        (pickle.dumps({1: {"computation": 3.0}}), "client 1 of"),
        (pickle.dumps({1: {"computation": 0, "communication": 1}}), "no client"),
        (pickle.dumps({1: {"computation": "a", "communication": 1}}), "client 1 of"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, content, told):
    table = tmp_path / "capacity"
    table.write_bytes(content)
    done = convert(table, tmp_path / "devices.csv", "--operations", "1e6")
    assert done.returncode == 1
    _, line = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert told in line


def test_wrong_options_are_refused(tmp_path):
    table = pickled(tmp_path / "capacity", CLIENTS)
    assert "must be above 0" in convert(table, tmp_path / "d.csv", "--operations", "-1").stderr
    assert "--operations" in convert(table, tmp_path / "d.csv").stderr
    none = convert(table, tmp_path / "d.csv", "--operations", "1", "--batch", "0")
    assert "must be at least 1" in none.stderr
    missing = convert(tmp_path / "nowhere", tmp_path / "d.csv", "--operations", "1")
    assert "cannot read" in missing.stderr
