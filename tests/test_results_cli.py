"""`skerry results`: what a folder of records answers, and how plainly it says what is missing."""

import json
import re
import sys
from io import StringIO

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import skerry
from skerry.cli.commands.results import results_command
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryError
from skerry.records.store import Store

app = typer.Typer()
app.command("results")(results_command)


def call(*arguments) -> str:
    """What the command prints on stdout; its errors are raised."""
    found = CliRunner().invoke(app, list(map(str, arguments)))
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout


def rows_of(*arguments) -> pd.DataFrame:
    return pd.read_csv(StringIO(call(*arguments, "--csv", "-")))


def record(folder, runs, code="", material="model"):
    """A store with a run for each (settings, status, accuracies by round); `code` stands for what
    else decides a run, such as a model from Python."""
    with Store.open(folder) as store:
        for settings, status, accuracies in runs:
            experiment = Experiment.parse({}, [f"rounds={len(accuracies) - 1}", *settings])
            materials = {material: code} if code else {}
            key = experiment.key(materials)
            facts = {"materials": materials, "world": experiment.world_key(), "device": "cpu"}
            store.begin({key: experiment}, versions={}, **facts)
            rounds = list(range(len(accuracies)))
            store.append({key: {"round": rounds, "average_accuracy": accuracies}})
            if status != "running":
                store.finish(key, status, wall_seconds=1.0)


def grid(primitives, values, *settings):
    """One finished run per primitive and seed, whose final value is values[primitive][seed]."""
    return [
        ([f"seed={seed}", f"server.primitive={name}", *settings], "finished", [0.0, 0.0, value])
        for name in primitives
        for seed, value in enumerate(values[name])
    ]


VALUES = {"s2s": [12.0, 15.0, 11.0, 14.0], "s2a": [10.0, 12.0, 10.0, 10.0]}


@pytest.fixture
def store(tmp_path):
    """Two periods: the differences are 2, 3, 1, 4 in one, and 0 in the other."""
    equal = {"s2s": VALUES["s2a"], "s2a": VALUES["s2a"]}
    record(tmp_path, grid(VALUES, VALUES, "server.period=5"))
    record(tmp_path, grid(equal, equal, "server.period=20"))
    return tmp_path


def test_tables_on_a_page(store):
    text = call(store)
    lines = text.splitlines()
    assert "average_accuracy, final value: mean over 4 seeds ± half of the 95 % interval" in lines
    assert re.search(r"^ *5 +13\.00 ± 2\.91 +10\.50 ± 1\.59 *$", text, re.MULTILINE)
    assert re.search(r"^ *5 +\+2\.50 ± 2\.05 +0\.030 +s2s better *$", text, re.MULTILINE)
    assert re.search(r"^ *20 +\+0\.00 +- +tie *$", text, re.MULTILINE)
    assert "s2s against s2a in 2 cells: 1 win, 1 tie, 0 losses at level 0.05" in text
    # Variances: unpaired 13/3 + 2, paired 5/3 + 0.
    assert "variance of differences 3.8 times: 4 common seeds are worth 15 separate ones" in text
    assert max(map(len, lines[:12])) <= 100


def test_rows_hold_every_number(store):
    rows = rows_of(store).set_index(["server.period", "primitive"])
    ours = rows.loc[(5, "s2s")]
    assert ours["mean"] == 13
    assert ours["difference"] == 2.5
    assert ours["t_p"] == pytest.approx(0.030466, rel=1e-4)
    assert ours["wilcoxon_p"] == 0.125
    assert ours["variance_saved"] == pytest.approx(2.6)
    assert ours["verdict"] == "win"
    assert rows.loc[(20, "s2s"), "untested"] == "equal in every seed"
    assert rows.loc[(5, "s2a"), ["pairs", "difference", "t_p", "verdict"]].isna().all()


def test_against_turns_the_comparison(store):
    rows = rows_of(store, "--against", "s2s").set_index(["server.period", "primitive"])
    assert rows.loc[(5, "s2a"), "difference"] == -2.5
    assert rows.loc[(5, "s2a"), "verdict"] == "loss"


def test_holm_goes_over_all_comparisons_of_the_table(tmp_path):
    shifted = {name: [v + 0.3 * v * v for v in values] for name, values in VALUES.items()}
    record(tmp_path, grid(VALUES, VALUES, "server.period=5"))
    record(tmp_path, grid(shifted, shifted, "server.period=20"))
    rows = rows_of(tmp_path)
    compared = rows[rows["primitive"] == "s2s"]
    smaller, larger = sorted(compared["t_p"])
    assert sorted(compared["t_p_holm"]) == pytest.approx(
        sorted([2 * smaller, max(2 * smaller, larger)])
    )


def test_by_averages_the_other_fields_seed_by_seed(store):
    """The difference in each seed is the mean over both periods: 1, 3/2, 1/2, 2."""
    rows = rows_of(store, "--by", "topology").set_index("primitive")
    assert rows.loc["s2s", "network.topology"] == "ring"
    assert rows.loc["s2s", "difference"] == 1.25
    assert rows.loc["s2s", "pairs"] == 4
    assert rows.loc["s2s", "difference_standard_error"] == pytest.approx((5 / 12) ** 0.5 / 2)


def test_best_takes_each_primitive_at_its_own_best_value(tmp_path):
    for stepsize, values in (
        ("0.1", {"s2s": [1.0, 2.0], "s2a": [7.0, 8.0]}),
        ("0.5", {"s2s": [5.0, 6.0], "s2a": [3.0, 4.0]}),
    ):
        record(tmp_path, grid(values, values, f"training.stepsize={stepsize}"))
    # A value that not all seeds finished cannot be the best.
    record(tmp_path, grid({"s2s"}, {"s2s": [99.0]}, "training.stepsize=0.9"))
    other_seed = ["seed=1", "server.primitive=s2s", "training.stepsize=0.9"]
    record(tmp_path, [(other_seed, "diverged", [0.0, 1e9, 1e9])])
    rows = rows_of(tmp_path, "--best", "stepsize").set_index("primitive")
    assert rows["mean"].to_dict() == {"s2s": 5.5, "s2a": 7.5}
    assert "training.stepsize" not in rows


def test_the_last_rounds_are_averaged(tmp_path):
    """The start is no round: asking for more rounds than there are takes them all."""
    record(tmp_path, [([], "finished", [50.0, 1.0, 2.0, 6.0])])
    means = [rows_of(tmp_path, "--last", last)["mean"].item() for last in (1, 2, 3, 100)]
    assert means == [6, 4, 3, 3]
    assert "mean of the last 2 rounds" in call(tmp_path, "--last", 2)


def test_runs_without_server_stand_beside_every_period(tmp_path):
    """`none` has no period, so it is one run for the whole grid, and pairs with all of it."""
    for period in (5, 20):
        record(tmp_path, grid(VALUES, VALUES, f"server.period={period}"))
    alone = {"none": [1.0, 2.0, 3.0, 4.0]}
    record(tmp_path, grid(alone, alone, "server.period=5"))
    rows = rows_of(tmp_path, "--against", "none")
    assert len(rows) == 2 * 3
    assert rows.loc[rows["primitive"] == "s2s", "pairs"].tolist() == [4, 4]


def test_fields_without_a_part_make_no_cells(tmp_path):
    """The degree of a ring is no difference, the beta of s2s neither; that of blend is a label."""
    record(tmp_path, grid(VALUES, VALUES))
    blend = {"blend": [1.0, 2.0]}
    for beta in ("0.25", "0.5"):
        record(tmp_path, grid(blend, blend, f"server.beta={beta}"))
    regular = ["network.topology=regular", "network.degree=6"]
    record(tmp_path, grid(VALUES, VALUES, *regular))
    found = json.loads(call(tmp_path, "--json"))
    assert found["fields"] == ["network.topology"]
    assert {row["primitive"] for row in found["rows"]} == {
        "s2s",
        "s2a",
        "blend(0.25)",
        "blend(0.5)",
    }
    against = json.loads(call(tmp_path, "--json", "--against", "blend:0.25"))["against"]
    assert against == "blend(0.25)"


def test_unfinished_and_diverged_runs_are_named_and_left_out(tmp_path):
    record(tmp_path, grid(VALUES, VALUES))
    record(tmp_path, [(["seed=4"], "diverged", [0.0, 1e9, 1e9])])
    record(tmp_path, [(["seed=5"], "running", [0.0, 1e9, 1e9])])
    text = call(tmp_path)
    assert "Not counted: 1 diverged, 1 running, of 10 runs." in text
    assert "13.00 ± 2.91" in text


def test_a_seed_that_one_primitive_lacks_is_not_paired(tmp_path):
    record(tmp_path, grid(VALUES, VALUES | {"s2a": VALUES["s2a"][:3]}))
    text = call(tmp_path)
    assert "10.67 ± 2.87 (3)" in text  # three of four seeds
    assert "+2.00 ± 2.48" in text


def test_one_seed_is_no_interval_and_no_test(tmp_path):
    record(tmp_path, grid(VALUES, {name: values[:1] for name, values in VALUES.items()}))
    text = call(tmp_path)
    assert "There is only one seed, so there are no intervals and no tests." in text
    assert re.search(r"\+2\.00 +- +one seed", text)
    assert "1 untested" in text
    assert "Pairing" not in text


def test_one_primitive_has_nothing_to_be_compared_with(tmp_path):
    record(tmp_path, grid({"s2s"}, VALUES))
    assert "Only s2s was run, so nothing is compared." in call(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--measure", "average_acuracy"], "did you mean 'average_accuracy'"),
        (["--measure", "own_accuracy"], "no finished run in .* measured own_accuracy. Choose from"),
        (["--by", "server.perod"], "did you mean 'server.period'"),
        (["--best", "stepsise"], "unknown field 'stepsise'"),
        (["--against", "s2"], "unknown primitive 's2'; did you mean 's2s'"),
        (["--json", "--csv", "-"], "only one output can go to stdout"),
        (["--csv", "no/such/folder.csv"], "cannot write no/such/folder.csv"),
    ],
)
def test_mistakes_are_told_in_one_line(store, arguments, message):
    with pytest.raises(SkerryError, match=message) as error:
        call(store, *arguments)
    assert "\n" not in str(error.value)


def test_a_folder_without_answers_says_so(tmp_path):
    with pytest.raises(RecordsError, match="no store at"):
        call(tmp_path)
    Store.open(tmp_path).close()
    with pytest.raises(RecordsError, match="no runs are recorded in"):
        call(tmp_path)
    record(tmp_path, [([], "running", [1.0, 2.0])])
    record(tmp_path, [(["seed=1"], "diverged", [1.0, 2.0])])
    with pytest.raises(RecordsError, match=r"none of the runs .* \(1 running, 1 diverged\)"):
        call(tmp_path)


def test_json_is_strict(store):
    found = json.loads(call(store, "--json"), parse_constant=pytest.fail)
    assert found["measure"] == "average_accuracy"
    assert found["rows"][0]["standard_error"] == pytest.approx((10 / 12) ** 0.5)
    assert found["rows"][0]["pairs"] == 4


def test_parquet_holds_the_rows_of_csv(store, tmp_path):
    pytest.importorskip("pyarrow")
    call(store, "--parquet", tmp_path / "rows.parquet")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "rows.parquet"), rows_of(store), check_dtype=False
    )


def test_parquet_without_its_package_says_what_to_install(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SkerryError, match=r"pip install 'skerry\[parquet\]'"):
        call(store, "--parquet", "-")


def test_markdown_has_a_row_per_cell(store):
    lines = call(store, "--markdown", "-").splitlines()
    assert "| period | s2s | s2a |" in lines
    assert "| 5 | +2.50 ± 2.05 | 0.030 | s2s better |" in lines


def test_latex_is_well_formed(tmp_path):
    """Every row has as many cells as the tabular has columns; special characters are escaped."""
    record(tmp_path, grid(VALUES, VALUES, 'data.inter="non_iid"'))
    record(tmp_path, grid(VALUES, VALUES, 'data.inter="iid"'))
    text = call(tmp_path, "--latex", "-", "--against", "s2s")
    for columns, body in re.findall(
        r"\\begin{tabular}{@{}([lr]+)@{}}\n\\toprule\n(.*?)\\bottomrule\n\\end{tabular}",
        text,
        re.DOTALL,
    ):
        rows = [line for line in body.splitlines() if line != r"\midrule"]
        assert len(rows) == 3
        assert all(line.endswith(r" \\") and line.count(" & ") == len(columns) - 1 for line in rows)
    assert r"non\_iid & $-$2.50 $\pm$ 2.05" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_files_are_replaced_as_a_whole(store, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("old")
    assert f"Wrote {file}." in call(store, "--csv", file)
    assert file.read_text() == call(store, "--csv", "-")
    assert not list(tmp_path.glob(".*"))


def test_a_real_study(small, tmp_path):
    """Runs of skerry.run are found, named and compared; counts that never vary are not tested."""
    skerry.run(small(), compare=["s2s", "s2a", "blend:0.25"], seeds=3, out=tmp_path)
    assert rows_of(tmp_path)["seeds"].tolist() == [3, 3, 3]
    assert "Pairing by seed " in call(tmp_path)
    text = call(tmp_path, "--measure", "downlink_messages")
    assert re.search(r"s2s +-21 +- +the same difference in every seed", text)


def test_folders_are_compared_and_never_averaged(tmp_path):
    """Runs of one setting in two folders have the folder in their label and are paired by seed;
    runs that both folders hold count once; other settings share the table."""
    older, newer = tmp_path / "older", tmp_path / "newer"
    record(older, grid(VALUES, VALUES))
    record(newer, grid(["s2a"], VALUES))  # the same runs
    record(newer, grid(["s2s"], {"s2s": [13.0, 16.0, 12.0]}), code="edited")
    both = call(older, newer)
    assert "not counted" not in both.lower()
    rows = rows_of(older, newer).set_index("primitive")
    assert rows["seeds"].to_dict() == {"s2s · older": 4, "s2s · newer": 3, "s2a": 4}
    assert rows.loc["s2s · newer", "mean"] == pytest.approx(41 / 3)
    against = rows_of(newer, older, "--against", "s2s · older").set_index("primitive")
    assert against.loc["s2s · newer", "difference"] == pytest.approx(1.0)
    loaded = skerry.finals([older, newer])
    assert loaded.groupby("folder")["key"].nunique().to_dict() == {
        "newer": 3, "older": 4, "older and newer": 4,
    }  # fmt: skip
    report = skerry.page.read_report_data([older, newer])
    assert report.grid.labels == ["s2s · older", "s2s · newer", "s2a"]
    assert report.results().labels() == ["s2s · older", "s2a", "s2s · newer"]


def test_more_seeds_of_the_same_runs_are_one_setting(tmp_path):
    """A folder that holds all runs of another one, and further seeds, makes no second setting; a
    folder named twice is one; folders of the same name are told by more of their path."""
    first, more = tmp_path / "a" / "runs", tmp_path / "b" / "runs"
    record(first, grid(["s2s"], {"s2s": [12.0, 15.0]}))
    record(more, grid(["s2s"], VALUES))
    assert rows_of(first, more, tmp_path / "a" / ".." / "a" / "runs")["seeds"].tolist() == [4]
    other = tmp_path / "c" / "runs"
    record(other, grid(["s2s"], VALUES), code="edited")
    told = rows_of(more, other)["primitive"]
    assert told.tolist() == ["s2s · b/runs", "s2s · c/runs"]


def test_versions_of_a_model_in_two_folders_are_told_apart(tmp_path):
    """Also where no setting is in both folders: a primitive of one, and another of the other."""
    for name, primitive in (("older", "s2s"), ("newer", "s2a")):
        record(tmp_path / name, grid([primitive], VALUES), code=name, material="factory")
    found = rows_of(tmp_path / "older", tmp_path / "newer")
    assert found["primitive"].tolist() == ["s2s · older", "s2a · newer"]


def test_faults_of_several_folders_are_told(tmp_path):
    """A folder without runs is named, and so is a folder in the place of the measure."""
    record(tmp_path / "full", grid(VALUES, VALUES))
    Store.open(tmp_path / "empty").close()
    with pytest.raises(RecordsError, match=r"no runs are recorded in .*empty"):
        call(tmp_path / "full", tmp_path / "empty")
    with pytest.raises(SkerryError, match="several folders as a list"):
        skerry.results(tmp_path / "full", str(tmp_path / "empty"))
    with pytest.raises(RecordsError, match=r"no store at .*missing"):
        call(tmp_path / "full", tmp_path / "missing")
