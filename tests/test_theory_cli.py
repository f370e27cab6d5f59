"""`skerry theory`, as a user types it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from skerry.cli.commands.options import parse_numbers
from skerry.cli.commands.theory import app
from skerry.errors import SkerryError

ORACLE = (
    "--devices 10 --sampled 4 --period 3 --p .5 --zeta-intra .2 --zeta-inter .3 --epsilon .01 "
    "--sigma2 .5 --smoothness 2 --initial-error 3"
)
SMALL = (
    "--set network.devices=12 --set server.sampled=5 --set rounds=6 --set data.dataset=synthetic "
    "--set data.samples=240 --set data.features=5"
)


def say(line):
    """What a command prints."""
    done = CliRunner().invoke(app, line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(line):
    return json.loads(say(f"bounds {line} --json"))["rows"]


def test_the_default_is_figure_1():
    """Without options: n = 100, K = 20, H = 5, p = 1, where the axes of Figure 1 meet."""
    s2s, s2a = rows("")
    assert (round(s2s["rounds"]), round(s2a["rounds"])) == (89704052, 40083767)
    assert s2s["messages"] == pytest.approx(s2s["rounds"] / 5 * 40)
    text = say("bounds")
    assert "Fewest rounds: S2A, 40,083,767; S2S needs 2.24 times as many." in text
    assert "all hidden constants are one" in text


def test_the_initial_error_has_an_older_name():
    """`--gap` is `--initial-error`, and JSON says gap: scripts that do so go on working."""
    assert rows("--gap 3") == rows("--initial-error 3") != rows("")
    assert {row["gap"] for row in rows("--initial-error 3")} == {3.0}


@pytest.mark.parametrize(
    ("convex", "best", "b2", "b1", "stepsize"),
    [
        ("--convex", 361438.5779, 481636.7829, 2108253.5492, 0.00124892),
        ("--non-convex", 3361845.1267, 4615520.6860, 19689538.4299, 0.00053832),
    ],
)
def test_printed_oracles(convex, best, b2, b1, stepsize):
    """In printed mode rounds are N_c, with both values of the tuning lemma beside them."""
    (row,) = rows(f"{ORACLE} --mode printed --primitive s2s {convex}")
    assert row["rounds"] == pytest.approx(best, abs=6e-5)
    assert row["N_b2"] == pytest.approx(b2, abs=6e-5)
    assert row["N_b1"] == pytest.approx(b1, abs=6e-5)
    assert row["stepsize"] == pytest.approx(stepsize, abs=5.1e-9)
    assert row["sampled"] == 4
    assert set(row["terms"]) == {"initial", "noise", "intra", "inter"}


@pytest.mark.parametrize("mode", ["order", "printed", "repaired", "certified"])
def test_every_mode_has_rows_and_a_table(mode):
    """Each row carries the primitive, the mode, the numbers, the terms and the parameters."""
    found = rows(f"{ORACLE} --mode {mode} --period 1,4")
    names = ["s2s", "s2a", "blend"] if mode == "certified" else ["s2s", "s2a"]
    assert [row["primitive"] for row in found] == names * 2
    assert [row["period"] for row in found] == [1] * len(names) + [4] * len(names)
    for row in found:
        assert row["mode"] == mode
        assert {"rounds", "stepsize", "messages", "terms", "epsilon", "assumptions"} <= row.keys()
    text = say(f"bounds {ORACLE} --mode {mode} --period 1,4")
    assert max(map(len, text.splitlines())) <= 100
    assert "Fewest rounds:" in text


def test_ranges_tell_where_the_lead_changes():
    """A range of whole numbers names the last of each stretch, another the crossing point."""
    text = say("bounds --zeta-intra 1 --period 1:50")
    assert "Fewest rounds: S2S for period 1 to 4, S2A for period 5 to 50." in text
    text = say("bounds --zeta-intra 1 --p 0.01:1")
    assert "S2S for p 0.01 to 0.9533, S2A for p 0.9533 to 1" in text
    text = say("bounds --zeta-inter 0.1,1 --period 1:5")
    assert "of 10 settings" in text


def test_one_sampled_device():
    """S2S with K = 1 is infinite, with the reason, in words and in JSON."""
    assert "S2S with one sampled device leaves every model" in say("bounds --sampled 1:3")
    assert "infinite" in say("bounds --sampled 1 --primitive s2s --mode printed")
    s2s, s2a = rows("--sampled 1")
    assert s2s["rounds"] is None
    assert "one sampled device" in s2s["reason"]
    assert s2a["rounds"] > 0


def test_blend_and_sizes():
    """Certified bounds take unequal components and find the best blend."""
    (best,) = rows(f"{ORACLE} --components 3+7 --mode certified --primitive blend --beta best")
    tried = rows(f"{ORACLE} --components 3+7 --mode certified --primitive blend --beta 0:1:0.25")
    assert best["components"] == [3, 7]
    assert 0 < best["beta"] < 1
    assert best["rounds"] <= min(row["rounds"] for row in tried)
    assert [row["beta"] for row in tried] == [0, 0.25, 0.5, 0.75, 1]


def test_selection():
    """Certified bounds follow whom the server samples: in words, in JSON, in what they rest on."""
    asked = f"{ORACLE} --mode certified --components 2"
    usual, ours = rows(asked), rows(f"{asked} --selection per_component")
    assert [row["selection"] for row in ours] == ["per_component"] * 3
    assert not any("selection" in row or "weights" in row for row in usual)
    assert all(one["rounds"] < other["rounds"] for one, other in zip(ours, usual, strict=True))
    assert usual == rows(f"{asked} --selection uniform")
    text = say(f"bounds {asked} --selection one_each")
    assert "selection one_each" in text
    assert "(one_each)" in text
    (plain,), (weighed,) = (
        rows(f"{asked} --primitive s2a --sampled 5 --selection per_component --weights {weights}")
        for weights in ("equal", "stratified")
    )
    assert weighed["rounds"] < plain["rounds"]
    assert weighed["weights"] == "stratified"


def test_another_rule_is_certified_unless_a_mode_is_asked_for():
    """The paper's theorems know uniform sampling only, which stays the default."""
    assert rows(f"{ORACLE} --selection per_component")[0]["mode"] == "certified"
    assert rows(f"{ORACLE} --weights stratified --components 2")[0]["mode"] == "certified"
    assert rows(f"{ORACLE} --selection uniform") == rows(ORACLE)
    assert rows(ORACLE)[0]["mode"] == "order"


def test_rules_beside_each_other():
    """Several rules: every primitive under each, who needs the fewest, and what each rests on."""
    asked = f"{ORACLE} --components 2 --primitive s2s,s2a --selection uniform,per_component"
    found = rows(asked)
    assert [(row.get("selection", "uniform"), row["primitive"]) for row in found] == [
        ("uniform", "s2s"),
        ("uniform", "s2a"),
        ("per_component", "s2s"),
        ("per_component", "s2a"),
    ]
    fewest = min(found, key=lambda row: row["rounds"])
    text = say(f"bounds {asked}")
    name = f"{fewest['primitive'].upper()} {fewest['selection']}"
    assert f"Fewest rounds: {name}, {fewest['rounds']:,.0f};" in " ".join(text.split())
    assert "selection uniform" not in text  # it is a column, not a part of the setting
    assert "- uniform: devices are sampled uniformly" in text
    assert "- per_component: every island is sampled in proportion" in text
    assert "(per_component)" not in text
    along = say(f"bounds {asked} --period 1:3")
    assert f"{name} for period" in " ".join(along.split())


def test_prices():
    """A broadcast makes S2A's downlink one message."""
    plain, cheap = (rows(f"--primitive s2a {extra}")[0] for extra in ("", "--broadcast 1"))
    assert cheap["messages"] == pytest.approx(21 / 120 * plain["messages"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bounds --sampled 0", "sampled must be between 1 and devices (got 0 of 100 devices)"),
        ("bounds --p 0", "p must be above 0 and at most 1 (got 0)"),
        ("bounds --epsilon 0", "epsilon must be above 0 (got 0)"),
        ("bounds --epsilon -1", "epsilon must be above 0 (got -1)"),
        ("bounds --period five", "--period must be a whole number, a range such as 1:50"),
        ("bounds --period 2.5", "--period must be a whole number"),
        ("bounds --zeta-intra x", "--zeta-intra must be a number"),
        ("bounds --period 9:1", "(got '9:1')"),
        ("bounds --period 1:2:0", "(got '1:2:0')"),
        ("bounds --period 1:1000000", "at most 10,000 numbers"),
        ("bounds --period 1:500 --sampled 1:90", "at most 10,000 settings (got 45,000)"),
        ("bounds --components 3+4", "island sizes must add up to devices"),
        ("bounds --primitive blend", "blend has certified bounds only"),
        ("bounds --primitive s2x", "unknown primitive 's2x'"),
        ("bounds --mode exact", "unknown mode 'exact'"),
        ("bounds --mode certified --beta 2", "beta must be between 0 (S2S) and 1 (S2A)"),
        ("bounds --downlink -1", "downlink must be at least 0"),
        ("bounds --mode order --selection one_each", "(got selection 'one_each', weights 'equal')"),
        ("bounds --mode printed --selection per_component", "theorems assume that devices are"),
        ("bounds --mode repaired --weights stratified", "Ask for certified bounds"),
        ("bounds --mode certified --selection round_robin", "no law of counts for selection"),
        ("bounds --mode certified --selection a.b:c", "no law of counts for selection 'a.b:c'"),
        ("bounds --mode certified --selection one_each --sampled 7", "a multiple of the number of"),
        ("bounds --mode certified --weights data_step", "unknown kind of weights 'data_step'"),
        ("regimes --epsilon 0", "epsilon must be above 0"),
        ("figure 2", "unknown figure '2'"),
        ("figure 1 -o one.gif", "a figure must be a .png, .svg, .pdf file (got 'one.gif')"),
        ("mixing missing.toml", "no file missing.toml"),
        ("constants --rounds x", "--rounds must be a whole number"),
    ],
)
def test_bad_parameters(line, words):
    """A bad parameter is met with one line that says the rule and what was got."""
    with pytest.raises(SkerryError) as caught:
        say(line)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mixing():
    """p of the default experiment's rings, exactly."""
    found = json.loads(say("mixing --json"))
    assert found["components"] == [50, 50]
    assert found["minimum"] == pytest.approx(0.010486, abs=5e-7)
    assert found["average"] == pytest.approx(found["minimum"])
    assert (found["method"], found["standard_error"]) == ("exact", 0)
    assert "p_min 0.010486 (exact)" in say("mixing")
    unlike = say("mixing --set network.devices=5 --set network.components=[2,3] --set "
                 "network.topology=path --set server.sampled=2")  # fmt: skip
    assert "p_min 0.555556" in unlike
    assert "p_avg 0.703704" in unlike


def test_mixing_with_a_standard_error(tmp_path):
    """Links that fail have an estimated p, from an experiment's file."""
    file = tmp_path / "failing.toml"
    file.write_text("[network]\ndevices = 10\nlink_failure = 0.3\n[server]\nsampled = 2\n")
    found = json.loads(say(f"mixing {file} --draws 40 --json"))
    assert found["method"] == "estimated"
    assert found["standard_error"] > 0
    assert " ± " in say(f"mixing {file} --draws 40")


def test_constants():
    """A table of checkpoints and the command that bounds this very experiment."""
    found = json.loads(say(f"constants {SMALL} --rounds 0,5 --draws 3 --json"))
    assert [at["round"] for at in found["checkpoints"]] == [0, 5]
    assert found["suprema"]["sigma2"]["error"] > 0
    assert found["smoothness"]["method"] == "upper bound"
    text = say(f"constants {SMALL} --rounds 0,5 --draws 3")
    assert "underestimates it" in " ".join(text.split())
    _, _, command = text.partition("Bounds: skerry theory ")
    assert "Fewest rounds" in say(command.strip())


@pytest.mark.parametrize(("number", "suffix"), [("1", "png"), ("6", "svg"), ("6", "pdf")])
def test_figures(number, suffix, tmp_path):
    """Figures are written in the format that the file's ending names."""
    path = tmp_path / f"figure.{suffix}"
    assert str(path) in say(f"figure {number} -o {path}")
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert path.read_bytes().startswith(begins)


def test_figure_as_numbers():
    """JSON holds what the figure draws: twelve panels, curves and crossing points."""
    panels = json.loads(say("figure 1 --json"))["panels"]
    assert len(panels) == 12
    by_axis = {(p["zeta_intra"], p["zeta_inter"], p["axis"]): p for p in panels}
    along_p = by_axis[0.1, 0.1, "p"]
    assert along_p["stretches"][0]["last"] == pytest.approx(0.0953, abs=5e-5)
    along_K = by_axis[0.1, 0.1, "sampled"]
    assert along_K["s2s"][0] is None
    assert along_K["s2s"][19] == pytest.approx(89704052, abs=1)


def test_regimes():
    """The regime table, in words and as JSON."""
    text = say("regimes")
    for words in ("S2S 0.01 to 0.9533", "S2S 1 to 4", "S2A 50 to 99", "S2A 1 to 99"):
        assert words in text
    assert len(json.loads(say("regimes --json"))["rows"]) == 24
    cheap = say("regimes --downlink 0.25")
    assert "S2S 1 to 12" in cheap


def test_ranges():
    """Ranges include their end; lists and ranges mix."""
    assert parse_numbers("period", "1:4", whole=True) == [1, 2, 3, 4]
    assert parse_numbers("period", "1:10:4,20", whole=True) == [1, 5, 9, 20]
    assert parse_numbers("p", "0.1:0.5:0.1", whole=False) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert len(parse_numbers("p", "0.1:1", whole=False)) == 10
    assert parse_numbers("p", "3:3", whole=False) == [3]


def test_help_stays_light():
    """The commands' module itself brings in nothing heavy."""
    code = (
        "import sys, skerry.cli.commands.theory; "
        "print([m for m in ('torch', 'scipy', 'networkx', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
