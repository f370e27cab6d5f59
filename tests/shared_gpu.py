"""Ranks that share one GPU, each a process: `python shared_gpu.py DEVICE RANKS FOLDER`.

NCCL wants a GPU for each rank. Where there is one only, a single rank speaks NCCL, and several send
through the host, by gloo: what they compute is the same, only the wire is another. The first rank
of each team leaves its models and measures in FOLDER; `all_teams` starts one team after the other.
"""

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch

import skerry
from skerry.config.experiment import Experiment
from skerry.engine.ranks.exchange import TorchCommunicator
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.measure.observer import Observer
from skerry.records.store import Store
from skerry.runs.executors.ranks import follow_first_rank, to_table
from skerry.runs.stack_run import run_lanes

TEAMS = (2, 3, 1)
"""The last one goes on from a checkpoint of the first."""
WHOLE = {
    "fixed": [],
    "dynamic": ["network.dynamic=true", "network.topology=regular", "network.degree=2"],
    "asleep": ["availability.awake=0.5"],
    "two local steps": ["training.local_steps=2", "network.gossip_steps=2"],
    "mlp": ["model.name=mlp", "model.hidden=[5]"],
}
CUT = {
    "cut": ["network.components=1"],
    "cut, failing links": ["network.components=1", "network.link_failure=0.3"],
}
WORLDS = WHOLE | CUT
STOP_AFTER = 4
SOURCES = Path(skerry.__file__).parents[1]
"""The very ones that are tested."""


def experiment(name):
    return Experiment.parse(
        {},
        [
            "network.devices=24", "network.components=6", "server.sampled=7", "server.period=2",
            "rounds=9", "training.batch=4", "data.dataset=synthetic", "data.samples=500",
            "data.test_samples=60", "data.features=6", "data.classes=4", "data.inter=iid",
            *WORLDS[name],
        ],
    )  # fmt: skip


def lanes_of(base):
    return [
        base.with_settings(f"server.primitive={primitive}", f"server.optimizer={optimizer}")
        for primitive in ("s2s", "s2a", "blend")
        for optimizer in ("fedavg", "fedavgm")
    ]


class ThroughTheHost(TorchCommunicator):
    """What is sent from a GPU and to it goes by way of the host."""

    def __init__(self):
        super().__init__(torch.device("cpu"))

    def add(self, tensor):
        self._on_the_host(super().add, tensor)

    def largest(self, tensor):
        self._on_the_host(super().largest, tensor)

    def gather(self, rows, counts):
        return super().gather(rows.cpu(), counts).to(rows.device)

    def swap(self, sends, receives):
        sent = {rank: tensor.cpu() for rank, tensor in sends.items()}
        received = {rank: tensor.cpu() for rank, tensor in receives.items()}
        super().swap(sent, received)
        for rank, tensor in received.items():
            receives[rank].copy_(tensor)

    def _on_the_host(self, exchange, tensor):
        host = tensor.cpu()
        exchange(host)
        tensor.copy_(host)


def trajectory(name, device, wire=None):
    """The models of our devices after every round, and what was measured in each."""
    base = experiment(name)
    stack = build_stack(build_world(base, device=device, exchange=wire), lanes_of(base))
    observer, models, rows = Observer(stack), [], []
    for moment in simulate(stack):
        rows.append(observer.rows(moment))
        if moment.phase == "end":
            models.append(moment.state.X_nld.cpu())
    return torch.stack(models), rows


def recorded(folder, device, wire, stop_after=None):
    """Runs with a checkpoint after every round; all ranks end in the one after `stop_after`."""
    base = experiment("fixed")
    world_of = partial(build_world, device=device, exchange=wire)
    if wire.rank:
        follow_first_rank(wire, world_of)
        return None
    world, lanes = world_of(base), lanes_of(base)
    keys = [world.key(lane) for lane in lanes]
    world.ranks.broadcast(do="take", experiments=[to_table(lane) for lane in lanes], keys=keys)
    with Store.open(folder) as store:
        for tick in run_lanes(world, lanes, store, folder / "checkpoints", 0):
            if stop_after is not None and tick.round > stop_after:
                os._exit(0)
        world.ranks.broadcast(do="end")
        return [store.history(key) for key in keys]


def one_rank(device, ranks, folder):
    """What each process of a team does."""
    alone = {name: trajectory(name, device) for name in WORLDS} if ranks == 1 else None
    wire = TorchCommunicator(torch.device(device)) if ranks == 1 else ThroughTheHost()
    found = {}
    for name in WORLDS:
        models, rows = trajectory(name, device, wire)
        parts = [wire.gather(X, _counts(wire, len(X))) for X in models]
        found[name] = torch.stack(parts), rows
    kept = {"alone": alone, "ranks": found}
    if ranks == 1:
        kept["whole"] = recorded(folder / "whole", device, wire)
        kept["resumed"] = recorded(folder / "parts", device, wire)
    if wire.rank == 0:
        torch.save(kept, folder / f"{ranks}.pt")
    if ranks == TEAMS[0]:
        recorded(folder / "parts", device, wire, STOP_AFTER)
    wire.close()


def _counts(wire, mine):
    counts = torch.zeros(wire.ranks, dtype=torch.int64)
    counts[wire.rank] = mine
    wire.add(counts)
    return counts.tolist()


def all_teams(device, folder):
    """What every team found, by its number of ranks."""
    for ranks in TEAMS:
        _start(device, ranks, folder)
    return {ranks: torch.load(folder / f"{ranks}.pt", weights_only=False) for ranks in TEAMS}


def _start(device, ranks, folder):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    path = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    shared = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    team = []
    for rank in range(ranks):
        told = {name: str(value) for name, value in {**shared, "RANK": rank}.items()}
        team.append(
            subprocess.Popen(
                [sys.executable, __file__, device, str(ranks), str(folder)],
                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path, **told},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        _, told = team[0].communicate(timeout=120)
        assert team[0].returncode == 0, told
    finally:
        for process in team:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    one_rank(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
