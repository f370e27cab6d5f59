"""`skerry price`: seconds and joules of recorded runs, and who reaches a score first."""

import json
import re

import pytest

import skerry
from command_line import skerry as command
from skerry.config.experiment import Experiment
from skerry.errors import SkerryWarning

RUNS = ("rounds=12", "server.period=2", "network.devices=20", "server.sampled=4")
PORT = """
[compute]
seconds_per_step = "50 ms"
watts = 4.0
idle_watts = 0.5
[d2d]
latency = "10 ms"
joules_per_byte = 2e-7
[uplink]
latency = "60 ms"
joules_per_byte = 5e-6
[downlink]
latency = "60 ms"
joules_per_byte = 1e-6
[server]
bandwidth_out = "40 kB/s"
"""
"""All messages leave the server through a narrow port, so that S2A waits long."""
RADIO = PORT.replace("joules_per_byte = 1e-6", 'broadcast = "500 kB/s"\njoules_per_byte = 1e-6')
"""One message reaches everyone."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two primitives and five seeds."""
    folder = tmp_path_factory.mktemp("recorded")
    skerry.run(Experiment.parse({}, RUNS), compare=["s2s", "s2a"], seeds=5, out=folder / "runs")
    return folder


@pytest.fixture(autouse=True)
def inside(runs, monkeypatch):
    monkeypatch.chdir(runs)
    (runs / "port.toml").write_text(PORT)
    (runs / "radio.toml").write_text(RADIO)


def price(*arguments) -> str:
    outcome = command("price", *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def price_json(*arguments) -> dict:
    return json.loads(price(*arguments, "--json"))


LOSS = ("--measure", "average_loss", "--target", "1.5")


def test_the_screen_says_who_is_first_and_why():
    """S2A needs fewer rounds to this loss, S2S less time: its rounds are shorter."""
    text = price("runs", "--clock", "port.toml", *LOSS)
    assert "Clock port.toml: whole runs, mean over 5 seeds ± half of the 95 % interval" in text
    assert "Clock port.toml: until average_loss <= 1.5 is reached" in text
    assert "minus s2a at average_loss <= 1.5, paired over the seeds in which both reach it" in text
    assert re.search(r"^In rounds s2a is (first|ahead)", text, re.MULTILINE)
    assert re.search(r"^In seconds s2s is first, by [\d.]+ ± [\d.]+ s before s2a \(paired over 5 "
        r"seeds, p (<|= )0\.\d+\)\.$", text, re.MULTILINE)  # fmt: skip
    assert re.search(r"^s2s needs [\d.]+ rounds and s2a [\d.]+, but a round takes", text, re.M)
    assert "The target is average_loss <= 1.5. It is reached in the first evaluated" in text


def test_several_clocks_have_a_block_each_and_a_line_on_the_turn():
    text = price("runs", "--clock", "port.toml", "--clock", "radio.toml", *LOSS)
    assert "Clock radio.toml: whole runs" in text
    assert re.search(
        r"^Another primitive is first in seconds than in rounds under: port.toml \(s2s instead of "
        r"s2a[^)]*\)\.$",
        text,
        re.MULTILINE,
    )


def test_the_numbers_are_those_of_the_table_of_runs():
    """What is shown is what `skerry.load` has: the first row at or past the target, by seed."""
    target, frame = 1.5, skerry.load("runs", clock="port.toml")
    found = price_json("runs", "--clock", "port.toml", *LOSS)
    assert (found["measure"], found["target"]) == ("average_loss", target)
    (block,) = found["clocks"]
    for row in block["rows"]:
        own = frame[(frame["primitive"] == row["primitive"]) & (frame["average_loss"] <= target)]
        first = own.sort_values("round").groupby("seed").first()
        for cost, column in (("rounds", "round"), ("seconds", "seconds"), ("joules", "joules")):
            assert row[f"reach_{cost}"] == pytest.approx(first[column].mean())
        assert row["seeds_reached"] == len(first)
        last = frame[(frame["primitive"] == row["primitive"]) & (frame["round"] == 12)]
        for name in ("seconds", "joules", "waiting"):
            assert row[f"final_{name}"] == pytest.approx(last[name].mean())
    s2s, s2a = block["rows"]
    assert (s2s["first_seconds"], s2a["first_rounds"]) == (True, True)
    expected = s2s["reach_seconds"] - s2a["reach_seconds"]
    assert s2s["difference_seconds"] == pytest.approx(expected)


def test_never_is_an_answer():
    text = price("runs", "--clock", "port.toml", "--target", "101")
    assert re.search(r"^ s2s +never +- +- +- *$", text, re.MULTILINE)
    assert "No primitive reaches the target in any seed." in text
    rows = price_json("runs", "--clock", "port.toml", "--target", "101")["clocks"][0]["rows"]
    assert [(row["seeds_reached"], row["reach_seconds"]) for row in rows] == [(0, None)] * 2


def test_the_usual_target_is_told_and_every_run_reaches_it():
    text = price("runs", "--clock", "wifi_home")
    assert re.search(r"The target is average_accuracy >= \d+ %, which every run reaches", text)
    assert text.count("5 of 5 seeds") == 2


def test_a_target_that_is_reached_at_the_start_is_told():
    text = price("runs", "--clock", "port.toml", "--target", "0")
    assert "All runs reach it before the first round: give a harder --target." in text


def test_energy_is_left_out_where_the_clock_has_none(runs):
    (runs / "steps.toml").write_text("[compute]\nseconds_per_step = 1\n")
    text = price("runs", "--clock", "steps.toml", "--target", "60")
    assert "joules" not in text
    assert "energy" not in text
    (runs / "free.toml").write_text("[compute]\nseconds_per_step = 0\n")
    text = price("runs", "--clock", "free.toml", "--compare", "s2s")
    assert "\nIn rounds s2s is first: nothing is compared.\n" in text


def test_conditions_and_the_best_value_of_a_field(tmp_path):
    """Cells are told apart by the fields that vary; `--best` takes one for each primitive."""
    out = tmp_path / "two"
    for stepsize in (0.05, 0.2):
        base = Experiment.parse({}, [*RUNS, "rounds=6", f"training.stepsize={stepsize}"])
        skerry.run(base, compare=["s2s", "s2a"], seeds=3, out=out)
    both = price(out, "--clock", "port.toml")
    assert "stepsize 0.05: in rounds" in both
    assert "stepsize 0.2: in rounds" in both
    one = price(out, "--clock", "port.toml", "--where", "stepsize=0.2")
    assert "stepsize" not in one
    rows = price_json(out, "--clock", "port.toml", "--best", "stepsize")["clocks"][0]["rows"]
    assert [row["primitive"] for row in rows] == ["s2s", "s2a"]
    finals = skerry.finals(out).groupby(["primitive", "stepsize"])["average_accuracy"].mean()
    for row in rows:
        assert row["final"] == pytest.approx(finals[row["primitive"]].max())


def test_many_cells_are_counted(tmp_path):
    """Sentences for each of many cells would be a wall of text."""
    out = tmp_path / "grid"
    for sampled in range(2, 8):
        base = Experiment.parse({}, [*RUNS, f"server.sampled={sampled}"])
        skerry.run(base, compare=["s2s", "s2a"], seeds=2, out=out)
    asked = (out, "--clock", "port.toml", *LOSS)
    text, rows = price(*asked), price_json(*asked)["clocks"][0]["rows"]
    assert re.search(r"^First in seconds, of 6 cells: s2s in 6", text, re.MULTILINE)
    firsts = {cost: [] for cost in ("rounds", "seconds")}
    for row in rows:
        for cost, found in firsts.items():
            found += [(row["server.sampled"], row["primitive"])] * row[f"first_{cost}"]
    turned = [one for one in firsts["seconds"] if one not in firsts["rounds"]]
    assert turned
    assert f"first in seconds than in rounds in {len(turned)} of 6 cells, " in text


BAD = [
    (
        ["--where", "seed=0"],
        "",
        "a clock must say how long steps and messages take (got none). Give a file or an example: "
        "skerry price runs --clock wifi_home",
    ),
    (
        ["--clock", "bad.toml"],
        "[compute]\nslow = { porch = 4.0 }\n",
        "compute.slow names the device 'porch', which is not in the fleet. Devices are called 0, "
        "1, 2, ..., 19.",
    ),
    (
        ["--clock", "bad.toml"],
        'devices = "d.csv"',
        "d.csv has no row for the device '1' (19 of 20 devices are missing). Add it, or leave the",
    ),
    (["--clock", "bad.toml"], "[uplink]\nbandwidth = 0", "uplink.bandwidth must be above 0 (got"),
    (["--clock", "wifi"], "", "no clock 'wifi'; did you mean 'wifi_home'?"),
    (["--clock", "wifi_home", "--measure", "acuracy"], "", "unknown measure 'acuracy'"),
    (["--clock", "wifi_home", "--best", "stepsise"], "", "unknown field 'stepsise'; did you mean"),
    (["--clock", "wifi_home", "--where", "period"], "", "a condition reads field=value (got"),
    (["--clock", "wifi_home", "--target", "nan"], "", "--target must be a finite number (got nan)"),
]


@pytest.mark.parametrize(("arguments", "content", "told"), BAD, ids=lambda one: str(one)[:30])
def test_faults_are_told_in_one_line(runs, arguments, content, told):
    (runs / "bad.toml").write_text(content)
    (runs / "d.csv").write_text("device,uplink\n0,1 MB/s\n")
    outcome = command("price", "runs", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert told in outcome.err


def test_runs_without_bytes_have_no_price(tmp_path):
    few = Experiment.parse({}, [*RUNS, "rounds=2", "evaluate.measures=average_accuracy"])
    skerry.run(few, out=tmp_path)
    outcome = command("price", tmp_path, "--clock", "wifi_home")
    assert outcome.code == 2
    assert "has no uplink_bytes, so the sizes of its messages are unknown. Add" in outcome.err
    measured = few.replace(seed=1, evaluate={"measures": ["average", "communication"]})
    skerry.run(measured, out=tmp_path)
    with pytest.warns(SkerryWarning, match=r"^1 of 2 runs has no price .* left out: run \w+ has"):
        outcome = command("price", tmp_path, "--clock", "wifi_home")
    assert "1 of 1 seed" in outcome.out


def test_only_runs_with_their_own_clock_are_compared_by_it(tmp_path):
    """Beside runs without a clock, which are counted; with a clock for all, all are."""
    lanes = [
        Experiment.parse({}, ["rounds=4", "network.devices=8", "server.sampled=3", *more])
        for more in ([], ["clock.file=lte_phone"], ["clock.file=lte_phone", "server.primitive=s2a"])
    ]
    skerry.run(lanes, out=tmp_path)
    with pytest.warns(SkerryWarning, match="1 run without a clock left out"):
        outcome = command("price", tmp_path)
    assert outcome.code == 0
    assert "s2a" in outcome.out
    drawn = command("figure", "curves", tmp_path, "--over", "seconds", "-o", tmp_path / "a.png")
    assert "the runs have no seconds" in drawn.err
    assert "--clock wifi_home" in drawn.err


def small_fleet(*more):
    more = ("rounds=4", "network.devices=8", "server.sampled=3", *more)
    more = ("server.primitive=s2a", *more)
    return [word for one in more for word in ("--set", one)]


def test_void_server_rounds_are_told(tmp_path):
    """A deadline that nobody meets is no server at all: `run` and `sweep` say so."""
    timed = small_fleet("clock.file=wifi_home", "server.deadline=0.001")
    ran = command("run", *timed, "--seeds", "1", "--out", tmp_path / "run")
    assert "All server rounds were void in 1 of 1 run with a deadline" in ran.out
    assert "seconds" in ran.out
    in_time = command("run", *small_fleet("clock.file=wifi_home", "server.deadline=9"),
                      "--out", tmp_path / "met")  # fmt: skip
    assert "were void" not in in_time.out
    file = tmp_path / "s.toml"
    file.write_text('[clock]\nfile = "wifi_home"\n[sweep]\nseeds = 1\n[sweep.axes]\n'
                    '"server.deadline" = [0.001, 9.0]\n')  # fmt: skip
    swept = command("sweep", file, *small_fleet(), "--out", tmp_path / "sweep")
    assert "All server rounds were void in 1 of 2 runs with a deadline" in swept.out


def test_a_run_with_a_clock_has_a_timeline_by_it(tmp_path):
    """Without --clock; runs with a deadline have none, and the reason is told."""
    command("run", *small_fleet("clock.file=wifi_home"), "--out", tmp_path / "own")
    drawn = command("figure", "timeline", tmp_path / "own", "-o", tmp_path / "t.png")
    assert drawn.code == 0
    late = small_fleet("clock.file=wifi_home", "server.deadline=9")
    command("run", *late, "--out", tmp_path / "late")
    refused = command("figure", "timeline", tmp_path / "late", "-o", tmp_path / "u.png")
    assert refused.code == 2
    assert "records do not say who was in time" in refused.err


def test_joules_need_energy(tmp_path):
    clock = tmp_path / "free.toml"
    clock.write_text("[compute]\nseconds_per_step = 1\n")
    command("run", *small_fleet(), "--out", tmp_path / "runs")
    drawn = command("figure", "curves", tmp_path / "runs", "--over", "joules", "--clock", clock,
                    "-o", tmp_path / "j.png")  # fmt: skip
    assert drawn.code == 2
    assert "their clock has no energy" in drawn.err
    shown = command("results", tmp_path / "runs", "--measure", "seconds")
    assert "skerry price" in shown.err


def test_a_clock_from_python_by_its_name(runs):
    """As text in an experiment; anything that is no clock is told in one line."""
    assert Experiment(clock="wifi_home").clock.file == "wifi_home"
    with pytest.raises(skerry.SkerryError, match=r"a clock must be a file.*\(got 42\)"):
        skerry.load(runs / "runs", clock=42)
