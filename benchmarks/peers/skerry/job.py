"""Skerry: all runs of a seed are lanes of one array. The variant is the number of lanes, and
whether devices average through the server or with their neighbours on a ring."""

import math
from pathlib import Path

import numpy as np
import torch
from networks import as_arrays, initial_network
from peer_job import WARM_UP, Job, Turn, device_data

from skerry.config.experiment import Experiment
from skerry.data.sources.catalog import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import Stack, build_stack
from skerry.engine.world import Materials, World, build_world


def as_samples(x: np.ndarray) -> np.ndarray:
    """Skerry takes images with channels last, as files have them."""
    return np.moveaxis(x, 1, -1) if x.ndim == 4 else x


def the_world(folder: Path, job: Job, mixing: str) -> World:
    x, y = device_data(folder)
    x_test, y_test = np.load(folder / "x_test.npy"), np.load(folder / "y_test.npy")
    dataset = from_arrays(
        as_samples(x.reshape(-1, *job.shape)), y.flatten(), as_samples(x_test), y_test
    )
    how = {
        # Devices without links, and a server that hears all of them every round: FedAvg.
        "average": [
            f"network.components={job.devices}",
            'server.primitive="s2a"',
            f"server.sampled={job.devices}",
            "server.period=1",
        ],
        "ring": ["network.components=1", 'network.topology="ring"', 'server.primitive="none"'],
    }
    experiment = Experiment.parse(
        {},
        [
            f"rounds={job.all_rounds}",
            f"network.devices={job.devices}",
            f"training.batch={job.batch}",
            f"training.stepsize={job.stepsize}",
            f"evaluate.every={job.all_rounds}",
            "data.scaling=unit",
            "data.inter=iid",
            *how[mixing],
        ],
    )
    # Softmax regression starts from zero here as in the job; other networks are handed over.
    model = None if job.name == "linear" else lambda: initial_network(folder)
    return build_world(experiment, Materials(dataset=dataset, model=model))


def the_stack(world: World, lanes: int) -> Stack:
    """Lanes that differ in stepsize, so that none is a copy of another; the first has the job's."""
    base = world.experiment
    stepsizes = base.training.stepsize * np.geomspace(1, 0.1, lanes)
    return build_stack(
        world, [base.with_settings(f"training.stepsize={float(eta)}") for eta in stepsizes]
    )


def unpacked(folder: Path, job: Job, x_d: torch.Tensor) -> dict[str, np.ndarray]:
    """A flat model under the job's names."""
    if job.name == "linear":
        rows, features = x_d.view(job.classes, -1).numpy(), math.prod(job.shape)
        return {"1.weight": rows[:, :features], "1.bias": rows[:, features]}
    network = initial_network(folder)
    torch.nn.utils.vector_to_parameters(x_d, network.parameters())
    return as_arrays(network)


def main() -> None:
    turn = Turn.from_command_line()
    job, (lanes, mixing) = turn.job, turn.variant.split()
    stack = the_stack(the_world(turn.folder, job, mixing), int(lanes))
    for moment in simulate(stack):
        if moment.phase == "end" and moment.round == WARM_UP:
            turn.warm()
        X_nld = moment.state.X_nld
    turn.stop()
    final = X_nld[:, 0].mean(dim=0)
    turn.answer(unpacked(turn.folder, job, final), packages=["skerry", "torch", "numpy"])


if __name__ == "__main__":
    main()
