"""Device tables: rows by name or drawn by the seed, and faults in one line."""

import numpy as np
import pytest

from skerry.clock.devices import _rows_of, device_speeds
from skerry.clock.settings import Clock
from skerry.errors import ExperimentError

NAMES = ("porch", "shed", "device")


def speeds(tmp_path, text, names=NAMES, seed=0, **tables):
    file = tmp_path / "devices.csv"
    file.write_text(text, encoding="utf-8")
    return device_speeds(Clock.parse({"devices": str(file), **tables}), names, seed)


def test_rows_are_found_by_name(tmp_path):
    """In any order, with units, also for a device that is called like the column."""
    text = "uplink,device,seconds_per_step\n2 kB/s,device,3\n500,shed,20 ms\n1000, porch ,1\n"
    found = speeds(tmp_path, text, d2d={"bandwidth": 10.0})
    assert found.step_n.tolist() == [1.0, 0.02, 3.0]
    assert found.uplink_n.tolist() == [1 / 1000, 1 / 500, 1 / 2000]
    assert found.d2d_n.tolist() == [0.1] * 3
    assert found.downlink_n.tolist() == [0.0] * 3
    _rows_of.cache_clear()
    again = [speeds(tmp_path, text.replace("20 ms", step)).step_n[1] for step in ("9 s", "500 us")]
    assert again == [9.0, 0.0005]  # a file that has changed is read again
    device_speeds(Clock.parse({"devices": str(tmp_path / "devices.csv")}), NAMES, 1)
    assert _rows_of.cache_info().misses == 2


def test_rows_are_drawn_without_names(tmp_path):
    """Whole rows, by the seed: a device's step and its link belong together."""
    text = "seconds_per_step,uplink\n" + "\n".join(f"{i},{10 * i}" for i in range(1, 50))
    many = [str(i) for i in range(400)]
    first, again, other = (speeds(tmp_path, text, many, seed) for seed in (0, 0, 1))
    np.testing.assert_allclose(10 * first.step_n * first.uplink_n, 1.0)
    assert first.step_n.tolist() == again.step_n.tolist() != other.step_n.tolist()
    assert set(first.step_n) == set(range(1, 50))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("device,uplink\nporch,1\nshed,2\nporch,3\n", r"line 4 .* 'porch' again \(first in line 2"),
        ("device,uplink\nporch,1\nshed,2\n", r"no row for the device 'device' \(1 of 3"),
        ("device,uplink\nporch,1\nshed,-2\ndevice,1\n", "line 3 of .*: uplink must be above 0"),
        ("device,uplink\n\nporch,1\n\nshed,-2\ndevice,1\n", "line 5 of .*: uplink must be"),
        ("device,uplnik\nporch,1\n", "unknown column 'uplnik'; did you mean 'uplink'"),
        ("device\nporch\n", "must name each column once"),
        ("uplink\n", "a line for each device"),
    ],
)
def test_faults_are_one_line(tmp_path, text, told):
    with pytest.raises(ExperimentError, match=told) as error:
        speeds(tmp_path, text)
    assert len(str(error.value).splitlines()) == 1
