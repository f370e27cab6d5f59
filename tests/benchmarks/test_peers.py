"""The parts of benchmarks/peers that only compute: jobs, answers, ratios, agreement, table."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skerry.models.learner import Problem
from skerry.models.networks import cnn_cifar10

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
MODULES = (
    "contestants",
    "environments",
    "jobs",
    "networks",
    "peer_job",
    "process",
    "results",
    "run",
)


@pytest.fixture(scope="module")
def peers() -> Iterator[SimpleNamespace]:
    """The benchmark's modules, which are scripts beside each other and no package."""
    before = list(sys.path)
    sys.path[:0] = [str(PEERS), str(PEERS / "shared")]
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
    finally:
        sys.path[:] = before
        for name in MODULES:
            sys.modules.pop(name, None)


def figures(peers, rate, loss=1.0, memory=1e9):
    return peers.process.Measured(rate, 2.0, memory, loss, {"torch": "2.13.0"})


@pytest.fixture
def small_job(peers, tmp_path):
    job = replace(peers.jobs.JOBS["linear"], devices=3, samples=20, rounds=4)
    peers.jobs.write_job(job, tmp_path)
    return job, tmp_path


def test_job_survives_its_file(peers, small_job):
    """A job that is read back is the job that was written."""
    job, folder = small_job
    assert peers.peer_job.Job.load(folder) == job


def test_devices_have_their_samples(peers, small_job):
    """Every device has its own samples of the job's shape, and labels of the job's classes."""
    job, folder = small_job
    x, y = peers.peer_job.device_data(folder)
    assert x.shape == (3, 20, 784)
    assert x.dtype == np.float32
    assert y.shape == (3, 20)
    assert set(np.unique(y)) <= set(range(job.classes))
    assert not np.array_equal(x[0], x[1])


def test_data_are_the_same_every_time(peers, small_job, tmp_path_factory):
    """Two runs of the benchmark compare on the same data."""
    job, folder = small_job
    again = tmp_path_factory.mktemp("again")
    peers.jobs.write_job(job, again)
    for name in ("x.npy", "y.npy", "x_test.npy", "y_test.npy"):
        assert np.array_equal(np.load(folder / name), np.load(again / name))


def test_data_can_be_learnt(peers, small_job):
    """A model that points at the class means has a far lower loss than the initial one, so a loss
    tells how much work was done."""
    job, folder = small_job
    x, y = np.load(folder / "x_test.npy"), np.load(folder / "y_test.npy")
    means = np.stack([x[y == c].mean(axis=0) for c in range(job.classes)])
    np.savez(folder / "good.npz", **{"1.weight": means, "1.bias": -(means**2).sum(axis=1) / 2})
    assert peers.jobs.loss_of(folder, folder / "initial.npz") == pytest.approx(np.log(10), abs=1e-3)
    assert peers.jobs.loss_of(folder, folder / "good.npz") < 1


def test_images_have_patches(peers):
    """The class patterns of images are constant on patches."""
    job = peers.jobs.JOBS["cnn"]
    patterns = peers.jobs.patterns(job, np.random.default_rng(0))
    assert patterns.shape == (10, 3, 32, 32)
    assert np.ptp(patterns[:, :, :8, :8], axis=(2, 3)).max() == 0
    assert np.ptp(patterns[:, :, :9, :8], axis=(2, 3)).min() > 0


def test_cnn_is_skerrys(peers):
    """The peers' CNN is the network that Skerry calls cnn_cifar10, name by name."""
    theirs = peers.networks.cnn().state_dict()
    ours = cnn_cifar10(Problem((3, 32, 32), 10, seed=0)).state_dict()
    assert {k: v.shape for k, v in theirs.items()} == {k: v.shape for k, v in ours.items()}
    assert sum(v.numel() for v in theirs.values()) == 3_353_034


def answered(peers, folder, started=10.0, ended=12.0):
    np.savez(folder / "final.npz", **peers.peer_job.initial_model(folder))
    answer = {"started": started, "ended": ended, "versions": {"torch": "2.13.0"}}
    (folder / "answer.json").write_text(json.dumps(answer))


def test_answer_becomes_a_rate(peers, small_job):
    """Rate = lanes x devices x rounds / seconds on the clock; starting up is told apart."""
    _, folder = small_job
    answered(peers, folder)
    many = peers.contestants.skerry(24, ("linear",))
    found = peers.process.judged(many, folder, folder, launched=7.0, memory=None)
    assert found.device_steps_per_second == 24 * 3 * 4 / 2
    assert found.start_up == 3.0
    assert found.loss == pytest.approx(np.log(10), abs=1e-3)


def test_a_clock_that_never_ran_is_a_failure(peers, small_job):
    """An answer whose clock did not start and stop in this order is no measurement."""
    _, folder = small_job
    answered(peers, folder, started=10.0, ended=10.0)
    with pytest.raises(peers.process.FailedError):
        peers.process.judged(peers.contestants.PLAIN, folder, folder, 7.0, None)


def test_turn_hands_back_what_was_timed(peers, small_job):
    """What a contestant's stopwatch writes is what the runner reads."""
    _, folder = small_job
    turn = peers.peer_job.Turn(folder, folder, "average")
    turn.warm()
    turn.stop()
    turn.answer(peers.peer_job.initial_model(folder), packages=["numpy"])
    found = peers.process.judged(peers.contestants.PLAIN, folder, folder, 0.0, None)
    assert found.versions == {"numpy": np.__version__}
    assert found.device_steps_per_second > 0


def test_row_is_the_median_with_its_spread(peers):
    """A row gives the median rate with the lowest and highest, and the largest memory."""
    runs = [figures(peers, rate, memory=rate) for rate in (30.0, 10.0, 20.0)]
    row = peers.results.row([*runs[:2], replace(runs[2], memory=None)])
    assert (row.lowest, row.device_steps_per_second, row.highest) == (10.0, 20.0, 30.0)
    assert row.memory_bytes == 30.0


@pytest.fixture
def rows(peers):
    who = peers.contestants
    rates = {
        who.PLAIN: 100.0,
        who.Contestant("peer", "peer", ""): 50.0,
        who.skerry(1, ("linear",)): 300.0,
        who.skerry(24, ("linear",)): 1000.0,
        who.PLAIN_RING: 80.0,
        who.skerry(1, ("linear",), "ring"): 160.0,
    }
    return {c: peers.results.row([figures(peers, rate)]) for c, rate in rates.items()}


def test_ratios_compare_those_that_mix_alike(peers, rows):
    """A ratio's two sides both average through the server, or both mix on the ring."""
    by_name = {c.name: times for c, times in peers.results.ratios(rows).items()}
    assert by_name["peer"] == {
        "times_plain_loop": 0.5,
        "skerry_one_lane_is_times": 6.0,
        "skerry_best_is_times": 20.0,
    }
    ring = {"times_plain_loop": 2.0, "skerry_one_lane_is_times": 1.0}
    assert by_name["Skerry, 1 lane, ring"] == ring


@pytest.mark.parametrize(("loss", "stray"), [(1.04, False), (0.96, False), (1.2, True),
                                             (0.8, True), (float("nan"), True)])  # fmt: skip
def test_other_work_is_found_by_its_loss(peers, rows, loss, stray):
    """A loss off by more than a twentieth of the way that the plain loop came is other work."""
    peer = next(c for c in rows if c.name == "peer")
    rows[peer] = replace(rows[peer], loss=loss)
    assert (peer in peers.results.strays(rows, initial_loss=2.0)) == stray


def test_ring_has_its_own_reference(peers, rows):
    """Mixing on a ring reaches another loss than averaging does; it is compared with a ring."""
    for contestant in [c for c in rows if c.mixing == "ring"]:
        rows[contestant] = replace(rows[contestant], loss=1.5)
    assert not peers.results.strays(rows, initial_loss=2.0)


def test_table_shows_everyone_and_why_some_are_missing(peers, rows):
    """The table has a line for each contestant, and the reason of each that failed."""
    job = peers.jobs.JOBS["linear"]
    text = peers.results.table(job, rows, {"Flower": "could not be installed: no such release"})
    assert all(any(line.startswith(c.name) for line in text.splitlines()) for c in rows)
    assert "Flower: could not be installed: no such release" in text
    assert "1,000" in text
    assert max(map(len, text.splitlines())) <= 100


def test_table_without_any_row(peers):
    """If all fail, the table still says why."""
    text = peers.results.table(peers.jobs.JOBS["cnn"], {}, {"pfl": "failed: no answer"})
    assert text.endswith("pfl: failed: no answer")


def test_figures_can_be_kept_as_json(peers, rows):
    """What is saved survives JSON, with rates and ratios side by side."""
    found = peers.results.as_json(peers.jobs.JOBS["linear"], rows, {"x": "failed: y"}, 2.0)
    kept = json.loads(json.dumps(found))
    assert kept["rows"]["peer"]["times_plain_loop"] == 0.5
    assert kept["rows"]["peer"]["device_steps_per_second"] == 50.0
    assert kept["failures"] == {"x": "failed: y"}


def test_every_contestant_has_a_job_and_a_reference(peers):
    """Whoever takes part has a script, knows its jobs, and has a loop to be compared with."""
    for contestant in peers.contestants.CONTESTANTS:
        assert (PEERS / contestant.folder / "job.py").exists()
        assert set(contestant.jobs) <= set(peers.jobs.JOBS)
        reference = peers.contestants.REFERENCES[contestant.mixing]
        assert set(contestant.jobs) <= set(reference.jobs)


def test_requirements_are_exact(peers):
    """Every peer's packages are pinned to one release, PyTorch first where it is used."""
    found = sorted(PEERS.glob("*/requirements.txt"))
    assert [path.parent.name for path in found] == ["fedjax", "flower", "fluke", "pfl"]
    for path in found:
        pins = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert all(line.count("==") == 1 for line in pins)
        assert not any(line.startswith("torch==") for line in pins[1:])


def test_surroundings_are_quiet_and_at_home(peers, tmp_path, monkeypatch):
    """A contestant reports to nobody, keeps its files in its folder, and chooses its threads."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = peers.process.surroundings(tmp_path)
    assert found["FLWR_TELEMETRY_ENABLED"] == found["RAY_USAGE_STATS_ENABLED"] == "0"
    assert found["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert found["HOME"] == str(tmp_path)
    assert "OMP_NUM_THREADS" not in found


def test_last_error_is_the_telling_line(peers):
    """Of a long output, the line that names the error is kept, not the advice below it."""
    text = "Collecting x\nERROR: No matching distribution found for x\nhint: see above\n"
    assert peers.environments.last_error(text) == "ERROR: No matching distribution found for x"
    assert peers.environments.last_error("") == ""


@pytest.mark.parametrize("text", ["flower,flour", "5"])
def test_unknown_names_are_told(peers, text):
    """An unknown peer is refused with the list of those there are."""
    with pytest.raises(peers.run.argparse.ArgumentTypeError, match="Choose from plain"):
        peers.run.names_from(peers.contestants.PEERS)(text)


def test_a_failing_contestant_says_why(peers, small_job, tmp_path_factory):
    """A contestant that cannot run gives its last error, in one line."""
    _, folder = small_job
    scratch = tmp_path_factory.mktemp("own")
    ghost = peers.contestants.Contestant("ghost", "no-such-folder", "")
    with pytest.raises(peers.process.FailedError, match="no-such-folder"):
        peers.process.measure(ghost, Path(sys.executable), folder, scratch, limit=60)


def test_the_plain_loop_really_runs(peers, small_job, tmp_path_factory):
    """The plain loop runs as its own process, is timed, and lowers the loss."""
    _, folder = small_job
    scratch = tmp_path_factory.mktemp("own")
    found = peers.process.measure(
        peers.contestants.PLAIN, Path(sys.executable), folder, scratch, limit=120
    )
    assert found.device_steps_per_second > 0
    assert found.start_up > 0
    assert found.loss < peers.jobs.loss_of(folder, folder / "initial.npz")
