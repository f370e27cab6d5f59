"""`skerry advise` as a user types it."""

import json

import pytest

from command_line import skerry
from skerry.methods.carry import Carry
from skerry.report.page.build import write_report

SMALL = (
    "--set", "network.devices=12", "--set", "server.sampled=5", "--set", "server.period=3",
    "--set", "rounds=7", "--set", "training.batch=4", "--seeds", "2",
)  # fmt: skip


def test_the_answer_is_printed() -> None:
    """Recommendation, table, sensitivity and a command to paste, in that order."""
    done = skerry("advise", *SMALL)
    assert done.code == 0, done.err
    places = [
        done.out.index(words)
        for words in ("12 devices on 2 rings of 6", "stepsize", "labels %", "What would change")
    ]
    assert places == sorted(places)
    assert done.out.strip().splitlines()[-1].startswith("Use it: skerry run --set")


def test_the_pasted_command_runs(tmp_path) -> None:
    """The command at the end of the answer is one that runs."""
    told = skerry("advise", *SMALL, "--among", "s2a,blend:0.3").out
    words = told.strip().splitlines()[-1].split()[4:]
    settings = SMALL[:10]
    done = skerry("run", *settings, *words, "--seeds", "1", "--out", tmp_path)
    assert done.code == 0, done.err


def test_methods_are_considered_and_the_command_brings_them_along(tmp_path) -> None:
    told = skerry("advise", *SMALL, "--among", "carry,gradient_tracking,uniform", "--out", tmp_path)
    assert told.code == 0, told.err
    best = json.loads((tmp_path / "advice.json").read_text())["recommendation"]
    assert best["preset"] in ("carry", "gradient_tracking")
    line = next(line for line in told.out.splitlines() if line.startswith("Use it:"))
    assert f"--compare {best['preset']}" in line
    done = skerry("run", *SMALL[:10], *line.split()[4:], "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert best["preset"] in done.out
    page = tmp_path / "page.html"
    assert skerry("report", tmp_path, "--out", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "Methods and other systems" in text
    assert Carry.keeps in text


def test_json_alone_on_stdout(tmp_path) -> None:
    """With --json stdout is one JSON object, the same as in the folder."""
    done = skerry("advise", *SMALL, "--json", "--out", tmp_path, "--goal", "own")
    table = json.loads(done.out)
    assert table["goal"] == "own"
    kept = json.loads((tmp_path / "advice.json").read_text())
    assert kept["recommendation"] == table["recommendation"]
    shown = skerry("results", tmp_path, "--measure", "own_accuracy")
    assert shown.code == 0, shown.err
    assert "s2a" in shown.out


def test_the_worst_tenth_on_the_screen_and_on_the_page(tmp_path) -> None:
    """Its words and its column stand in both."""
    asked = ("--goal", "worst_tenth", "--among", "s2s,s2a,uniform", "--out", tmp_path)
    done = skerry("advise", *SMALL, *asked)
    assert done.code == 0, done.err
    words = "ccuracy of the worst tenth of the devices on their own labels"
    assert words in done.out
    assert "tenth %" in done.out
    page = write_report(tmp_path).read_text()
    assert words in page
    assert "worst tenth %" in page


def test_a_fleet_from_a_graph_file(tmp_path) -> None:
    """Three unequal islands from a file of the user's own, with a neural network."""
    (tmp_path / "islands.csv").write_text("a,b\nb,c\nd,e\nf,g\ng,h\nh,i\ni,f\n")
    (tmp_path / "fleet.toml").write_text(
        f"""
        rounds = 6
        [network]
        topology = "{(tmp_path / "islands.csv").as_posix()}"
        [data]
        inter = "dirichlet"
        [model]
        name = "mlp"
        hidden = 8
        [training]
        batch = 8
        [server]
        sampled = 3
        """
    )
    done = skerry("advise", tmp_path / "fleet.toml", "--seeds", "2", "--among", "s2s,s2a")
    assert done.code == 0, done.err
    assert "of 3, 2, 4" in done.out or "of 2, 3, 4" in done.out or "of 4, 3, 2" in done.out
    assert f"skerry run {tmp_path / 'fleet.toml'}" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--goal", "speed"], "unknown goal"),
        (["--among", "s2x"], "unknown primitive"),
        (["--price", "up"], "must be a number"),
        (["--price", "side=1"], "unknown link"),
        (["--budget-messages", "5", "--budget-bytes", "5"], "got both"),
        (["--budget-messages", "2"], "single server round"),
        (["--minutes", "0"], "above 0"),
        (["--stepsizes", "a"], "--stepsizes must be"),
        (["--stepsizes", "-1"], "above 0"),
        (["--set", "network.devices=9000"], "too few"),
        (["--device", "cuda:77"], "no device"),
        (["no-such-file.toml"], "no-such-file.toml"),
    ],
)
def test_faults_are_one_line(words: list[str], said: str) -> None:
    """Every fault is a line on stderr, nothing on stdout, and exit code 2."""
    done = skerry("advise", *SMALL, *words)
    assert done.code == 2
    assert done.out == ""
    lines = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert said in lines[0]
