"""Trackers are told what is recorded; each writes through its real library, without a network."""

import socket
import struct
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import skerry
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.records.store import Store
from skerry.runs.progress import Progress
from skerry.runs.stack_run import report_recorded
from skerry.runs.tracking import TrackerProgress, open_trackers


class Notes:
    """A tracker of one's own: it keeps what it is told."""

    def __init__(self, folder=None):
        self.folder, self.rounds, self.over, self.closed = folder, {}, {}, 0

    def rows(self, run, columns):
        self.rounds.setdefault(run.key, []).extend(columns["round"])

    def finish(self, run, status, final):
        self.over[run.key] = (run.experiment.seed, status, final)

    def close(self):
        self.closed += 1


class Broken(Notes):
    def rows(self, run, columns):
        raise OSError("no space left")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Only sockets of this machine's own files may be used; wandb talks to its helper by one."""
    connect = socket.socket.connect

    def guarded(self, address):
        assert self.family == socket.AF_UNIX, f"a tracker called {address}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    for name in ("WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def test_trackers_are_told_what_is_recorded(small, tmp_path):
    notes = Notes()
    results = skerry.run(small(), compare=["s2s", "s2a"], seeds=2, out=tmp_path, trackers=[notes])
    assert notes.rounds == {lane.key: list(range(8)) for lane in results}
    assert notes.over == {
        lane.key: (lane.experiment.seed, "finished", lane.final) for lane in results
    }
    assert notes.closed == 1


def test_finished_runs_are_not_told_again(small, tmp_path):
    skerry.run(small(), out=tmp_path)
    notes = Notes()
    skerry.run(small(), out=tmp_path, trackers=[notes])
    assert (notes.rounds, notes.closed) == ({}, 1)


def test_a_tracker_that_fails_does_not_stop_the_runs(small, tmp_path):
    notes = Notes()
    with pytest.warns(UserWarning, match=r"tracker Broken failed .*no space left.* are complete"):
        results = skerry.run(small(), out=tmp_path, trackers=[Broken(), notes])
    assert results[0].status == "finished"
    assert notes.rounds[results[0].key] == list(range(8))


def test_trackers_are_closed_when_runs_are_stopped(small, tmp_path):
    class Interrupt(Progress):
        def tick(self, job, tick):
            raise KeyboardInterrupt

    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        skerry.run(small(), out=tmp_path, trackers=[notes], progress=Interrupt())
    assert notes.closed == 1


def test_workers_results_reach_trackers(small, tmp_path):
    """Also where the store that trackers hear of is not the one a worker writes."""
    notes = Notes()
    (lane,) = skerry.run(small(), out=tmp_path, trackers=[notes], executor="processes", workers=1)
    assert notes.rounds == {lane.key: list(range(8))}
    assert notes.over == {lane.key: (0, "finished", lane.final)}


def test_a_tracker_of_ones_own_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "my_trackers", SimpleNamespace(Notes=Notes))
    (tracker,) = open_trackers(["my_trackers:Notes"], tmp_path)
    assert tracker.folder == tmp_path


def test_mistakes_are_told_before_anything_runs(small, tmp_path):
    for trackers, out, message in (
        (["tensorbord"], tmp_path / "new", "did you mean 'tensorboard'"),
        (["tensorboard"], None, "trackers write beside the records"),
    ):
        with pytest.raises(SkerryError, match=message):
            skerry.run(small(), out=out, trackers=trackers)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("tensorboard", "torch.utils.tensorboard"),
        ("mlflow", "mlflow"),
        ("mlflow", "sqlalchemy"),
        ("wandb", "wandb"),
    ],
)
def test_a_missing_library_says_what_to_install(name, module, tmp_path, monkeypatch):
    for needed in ("sqlalchemy", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, needed, sys.modules.get(needed, SimpleNamespace()))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SkerryError, match=rf"tracker '{name}' needs .*'skerry\[{name}\]'"):
        open_trackers([name], tmp_path)


# The real libraries


@contextmanager
def tracked_store(name, folder):
    progress = TrackerProgress(open_trackers([name], folder))
    with Store.open(folder) as store:
        yield store, progress
    progress.close()


def tell_in_two_parts(tracker, experiment, folder, again_from=2):
    """A run of four rounds that is stopped after round 2 and resumes from a checkpoint."""
    key = experiment.key()
    with tracked_store(tracker, folder) as (store, progress):
        facts = {"materials": {}, "world": "", "device": "cpu", "versions": {}}
        store.begin({key: experiment}, **facts)
        part = {key: {"round": [0, 1, 2], "bias": [0.5, float("nan"), 9.0]}}
        store.append(part)
        report_recorded(store, progress, part, [])
    with tracked_store(tracker, folder) as (store, progress):
        store.rewind([key], again_from - 1)
        part = {key: {"round": [2, 3, 4], "bias": [0.25, 0.125, 0.0625]}}
        store.append(part)
        store.finish(key, "finished", wall_seconds=1.0)
        report_recorded(store, progress, part, [key])
    return key


@pytest.mark.parametrize("name", registry.KINDS["tracker"])
def test_a_real_run_is_tracked(name, small, tmp_path, monkeypatch):
    """Everything is written beside the records, nothing where the command was given."""
    pytest.importorskip(name)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    skerry.run(small(), compare=["s2s", "s2a"], out=tmp_path / "out", trackers=[name])
    assert (tmp_path / "out" / {"mlflow": "mlflow.db"}.get(name, name)).exists()
    assert not list(here.iterdir())


def test_tensorboard_shows_each_round_once(small, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tell_in_two_parts("tensorboard", small(), tmp_path)
    (folder,) = (tmp_path / "tensorboard").iterdir()
    assert folder.name.startswith("s2s-seed-0-")
    events = accumulator.EventAccumulator(str(folder)).Reload()
    shown = [(event.step, event.value) for event in events.Scalars("bias")]
    assert shown == [(0, 0.5), (2, 0.25), (3, 0.125), (4, 0.0625)]
    assert [event.value for event in events.Scalars("final/bias")] == [0.0625]
    assert "_hparams_/session_start_info" in events.summary_metadata
    text = events.Tensors("experiment/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "period = 3" in text


def test_mlflow_keeps_one_run_per_key(small, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    key = tell_in_two_parts("mlflow", small(), tmp_path)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(small().name)
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.tags["skerry.key"] == key
    assert run.data.params["server.period"] == "3"
    history = {
        point.step: point.value for point in client.get_metric_history(run.info.run_id, "bias")
    }
    assert history[4] == 0.0625
    assert set(history) == {0, 2, 3, 4}
    with Store.open(tmp_path) as store:
        store.forget([key])  # as `again` does
    tell_in_two_parts("mlflow", small(), tmp_path)
    (newer,) = client.search_runs([experiment.experiment_id])
    assert newer.info.run_id != run.info.run_id


def log_records(content):
    """The records of a LevelDB log behind W&B's header of seven bytes: blocks of 32 KiB, in them
    checksum (4 bytes), length (2), kind (1: whole, 2: first, 3: middle, 4: last), data."""
    place, parts = 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


def test_wandb_writes_offline_runs(small, tmp_path):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    key = tell_in_two_parts("wandb", small(), tmp_path)
    told, summary, config = {}, {}, {}
    for file in sorted(tmp_path.glob(f"wandb/offline-run-*/run-{key}.wandb")):
        for content in log_records(file.read_bytes()):
            record = Record.FromString(content)
            if record.HasField("run"):
                config |= {item.key: item.value_json for item in record.run.config.update}
            values = {"/".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
            if "bias" in values:
                told[int(values["_step"])] = float(values["bias"])
            summary |= {item.key: item.value_json for item in record.summary.update}
    assert told == {0: 0.5, 2: 0.25, 3: 0.125, 4: 0.0625}
    assert summary["status"] == '"finished"'
    assert '"period":3' in config["server"].replace(" ", "")
