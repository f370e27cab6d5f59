"""`skerry advise` as a user types it."""

import json
import re
import shlex

import pytest

from command_line import skerry
from skerry import load
from skerry.methods.carry import Carry
from skerry.report.page.build import write_report

FLEET = (
    "--set", "network.devices=12", "--set", "server.sampled=5", "--set", "server.period=3",
    "--set", "rounds=7", "--set", "training.batch=4",
)  # fmt: skip
QUICK = ("--sampled", "5", "--periods", "3", "--stepsizes", "0.1", "--seeds", "2")
SMALL = (*FLEET, *QUICK)


def commands(shown: str) -> dict[str, list[str]]:
    """The words of the printed commands after `skerry`, by title."""
    found = [line.partition(": skerry ") for line in shown.splitlines() if ": skerry " in line]
    return {title: shlex.split(words) for title, _, words in found}


def test_the_answer_is_printed() -> None:
    """The question, the recommendation, the curve, what would change it, and commands to paste, in
    that order."""
    asked = ("--periods", "2,3", "--goal", "global", "--budget-uploads", "20")
    done = skerry("advise", *SMALL, *asked)
    assert done.code == 0, done.err
    parts = (
        "12 devices on 2 rings of 6", "Asked: accuracy of the average model; at most 20 uploads",
        "Varied: primitive none, s2s, s2a", "Fixed: K 5, selection uniform, the stepsize 0.1",
        "allowed.\n",
        "\nAccuracy of the average model: ", "points behind", "What would change the answer:",
        "if the budget were halved (10 uploads)", "Use it: skerry run --set network.devices=12",
    )  # fmt: skip
    places = [done.out.index(words) for words in parts]
    assert places == sorted(places)
    curve = done.out[done.out.index("uploads  ") :].partition("What would")[0]
    assert "recommended" in curve
    assert re.search(r"no server +0\.1 +0 +[\d.]+ ± [\d.]+", curve)


@pytest.mark.parametrize(
    ("among", "other"), [("s2a,blend:0.3,uniform", "no server"), ("none", "a server")]
)
def test_the_pasted_commands_run(among: str, other: str, tmp_path) -> None:
    """Both commands at the end of the answer run as printed, and the second compares the
    recommendation with no server, or no server with a server."""
    told = commands(skerry("advise", *SMALL, "--among", among).out)
    assert list(told) == ["Use it", f"Compare it with {other}"]
    for title, words in told.items():
        done = skerry(*words, "--seeds", "1", "--out", tmp_path / title)
        assert done.code == 0, done.err
        compared = {str(label) for label in load(tmp_path / title)["label"]}
        assert ("none" in compared) == (title != "Use it" or other == "a server")
    assert compared & {"s2a", "blend(0.3)"}


def test_methods_are_considered_and_the_command_brings_them_along(tmp_path) -> None:
    told = skerry("advise", *SMALL, "--among", "carry,gradient_tracking,uniform", "--out", tmp_path)
    assert told.code == 0, told.err
    best = json.loads((tmp_path / "advice.json").read_text())["recommendation"]
    assert best["preset"] in ("carry", "gradient_tracking")
    words = commands(told.out)["Use it"]
    assert words[words.index("--compare") + 1] == best["preset"]
    done = skerry(*words, "--out", tmp_path / "run")
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
    """Its words stand in both."""
    asked = ("--goal", "worst_tenth", "--among", "s2s,s2a,uniform", "--out", tmp_path)
    done = skerry("advise", *SMALL, *asked)
    assert done.code == 0, done.err
    words = "ccuracy of the worst tenth of the devices on their own labels"
    assert f"Asked: a{words};" in done.out
    assert f"\nA{words}: " in done.out
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert f'"goal_text":"a{words}"' in page


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
    quick = ("--sampled", "3", "--periods", "3", "--stepsizes", "0.1", "--seeds", "2")
    done = skerry("advise", tmp_path / "fleet.toml", *quick, "--among", "s2s,s2a")
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
        (["--budget-messages", "5", "--budget-bytes", "5"], "got messages and bytes"),
        (["--budget-messages", "5", "--price", "d2d=1"], "does not pay for the messages between"),
        (["--budget-uploads", "5", "--budget-bytes", "5"], "got messages and bytes"),
        (["--budget-uploads", "5", "--price", "up=2"], "counts uploads alone"),
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
