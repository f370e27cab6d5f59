"""Timelines: the segments of a device fill its time, and figures draw these segments."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from typer.testing import CliRunner

import skerry
from conftest import small
from skerry.analysis.pricing import PricedRun, recorded_sizes, run_clock
from skerry.analysis.run_table import RunTable
from skerry.analysis.timeline import ACTIVITIES, choose_devices, read_timelines, usual_rounds
from skerry.cli.main import app
from skerry.clock.settings import Clock
from skerry.errors import SkerryError, as_options
from skerry.report.figure_kinds import FigureRequest, draw_figure
from skerry.report.figures.timelines import COLOURS, device_rows, timeline

SLOW_UPLINK = {
    "compute": {"spread": 0.6, "jitter": 0.2},
    "d2d": {"bandwidth": "1 MB/s", "latency": "5 ms", "channel": "one_by_one"},
    "uplink": {"bandwidth": "20 kB/s", "latency": "100 ms"},
    "downlink": {"bandwidth": "200 kB/s", "latency": "60 ms"},
    "server": {"bandwidth_in": "100 kB/s"},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Twelve devices on two islands, two of them sampled, server rounds 1, 4 and 7."""
    folder = tmp_path_factory.mktemp("store")
    experiment = small("server.sampled=2", "network.gossip_steps=2")
    skerry.run(experiment, compare=["s2s", "s2a", "none"], seeds=2, out=folder)
    return folder


@pytest.fixture(scope="module")
def table(store):
    return RunTable.read(store)


def runs_of(table, seed=0):
    return {table.label_of[run.key]: run for run in table.runs if run.experiment.seed == seed}


def read(table, rounds=range(7), clock=SLOW_UPLINK):
    return read_timelines(runs_of(table), table.histories, Clock.parse(clock), rounds)


@pytest.mark.parametrize("rounds", [range(7), range(2, 5)])
def test_segments_fill_the_time_of_a_device(table, rounds):
    """Each begins where the one before ended; by activity they add up to the clock's accounts."""
    found = read(table, rounds)
    for label, run in runs_of(table).items():
        states = [np.zeros((5, 12))]
        priced = PricedRun(run, recorded_sizes(run, table.histories[run.key]), 7)

        def watch(t, phase, times, states=states):
            if phase == "server":
                states.append(times.state[:, :, 0].copy())

        run_clock([priced], Clock.parse(SLOW_UPLINK), watch)
        first, last = states[rounds.start], states[rounds.stop]
        for device, segments in found.lanes[label].segments.items():
            assert segments[0].start == pytest.approx(first[0, device])
            assert segments[-1].end == pytest.approx(last[0, device])
            for before, after in pairwise(segments):
                assert after.start == pytest.approx(before.end)
                assert after.round >= before.round
            for place, activity in enumerate(ACTIVITIES, start=1):
                spent = sum(one.end - one.start for one in segments if one.activity == activity)
                assert spent == pytest.approx(last[place, device] - first[place, device])


def test_only_sampled_devices_talk_to_the_server_under_s2s(table):
    """A sampled device sends, waits and receives. Under S2S another one goes on after its gossip;
    under S2A it waits and receives."""
    found = read(table)
    gossip = ["computing", "talking", "waiting"]
    for label in ("s2s", "s2a"):
        lane = found.lanes[label]
        assert [met.round for met in lane.server_rounds] == [0, 3, 6]
        for met in lane.server_rounds:
            assert len(met.sent) == 2
            for device in found.devices:
                here = [one for one in lane.segments[device] if one.round == met.round]
                does = [one.activity for one in here]
                if device in met.sent:
                    sends = next(one for one in here if one.start == met.sent[device])
                    assert sends.activity == "talking"
                    assert sends.end - sends.start > 0.1
                if device in met.sent or label == "s2a":
                    assert does[-1] == "talking"
                    assert here[-1].end - here[-1].start > 0.06
                    assert here[-1].end <= met.end
                else:
                    assert does == gossip[: len(does)]
        assert any(met.sent.keys() & set(found.devices) for met in lane.server_rounds)


def test_a_device_that_is_not_sampled_does_not_wait_for_the_server_under_s2s(table):
    """It begins round 2 before the server is done with round 1; under S2A nobody does."""
    found = read(table)
    for label, is_early in (("s2s", True), ("s2a", False)):
        lane = found.lanes[label]
        met = lane.server_rounds[0]
        others = [device for device in found.devices if device not in met.sent]
        begins = [next(s for s in lane.segments[d] if s.round == 1).start for d in others]
        assert (min(begins) < met.end - 0.1) is is_early


def test_without_a_server_there_are_no_server_rounds(table):
    assert read(table).lanes["none"].server_rounds == []


@pytest.mark.parametrize(
    ("settings", "done", "shown"),
    [
        (["server.period=3", "rounds=40"], 40, range(5)),
        (["server.period=20", "server.offset=15", "rounds=40"], 40, range(13, 25)),
        (["server.period=20", "server.offset=15", "rounds=40"], 9, range(9)),  # it was stopped
        (["server.period=1"], 7, range(5)),
        (["server.period=1", "rounds=2"], 2, range(2)),
        (["server.primitive=none", "rounds=50"], 50, range(12)),
    ],
)
def test_the_usual_rounds_show_a_server_round_or_two(table, settings, done, shown):
    """From just before the first to just after the second, and never too many."""
    run = replace(table.runs[0], experiment=small(*settings), rounds_done=done)
    assert usual_rounds([run]) == shown


def test_a_fleet_that_takes_no_time_is_drawn_too(store):
    clock = {"compute": {"seconds_per_step": 0}}
    drawn = draw_figure("timeline", FigureRequest(folder=store, clock=clock))
    assert drawn.figure.axes[0].get_xlim() == pytest.approx((-0.01, 1.01))


def test_sampled_devices_of_few_islands_are_chosen():
    """Islands with sampled devices first, half of their devices sampled ones."""
    islands = [0] * 10 + [1] * 3 + [2] * 10 + [3] * 10
    assert choose_devices(islands, [32, 11, 9, 8, 7]) == [0, 1, 8, 9, 10, 11, 12, 23, 24, 25, 32]
    assert choose_devices([0] * 6, range(6)) == [0, 1, 2, 3]
    assert choose_devices(list(range(20)), [15, 3]) == [*range(11), 15]


def test_the_figure_draws_the_segments(table):
    """A bar for each segment in the colour of its activity, in the row of its device."""
    found = read(table, range(5))
    axis = timeline(found, "s2s", Figure().add_subplot())
    rows = device_rows(found)
    drawn = {one.get_label(): one for one in axis.collections if isinstance(one, PolyCollection)}
    for activity in ACTIVITIES:
        bars = [path.get_extents() for path in drawn[activity].get_paths()]
        shown = {(round(b.x0, 6), round(b.x1, 6), round((b.y0 + b.y1) / 2, 6)) for b in bars}
        assert shown == {
            (round(s.start, 6), round(s.end, 6), round(rows[device], 6))
            for device, segments in found.lanes["s2s"].segments.items()
            for s in segments
            if s.activity == activity
        }
        assert tuple(drawn[activity].get_facecolor()[0]) == to_rgba(COLOURS[activity])
    (marks,) = axis.get_lines()
    met = found.lanes["s2s"].server_rounds
    sent = [(at, rows[d]) for one in met for d, at in one.sent.items() if d in rows]
    assert sent
    assert np.allclose(marks.get_xydata(), sent)


def test_panels_share_the_time_axis_and_the_devices(store):
    request = FigureRequest(folder=store, clock=SLOW_UPLINK, compare=("s2s", "s2a"))
    drawn = draw_figure("timeline", request)
    above, below = drawn.figure.axes
    assert [above.get_title(), below.get_title()] == ["s2s", "s2a"]
    assert above.get_xlim() == below.get_xlim()
    names = [[text.get_text() for text in one.get_yticklabels()] for one in (above, below)]
    assert names[0] == names[1]
    assert len(names[0]) == 8
    assert drawn.notes[0].startswith("Rounds 1 to 5 of seed 0")


@pytest.mark.parametrize("rounds", ["9", "0:3", "3:2", "1:8", "a:b", "1:2:3"])
def test_bad_rounds_are_told_in_one_line(store, rounds):
    request = FigureRequest(folder=store, clock=SLOW_UPLINK, rounds=rounds)
    with pytest.raises(SkerryError) as error:
        draw_figure("timeline", request)
    told = as_options(str(error.value))
    assert told.startswith("--rounds must be A:B with 1 <= A <= B <= 7")
    assert "\n" not in told


def test_the_command_says_what_it_drew(store, tmp_path):
    clock = tmp_path / "slow.toml"
    clock.write_text('[uplink]\nlatency = "200 ms"\n')
    picture = tmp_path / "t.pdf"
    asked = ["timeline", store, "--clock", clock, "--rounds", "3:5", "--out", picture]
    found = CliRunner().invoke(app, ["figure", *map(str, asked)])
    assert found.exit_code == 0, found.output
    assert "Rounds 3 to 5 of seed 0; others: --rounds A:B" in found.output
    assert picture.read_bytes().startswith(b"%PDF")
