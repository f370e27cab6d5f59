"""The store keeps what it is given, all of it or none of it."""

import json
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.records.store import Store, versions

FACTS = {"materials": {"data": "f00"}, "world": "w1", "device": "cpu", "versions": {"numpy": "2"}}
LAST = 20
fresh_key = map("run-{}".format, count()).__next__


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One store for many examples, each with a key of its own."""
    with Store.open(tmp_path_factory.mktemp("shared")) as store:
        yield store


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path) as store:
        yield store


def begun(store, key=None, **fields):
    key = key or fresh_key()
    store.begin({key: Experiment(**fields)}, **FACTS)
    return key


def same(left, right):
    return list(left) == list(right) and all(
        np.array_equal(left[name], right[name], equal_nan=True) for name in left
    )


@st.composite
def histories(draw):
    """Strictly rising rounds, measures with any double, and the cuts between the parts."""
    rounds = sorted(draw(st.sets(st.integers(0, LAST), min_size=1, max_size=12)))
    names = draw(st.lists(st.text().filter(lambda name: name != "round"), unique=True, max_size=4))
    column = st.lists(st.floats(), min_size=len(rounds), max_size=len(rounds))
    cuts = draw(st.sets(st.integers(0, len(rounds)))) | {0, len(rounds)}
    return {"round": rounds, **{name: draw(column) for name in names}}, sorted(cuts)


def append_in_parts(store, key, history, cuts):
    for start, stop in pairwise(cuts):
        store.append({key: {name: column[start:stop] for name, column in history.items()}})


# Histories


@settings(max_examples=50, deadline=None)
@given(histories())
def test_a_history_returns_as_it_was_recorded(shared, case):
    """Every double returns bit for bit, NaN and infinities too, however it was cut into parts."""
    history, cuts = case
    key = begun(shared)
    append_in_parts(shared, key, history, cuts)
    returned = shared.history(key)
    assert list(returned) == list(history)
    assert returned["round"].dtype == np.int64
    for name, column in history.items():
        expected = np.array(column, dtype=returned[name].dtype)
        assert returned[name].tobytes() == expected.tobytes()


@settings(max_examples=50, deadline=None)
@given(histories(), st.integers(0, LAST + 2))
def test_rewinding_keeps_exactly_the_first_rounds(shared, case, rounds_done):
    """A rewound history holds the rounds up to rounds_done, and takes the others anew."""
    history, cuts = case
    key = begun(shared)
    append_in_parts(shared, key, history, cuts)
    whole = shared.history(key)
    shared.rewind([key], rounds_done)
    kept = int(np.sum(whole["round"] <= rounds_done))
    rewound = shared.history(key)
    assert rewound["round"].tolist() == whole["round"][:kept].tolist()
    assert shared.run(key).rounds_done == (whole["round"][kept - 1] if kept else 0)
    shared.append({key: {name: column[kept:] for name, column in history.items()}})
    assert same(shared.history(key), whole)


def test_measures_that_a_round_lacks_are_nan(store):
    """Parts may have different measures; a gap is NaN, and the final value looks past it."""
    key = begun(store)
    store.append({key: {"round": [0, 1], "loss": [3.0, 2.0]}})
    store.append({key: {"round": [4], "accuracy": [0.5], "bias": [np.nan]}})
    store.append({key: {"round": [6], "loss": [1.0]}})
    history = store.history(key)
    assert history["round"].tolist() == [0, 1, 4, 6]
    np.testing.assert_array_equal(history["loss"], [3, 2, np.nan, 1])
    np.testing.assert_array_equal(history["accuracy"], [np.nan, np.nan, 0.5, np.nan])
    final = store.final(key)
    assert (final["loss"], final["accuracy"]) == (1.0, 0.5)
    assert np.isnan(final["bias"])


def test_histories_agree_with_each_history(store):
    """Reading all histories at once gives what reading each one gives."""
    keys = [begun(store, seed=seed) for seed in range(3)]
    store.append({key: {"round": [i], "loss": [i / 3]} for i, key in enumerate(keys[:2])})
    together = store.histories()
    assert [run for run, _ in together] == store.runs()
    assert all(same(history, store.history(run.key)) for run, history in together)
    assert together[2][1]["round"].shape == (0,)


def test_chosen_runs_are_what_they_are_among_all(store):
    """Histories, last values and endings of some keys; unknown keys have none."""
    keys = [begun(store, seed=seed) for seed in range(4)]
    store.append({key: {"round": [0, i + 1], "loss": [9, i / 3]} for i, key in enumerate(keys[:3])})
    store.finish(keys[1], "finished", wall_seconds=1.0)
    store.finish(keys[2], "diverged", wall_seconds=1.0)
    chosen = [keys[3], keys[1], "another"]
    found = store.histories(chosen)
    assert [run for run, _ in found] == [store.run(keys[1]), store.run(keys[3])]
    assert all(same(history, store.history(run.key)) for run, history in found)
    assert store.finals(chosen) == {keys[1]: store.final(keys[1])}
    assert store.finished(chosen) == {keys[1]}
    assert store.histories([]) == []


def test_runs_begun_together_are_runs_begun_one_by_one(store):
    experiments = {fresh_key(): Experiment(seed=seed) for seed in range(3)}
    store.begin(experiments, **FACTS)
    found = {run.key: run for run in store.runs()}
    assert {key: run.experiment for key, run in found.items()} == experiments
    for key, run in found.items():
        assert {name: getattr(run, name) for name in FACTS} == FACTS, key
        assert run.status == "running"


BROKEN = {
    "a round again": {"round": [4], "loss": [1.0]},
    "an earlier round": {"round": [2, 9], "loss": [1.0, 1.0]},
    "falling rounds": {"round": [9, 8], "loss": [1.0, 1.0]},
    "a round twice": {"round": [9, 9], "loss": [1.0, 1.0]},
    "half a round": {"round": [9.5], "loss": [1.0]},
    "a negative round": {"round": [-1], "loss": [1.0]},
    "a round that is not a number": {"round": [np.nan], "loss": [1.0]},
    "an endless round": {"round": [np.inf], "loss": [1.0]},
    "no rounds": {"loss": [1.0]},
    "columns of two lengths": {"round": [9, 10], "loss": [1.0]},
    "text": {"round": [9], "loss": ["low"]},
    "columns of lists": {"round": [[9]], "loss": [[1.0]]},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_failing_append_leaves_nothing(store, broken):
    """If one lane's part is refused, no lane's part is recorded."""
    good, bad = begun(store), begun(store)
    store.append({key: {"round": [3, 4], "loss": [2.0, 1.0]} for key in (good, bad)})
    before = store.histories()
    with pytest.raises(RecordsError, match=bad) as error:
        store.append({good: {"round": [5], "loss": [0.0]}, bad: broken})
    assert "\n" not in str(error.value)
    assert all(same(old, new) for (_, old), (_, new) in zip(before, store.histories(), strict=True))


def test_an_error_in_a_transaction_undoes_all_of_it(store):
    """A transaction that fails leaves neither runs nor rounds."""

    def interrupted():
        with store.transaction():
            store.append({begun(store): {"round": [0], "loss": [1.0]}})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.runs() == []
    key = begun(store)
    assert store.run(key).rounds_done == 0


# Runs


def test_a_run_returns_as_it_was_begun(store, tmp_path, monkeypatch):
    """Experiment and facts come back equal, with the same content key."""
    (tmp_path / "pools.py").write_text("def pool(*, targets): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    experiment = Experiment.parse(
        {
            "name": "three islands",
            "seed": 2**70,
            "network": {"devices": 6, "components": [1, 2, 3]},
            "model": {"name": "pools:pool", "targets": [[1.0, 2.0]] * 6},
            "server": {"sampled": 3},
            "evaluate": {"measures": ["own_accuracy", "consensus"]},
        }
    )
    store.begin({"k": experiment}, **FACTS)
    assert store.run("k").experiment == experiment
    with Store.read(tmp_path) as another:
        run = another.run("k")
    assert run.experiment == experiment
    assert run.experiment.key() == experiment.key()
    assert run.experiment.to_toml() == experiment.to_toml()
    assert run.experiment.network.sizes == (1, 2, 3)
    assert hash(run.experiment.network) == hash(experiment.network)
    assert (run.name, run.status, run.rounds_done, run.note) == ("three islands", "running", 0, "")
    facts = {name: getattr(run, name) for name in FACTS}
    source = {"source of model.name": experiment.sources()["model.name"]}
    assert facts == FACTS | {"versions": FACTS["versions"] | source}
    assert (run.finished, run.wall_seconds) == (None, None)
    assert datetime.fromisoformat(run.started).utcoffset() == timedelta(0)
    assert store.run("another") is None


def test_reading_a_run_imports_nothing_it_names(store, tmp_path, monkeypatch):
    """A user's modules need not be present, and are not executed, to read what they computed."""
    (tmp_path / "islands.py").write_text("def archipelago(size): ...\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        key = begun(store, network={"topology": "islands:archipelago"})
    monkeypatch.delitem(sys.modules, "islands")
    with Store.read(tmp_path) as another:
        assert another.run(key).experiment.network.topology == "islands:archipelago"
    assert "islands" not in sys.modules


def test_an_interrupted_run_goes_on(store):
    """Beginning again keeps the start and the history of a run that has not come to its end."""
    key = begun(store)
    store.append({key: {"round": [0, 1], "loss": [2.0, 1.0]}})
    started = store.run(key).started
    store.finish(key, "failed", wall_seconds=1.0, note="out of memory")
    assert (store.run(key).status, store.run(key).note) == ("failed", "out of memory")
    assert store.finished([key]) == set()
    store.begin({key: Experiment()}, **FACTS | {"device": "cuda"})
    run = store.run(key)
    assert (run.status, run.device, run.note, run.finished) == ("running", "cuda", "", None)
    assert (run.started, run.rounds_done) == (started, 1)


@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_a_completed_run_does_not_change(store, status):
    """What is finished or diverged is neither begun again, nor added to, nor rewound."""
    key = begun(store)
    store.append({key: {"round": [0], "loss": [2.0]}})
    store.finish(key, status, wall_seconds=1.5)
    before = store.run(key)
    assert (before.status, before.wall_seconds) == (status, 1.5)
    assert datetime.fromisoformat(before.finished) >= datetime.fromisoformat(before.started)
    begun(store, key)
    with pytest.raises(RecordsError, match="Forget the run"):
        store.append({key: {"round": [1], "loss": [1.0]}})
    with pytest.raises(RecordsError, match="Forget the run"):
        store.rewind([key], 0)
    assert store.run(key) == before
    assert store.finished([key, "another"]) == {key}


def test_a_completed_run_keeps_the_experiment_that_it_was(store):
    """A later one with the same key may have another name, which is not recorded."""
    key = begun(store, name="first")
    store.finish(key, "finished", wall_seconds=1.0)
    begun(store, key, name="second")
    assert (store.run(key).name, store.run(key).experiment.name) == ("first", "first")


def test_a_forgotten_run_is_gone_with_its_history(store):
    """Forgetting removes the run and every part, and touches no other run."""
    keys = [begun(store), begun(store)]
    store.append({key: {"round": [0], "loss": [2.0]} for key in keys})
    store.forget([keys[0], "another"])
    assert [run.key for run in store.runs()] == keys[1:]
    begun(store, keys[0])
    assert store.history(keys[0])["round"].size == 0
    assert store.history(keys[1])["round"].size == 1


def test_unknown_runs_and_endings_are_refused(store):
    """A run must be begun before anything is recorded or read of it."""
    for act in (
        lambda: store.append({"k": {"round": [0], "loss": [1.0]}}),
        lambda: store.rewind(["k"], 3),
        lambda: store.finish("k", "finished", wall_seconds=1.0),
        lambda: store.history("k"),
        lambda: store.final("k"),
    ):
        with pytest.raises(RecordsError, match="no run k in"):
            act()
    with pytest.raises(RecordsError, match="cannot finish as running"):
        store.finish(begun(store), "running", wall_seconds=1.0)


@pytest.mark.parametrize(
    "text",
    ["'; DROP TABLE runs; --", 'a"b\\c', "%s ? :key", "Ærø 群島 🏝", "\ud800", "x" * 100_000, ""],
    ids=["sql", "quotes", "placeholders", "unicode", "surrogate", "long", "empty"],
)
def test_any_text_is_only_text(store, text):
    """Names, notes, materials and measures may hold anything."""
    store.begin({"k": Experiment(name=text)}, **FACTS | {"materials": {text: text}})
    store.append({"k": {"round": [0], text: [1.5]}})
    store.finish("k", "failed", wall_seconds=0.0, note=text)
    with Store.read(store.path) as another:
        run = another.run("k")
    assert (run.name, run.materials) == (text, {text: text})
    assert run.note == text.encode("utf-8", "backslashreplace").decode()
    assert store.final("k") == {text: 1.5}


@pytest.mark.parametrize("folder", ["a b?c#d%20e", "群島", "'quoted'", "deep/er/still"])
def test_a_folder_may_have_any_name(tmp_path, folder):
    """A store is where its folder says, under any name."""
    with Store.open(tmp_path / folder) as store:
        key = begun(store)
    assert (tmp_path / folder / "skerry.sqlite").is_file()
    for where in (tmp_path / folder, tmp_path / folder / "skerry.sqlite"):
        with Store.read(where) as store:
            assert [run.key for run in store.runs()] == [key]


def test_a_store_is_compact(tmp_path):
    """9,600 runs of 100 rounds and 20 measures take under 250 MB, even if they were all noise."""
    rng = np.random.default_rng(0)
    keys = [f"{i:016x}" for i in range(40)]
    names = [f"disagreement_{i:02}_before" for i in range(20)]
    with Store.open(tmp_path) as store:
        with store.transaction():
            for seed, key in enumerate(keys):
                store.begin({key: Experiment(seed=seed)}, **FACTS | {"versions": versions()})
        for start in range(0, 100, 10):
            rounds = range(start, start + 10)
            parts = {key: {name: rng.standard_normal(10) for name in names} for key in keys}
            store.append({key: {"round": rounds, **part} for key, part in parts.items()})
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size / len(keys) * 9600 < 250e6


def test_versions_are_told_without_importing(tmp_path):
    """The versions name what matters, and asking for them loads neither torch nor pandas."""
    script = (
        "import sys, json; from skerry.records import checkpoint, store; "
        "from skerry.analysis import frame; "
        "told = store.versions(); heavy = {'torch', 'pandas', 'safetensors'} & set(sys.modules); "
        "print(json.dumps([told, sorted(heavy)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    told, heavy = json.loads(done.stdout)
    assert set(told) == {"python", "skerry", "torch", "numpy", "platform"}
    assert told["numpy"] == np.__version__
    assert heavy == []


def test_the_schema_forbids_parts_without_a_run(store):
    """Foreign keys are enforced."""
    with pytest.raises(sqlite3.IntegrityError):
        store._db.execute("INSERT INTO parts VALUES (1, 99, 0, 0, 1, x'')")


def test_reading_changes_nothing(tmp_path):
    """A store opened to look only refuses to record."""
    with Store.open(tmp_path) as store:
        key = begun(store)
    with Store.read(Path(tmp_path)) as store:
        with pytest.raises(RecordsError, match="may only be read"):
            store.finish(key, "finished", wall_seconds=1.0)
        assert store.run(key).status == "running"
