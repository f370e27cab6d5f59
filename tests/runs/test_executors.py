"""Where a sweep is computed makes no difference to what comes of it."""

import builtins
import socket
import subprocess
import sys

import numpy as np
import pytest

from command_line import environment
from conftest import small
from skerry.engine.world import Materials
from skerry.errors import RecordsError, SkerryError
from skerry.plugins import registry
from skerry.records.store import Store
from skerry.runs import driver
from skerry.runs.executors.here import Here
from skerry.runs.executors.ray import OnRay
from skerry.runs.progress import Progress
from skerry.runs.run import run
from skerry.runs.sweep import Sweep
from sweep_plugins import Counting

SLOW = {"ray": pytest.mark.slow}
ON_WORKERS = [
    pytest.param(name, marks=SLOW.get(name, ()))
    for name in registry.KINDS["executor"]
    if name != "here"
]


def grid(*settings, seeds=2, **axes):
    fields = {name.replace("__", "."): values for name, values in axes.items()}
    return Sweep(experiment=small(*settings), axes=fields, seeds=seeds)


def finals(results):
    """What was measured, by what tells the runs apart."""
    return {
        (lane.experiment.seed, lane.label, lane.experiment.server.period): lane.final
        for lane in results
    }


def assert_alike(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, final in ours.items():
        assert final.keys() == theirs[key].keys()
        for measure, value in final.items():
            np.testing.assert_allclose(value, theirs[key][measure], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("executor", ON_WORKERS)
def test_the_same_numbers_everywhere(executor, tmp_path):
    """Workers build worlds of their own, stacks are cut otherwise: only rounding may differ. A
    model of the user's own is found by workers too."""
    pytest.importorskip("ray") if executor == "ray" else None
    asked = grid(
        "model.name=sweep_plugins:watched",
        f"model.log={tmp_path / 'log'}",
        server__primitive=["s2s", "s2a", "blend"],
        server__period=[2, 3],
    )
    here = run(asked, out=tmp_path / "here", device="cpu")
    there = run(asked, out=tmp_path / executor, executor=executor, workers=2, device="cpu")
    assert {lane.status for lane in there} == {"finished"}
    assert [lane.key for lane in there] == [lane.key for lane in here]
    assert_alike(finals(there), finals(here))
    assert len(set((tmp_path / "log").read_text().split())) > 1, "nothing was computed elsewhere"
    assert [path.name for path in (tmp_path / executor).iterdir()] == ["skerry.sqlite"]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_lane_that_fails_does_not_stop_the_others(workers, tmp_path):
    """It is recorded as failed, with the reason; the next start tries it again."""
    asked = grid(server__primitive=["s2s", "sweep_plugins:broken", "s2a"], server__period=[2, 3])
    for _ in range(2):
        results = run(asked, out=tmp_path, workers=workers)
        failed = [lane for lane in results if lane.status == "failed"]
        assert {lane.experiment.server.label for lane in failed} == {"sweep_plugins:broken"}
        assert len(failed) == 4
        assert all("this primitive is broken" in lane.note for lane in failed)
        assert sum(lane.status == "finished" for lane in results) == 8
    sound = run(grid(server__primitive=["s2s", "s2a"], server__period=[2, 3]))
    assert_alike(finals(results.of("s2s")), finals(sound.of("s2s")))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_world_that_fails_does_not_stop_the_others(workers, tmp_path):
    """Also where it comes first."""
    asked = grid(
        model__name=["sweep_plugins:no_model", "linear"],
        server__primitive=["s2s", "s2a"],
        seeds=1,
    )
    results = run(asked, out=tmp_path, workers=workers)
    assert [lane.status for lane in results] == ["failed", "failed", "finished", "finished"]
    assert "there is no such model" in results[0].note


def test_where_nothing_can_run_nothing_is_written(tmp_path):
    asked = grid("model.name=sweep_plugins:no_model", server__period=[2, 3])
    with pytest.raises(SkerryError, match="there is no such model"):
        run(asked, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_stack_that_takes_its_workers_along_is_given_up(tmp_path, monkeypatch):
    """The lane that does it is found by halving; the others come to their end."""
    monkeypatch.setattr(driver, "ATTEMPTS", 1)
    asked = grid(server__primitive=["s2s", "sweep_plugins:deadly"], seeds=1)
    results = run(asked, out=tmp_path, executor="processes", workers=1)
    assert [lane.status for lane in results] == ["finished", "failed"]
    assert results[1].note == "its worker ended (exit code 9)"


def test_what_is_finished_is_not_computed_again_unless_asked(tmp_path):
    class Counter(Progress):
        def __init__(self):
            self.begun, self.found = 0, 0

        def stack_begun(self, job):
            self.begun += len(job)

        def found_finished(self, experiments):
            self.found += len(experiments)

    counts = []
    for again in (False, False, True):
        watcher = Counter()
        run(grid(server__period=[2, 3]), out=tmp_path, again=again, progress=watcher)
        counts.append((watcher.begun, watcher.found))
    assert counts == [(4, 0), (0, 4), (4, 0)]


def test_a_larger_grid_computes_only_what_is_new(tmp_path):
    run(grid(server__period=[2, 3]), out=tmp_path)
    with Store.read(tmp_path) as store:
        before = {run.key: run.started for run in store.runs()}
    run(grid(server__period=[2, 3, 4], seeds=3), out=tmp_path)
    with Store.read(tmp_path) as store:
        after = {run.key: run.started for run in store.runs()}
    assert len(after) == 9
    assert {key: after[key] for key in before} == before


def test_an_executor_of_ones_own(tmp_path):
    """Named like any plug-in, made with the options of the command line."""
    asked = grid(server__period=[2, 3])
    results = run(asked, out=tmp_path, executor="sweep_plugins:Counting")
    assert [lane.status for lane in results] == ["finished"] * 4
    assert Counting.surveys > 0


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"executor": "rya"}, "unknown executor 'rya'; did you mean 'ray'?"),
        ({"executor": "here", "workers": 2}, "executor 'here' is this process alone."),
        ({"executor": "processes", "ray_address": "auto"}, "executor 'processes' has no address."),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"executor": Here()}, "executor takes a name or a class, of which Skerry makes the"),
    ],
)
def test_a_wrong_executor_is_told_before_anything_is_written(options, line, tmp_path):
    with pytest.raises(SkerryError) as caught:
        run(grid(server__period=[2]), out=tmp_path / "out", **options)
    assert str(caught.value).startswith(line)
    assert not (tmp_path / "out").exists()


class Refusing(Here):
    def submit(self, job):
        raise OSError("no cluster")


class Losing(Here):
    def submit(self, job):
        pass


@pytest.mark.parametrize(
    ("executor", "line"),
    [
        (Refusing, r"executor 'Refusing' failed \(OSError: no cluster\)\."),
        (Losing, "executor 'Losing' has lost a job"),
    ],
)
def test_an_executor_that_does_not_start_its_job_is_told(executor, line, tmp_path):
    """Instead of a raw error, or of waiting for ever."""
    with pytest.raises(SkerryError, match=line):
        run(grid(server__period=[2]), out=tmp_path, executor=executor)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RecordsError, match="cannot make the folder"):
        run(grid(server__period=[2]), out=tmp_path / "file" / "out")


def test_a_missing_ray_is_told(monkeypatch, tmp_path):
    original = builtins.__import__

    def without_ray(name, *rest):
        if name.partition(".")[0] == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(SkerryError, match=r"Install it: pip install 'skerry\[ray\]'"):
        run(grid(server__period=[2]), out=tmp_path / "out", executor="ray")
    assert not (tmp_path / "out").exists()


def nobodys_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("127.0.0.1:{nobodys_port}", "ConnectionRefusedError"),
        ("nowhere", "an address reads host:port"),
        ("127.0.0.1:port", "'port' is no port"),
        ("ray://127.0.0.1:10001", "a ray:// address is a client's"),
    ],
)
def test_a_wrong_ray_address_is_told(address, line, tmp_path):
    pytest.importorskip("ray")
    address = address.format(nobodys_port=nobodys_port())
    with pytest.raises(SkerryError, match=r"no Ray cluster can be used at .*`ray_address` out"):
        run(grid(server__period=[2]), out=tmp_path / "out", ray_address=address)
    assert not (tmp_path / "out").exists()
    with pytest.raises(SkerryError, match=line), OnRay(address=address):
        pass


def test_histories_reach_the_driver_bit_for_bit(tmp_path):
    """A run has the same bits, computed here or by a worker that sends its results."""
    asked, out = grid(server__primitive=["s2s", "s2a"], seeds=1), tmp_path / "out"
    alone = run(asked, out=tmp_path / "here", device="cpu", deterministic=True)
    there = run(asked, out=out, executor="processes", workers=1, deterministic=True)
    for ours, theirs in zip(alone, there, strict=True):
        assert ours.history.keys() == theirs.history.keys()
        for name, values in ours.history.items():
            assert np.array_equal(theirs.history[name], values, equal_nan=True), name


def test_materials_from_python_stay_in_this_process():
    """They cannot be written down, so only the executor `here` takes them."""
    with Here(materials=Materials(model=lambda: None)) as here, pytest.raises(SkerryError):
        here.survey(small())


LISTENING = """
import os
from pathlib import Path

from skerry.runs.executors.ray import OnRay


def is_ours(pid):
    while pid > 1 and pid != os.getpid():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()


def sockets():
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if is_ours(int(process.name)):
                yield from (os.readlink(file) for file in (process / "fd").iterdir())
        except OSError:  # it has ended
            pass


with OnRay(device="cpu", workers=1):
    ours = set(sockets())
    lines = [line.split() for name in ("tcp", "tcp6")
             for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    print(*(line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in ours))
"""


@pytest.mark.slow
def test_a_local_ray_listens_on_loopback_alone():
    """Ray runs whatever code reaches its ports: they must not be open to the network. Counted are
    the ports of its own processes: other tests may have opened some in the meantime."""
    pytest.importorskip("ray")
    found = subprocess.run(
        [sys.executable, "-c", LISTENING], capture_output=True, text=True, check=True, timeout=600
    )
    addresses = [place.partition(":")[0] for place in found.stdout.split()]
    assert addresses
    assert {address[-8:] for address in addresses} == {"0100007F"}  # 127.0.0.1, also within ::ffff


RAY_CHILD = """
import os, sys
from skerry.runs.executors.ray import OnRay
with OnRay(device="cpu", workers=1):
    import ray
    print(ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_TOKEN"], flush=True)
    sys.stdin.readline()
"""


VISITOR = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, timeout=30)
"""


@pytest.mark.slow
def test_a_local_ray_asks_for_its_token():
    """Whoever else is on this machine and finds the port, is refused."""
    pytest.importorskip("ray")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", RAY_CHILD], env=environment(), **pipes) as ours:
        address, token = ours.stdout.readline().split()
        assert address.startswith("127.0.0.1:")
        told = {
            name: subprocess.run(
                [sys.executable, "-c", VISITOR, address],
                env={**environment(), **more},
                capture_output=True,
                text=True,
                check=False,
            )
            for name, more in {
                "who knows it": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token},
                "who guesses": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64},
                "who has none": {"RAY_AUTH_MODE": "disabled"},
            }.items()
        }
        ours.communicate("\n")
    assert told.pop("who knows it").returncode == 0
    for visitor in told.values():
        assert visitor.returncode != 0
        assert "token" in visitor.stderr
