"""Ranks as a user starts them: recorded once, resumed on any number of them, ended as one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from command_line import SCRIPT, environment
from gloo_ranks import forked
from recorded_runs import PlugPulledError, assert_same, histories, lanes_of, record
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError, SkerryWarning
from skerry.records import checkpoint
from skerry.records.store import Store
from skerry.runs.executors.ranks import follow_first_rank, refuse_on_ranks, to_table
from skerry.runs.forecast import plan_ranks
from skerry.runs.stack_run import run_lanes
from thread_ranks import build, together


def record_on(ranks, folder, experiments, stop_after=None):
    """As `record`, on several ranks."""

    def work(wire):
        world_of = partial(build, exchange=wire)
        if wire.rank:
            follow_first_rank(wire, world_of)
            return
        with Store.open(folder) as store:
            world = world_of(experiments[0])
            keys = [world.key(experiment) for experiment in experiments]
            world.ranks.broadcast(
                do="take", experiments=[to_table(e) for e in experiments], keys=keys
            )
            for tick in run_lanes(world, experiments, store, folder / "checkpoints", 0):
                if stop_after is not None and tick.round > stop_after:
                    raise PlugPulledError
            world.ranks.broadcast(do="end")

    together(ranks, work)
    return histories(folder)


def nearly(found, expected):
    """The same runs, up to rounding."""
    assert found.keys() == expected.keys()
    for key, (status, rounds, table) in found.items():
        assert (status, rounds) == expected[key][:2]
        other = expected[key][2]
        assert table.keys() == other.keys()
        for name in table:
            assert np.allclose(table[name], other[name], rtol=1e-3, atol=1e-5, equal_nan=True), name


def test_records_of_ranks_are_those_of_one_process(small, tmp_path):
    """One row for each round, whoever computed it."""
    lanes = lanes_of(small("network.components=3"))
    nearly(record_on(3, tmp_path / "ranks", lanes), record(tmp_path / "alone", lanes))


def test_ranks_stop_where_one_process_stops(small, tmp_path):
    """The first rank decides for all, also after a kill; the devices of a lane that ends are scored
    by all ranks."""
    s2s, s2a, other = lanes_of(small("evaluate.devices_every=4"))
    whole = record(tmp_path / "whole", [s2s, s2a])
    losses = [history["average_loss"] for *_, history in whole.values()]
    rules = [f"average_loss < {one[:4].min() + 1e-3}" for one in losses]
    lanes = [one.replace(stop=rule) for one, rule in zip((s2s, s2a), rules, strict=True)]
    alone = record(tmp_path / "alone", [*lanes, other])
    assert {rounds for _, rounds, _ in alone.values()} > {7}
    nearly(record_on(2, tmp_path / "ranks", [*lanes, other]), alone)
    with pytest.raises(PlugPulledError):
        record_on(2, tmp_path / "parts", [*lanes, other], 2)
    with Store.open(tmp_path / "parts") as store:
        done = store.finished(alone)
    left = [one for one in [*lanes, other] if build_world(one).key(one) not in done]
    record_on(3, tmp_path / "parts", left)
    nearly(histories(tmp_path / "parts"), alone)


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3), (3, 1)])
def test_resumed_on_another_number_of_ranks(small, tmp_path, before, after):
    """To the bit, where islands stay whole: what a checkpoint holds belongs to no rank."""
    lanes = lanes_of(small("network.devices=18", "network.components=6", "data.inter=iid"))
    whole = record_on(2, tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record_on(before, tmp_path / "parts", lanes, 4)
    (folder,) = (tmp_path / "parts" / "checkpoints").glob("*.parts")
    assert len(list(folder.iterdir())) == before
    found = record_on(after, tmp_path / "parts", lanes)
    for _, _, table in (*found.values(), *whole.values()):
        del table["train_loss"]  # a mean of what ranks sum up each by itself
    assert_same(found, whole)
    assert list((tmp_path / "parts" / "checkpoints").iterdir()) == []


def test_from_one_process_to_ranks_and_back(small, tmp_path):
    lanes = lanes_of(small("network.components=1", "network.link_failure=0.2"))
    for how, stop_after in ((record, 2), (partial(record_on, 3), 4), (record, 5)):
        with pytest.raises(PlugPulledError):
            how(tmp_path / "parts", lanes, stop_after)
    nearly(record_on(2, tmp_path / "parts", lanes), record(tmp_path / "whole", lanes))


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_a_part_that_is_damaged_is_told_and_computed_again(small, tmp_path, damage):
    lanes = lanes_of(small("network.components=3"))
    with pytest.raises(PlugPulledError):
        record_on(3, tmp_path / "parts", lanes, 4)
    (part,) = (tmp_path / "parts" / "checkpoints").glob("*.parts/*-2of3.safetensors")
    if damage == "missing":
        part.unlink()
    else:
        content = bytearray(part.read_bytes())
        content[-9] ^= 4
        part.write_bytes(content)
    with pytest.warns(SkerryWarning, match="Computed again"):
        found = record_on(3, tmp_path / "parts", lanes)
    nearly(found, record(tmp_path / "whole", lanes))


def test_a_crash_between_parts_leaves_the_checkpoint_before(small, tmp_path, monkeypatch):
    """The checkpoint names its parts, and is replaced when all of them are there."""
    lanes = lanes_of(small("network.components=3"))
    save = checkpoint.save_checkpoint

    def crash(path, tensors, facts):
        if facts["round"] == 4 and "-1of" in str(path):
            raise PlugPulledError
        save(path, tensors, facts)

    monkeypatch.setattr(checkpoint, "save_checkpoint", crash)
    with pytest.raises(PlugPulledError):
        record_on(3, tmp_path / "parts", lanes)
    monkeypatch.undo()
    nearly(record_on(2, tmp_path / "parts", lanes), record(tmp_path / "whole", lanes))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["method.name=gradient_tracking"], "keeps more than a model"),
        (["training.sampling=good_plugins:FromThe"], "draws for all devices"),
        (
            ["server.primitive=good_plugins:pull", "server.strength=0.5"],
            "may look at the models of all",
        ),
        (["server.selection=importance"], "depends on the models of all"),
    ],
)
def test_what_is_not_divided_is_refused(small, settings, told):
    with pytest.raises(SkerryError, match=told):
        refuse_on_ranks([small(*settings)])


def listening():
    """The addresses on which this process listens, as the kernel writes them."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table]
    addresses = {f"socket:[{row[9]}]": row[1] for row in rows if row[3] == "0A"}
    own = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return [addresses[name].partition(":")[0] for name in own if name in addresses]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net")
def test_ranks_listen_on_loopback_alone():
    """Neither the store nor gloo can be reached from another machine."""
    first, second = forked(2, lambda exchange: listening())
    assert len(first) == len(second) + 1  # the store
    assert {*first, *second} == {"0100007F"}


def test_a_plan_tells_what_ranks_hold(small):
    plan = plan_ranks([small("network.components=3")], 3, "cpu")
    assert (plan.devices, plan.islands, plan.cut_islands) == ((4, 4, 4), (1, 1, 1), 0)
    assert plan.border_bytes == 0
    alone = plan_ranks([small("network.components=3", "method.name=gradient_tracking")])
    assert alone.devices == (12,)
    assert alone.rank_bytes > plan.rank_bytes
    assert alone.server_bytes == 0
    world = build_world(small())
    assert plan.server_bytes == 8 * world.learner.d
    cut = plan_ranks([small("network.components=1")], 2, "cpu")
    assert cut.cut_islands == 1
    assert cut.border_bytes == 2 * 4 * world.learner.d  # of a ring, the models at its two ends


# Real processes


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        ["network.components=[5, 4, 3]"],
        ["network.components=1", "network.dynamic=true"],
        ["network.components=2", "network.link_failure=0.3", "availability.awake=0.7"],
    ],
)
def test_gloo_carries_what_threads_do(small, settings):
    """Trajectories on one, two and three processes, beside those of one that is alone."""
    base = small(*settings)
    lanes = lanes_of(base)

    def models(exchange=None):
        stack = build_stack(build_world(base, exchange=exchange), lanes)
        *_, last = simulate(stack)
        return last.state.X_nld.numpy()

    alone = torch.from_numpy(models())
    for ranks in (1, 2, 3):
        found = torch.from_numpy(np.concatenate(forked(ranks, models)))
        assert torch.allclose(found, alone, rtol=1e-5, atol=1e-6)


EXPERIMENT = """
rounds = {rounds}
[network]
devices = 12
components = 3
[server]
primitive = "s2s"
sampled = 5
period = 2
selection = "rank_plugins:slow"
[training]
batch = 4
[data]
dataset = "synthetic"
samples = 240
test_samples = 60
features = 6
inter = "iid"
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(EXPERIMENT.format(rounds=60))
    return "mine.toml"


def start(*arguments, **variables):
    return subprocess.Popen(
        [str(SCRIPT), "run", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), **variables},
    )


def ended(process):
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def until(holds, seconds=600):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def finals(out):
    (lane,) = json.loads(out)["lanes"]
    return lane["key"], lane["final"]


@pytest.mark.slow
def test_a_rank_that_dies_ends_all_with_a_line_and_the_same_command_goes_on(file):
    """Whoever is killed is named; nobody waits for it. Then on ranks, and at last alone."""
    code, out, err = ended(start(file, "--out", "alone", "--json"))
    assert code == 0, err
    key, final = finals(out)
    code, _, err = ended(start(file, "--ranks", 3, "--out", "ranks", SKERRY_TEST_KILL="1"))
    assert code == 1
    assert err.splitlines()[-1] == (
        "error: rank 1 of 3 ended (signal 9). The same command resumes from the last checkpoint."
    )
    assert list(Path("ranks/checkpoints").glob("*.parts/*-0of3.safetensors"))
    stopped = start(file, "--ranks", 2, "--out", "ranks")
    until(lambda: list(Path("ranks/checkpoints").glob("*.parts/*of2.safetensors")))
    stopped.send_signal(signal.SIGINT)
    code, _, err = ended(stopped)
    assert (code, err.splitlines()[-1]) == (
        130,
        "Stopped. The same command continues from the last checkpoint.",
    )
    code, out, err = ended(start(file, "--out", "ranks", "--json"))
    assert code == 0, err
    assert finals(out) == (key, pytest.approx(final, rel=1e-3))


@pytest.mark.slow
def test_torchrun_starts_ranks_too(file):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--no-python",
    ]
    done = subprocess.run(
        [*command, str(SCRIPT), "run", file, "--json", "--set", "rounds=4"],
        capture_output=True,
        text=True,
        env=environment() | {"GLOO_SOCKET_IFNAME": "lo"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (lane,) = json.loads(done.stdout)["lanes"]  # the first rank alone speaks
    assert lane["status"] == "finished"
    with Store.read("runs") as store:
        (run,) = store.runs()
        assert run.versions["ranks"] == "2"


@pytest.mark.slow
def test_a_fault_of_all_ranks_is_told_once(file):
    code, out, err = ended(start(file, "--ranks", 2, "--set", "data.samples=6"))
    assert code == 2
    assert len(re.findall("error: ", err)) == 1
    assert not out
    assert not os.path.exists("runs")
