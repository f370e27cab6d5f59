"""How long a local step of one device takes on this machine."""

from dataclasses import dataclass
from time import perf_counter

import torch

from skerry.config.experiment import Experiment
from skerry.engine.world import build_world
from skerry.kernels.precision import arithmetic
from skerry.models.learner import LazyBatch

WARM_UP = 5
STEPS = 51
LONGEST = 10.0  # seconds; large models are measured by fewer steps


@dataclass(frozen=True)
class StepTime:
    """The duration of a local step on one core: the quickest of some steps, since other programs
    only make steps longer."""

    seconds: float
    slowest: float
    steps: int
    parameters: int
    batch: int


def measure_step(experiment: Experiment) -> StepTime:
    """Measure SGD steps of the first device of an experiment, without the work of any method."""
    world = build_world(experiment)
    rows, noise = world.batch_indices(0, 0)[:1], world.noise_keys(0, 0)[:1]
    X_nld = world.initial_models()[:1].unsqueeze(1).clone()
    eta_l = X_nld.new_full((1,), experiment.training.stepsize)
    taken: list[float] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a small step on several cores waits for the busiest one
    began = perf_counter()
    with arithmetic(experiment.training.precision):
        for step in range(WARM_UP + STEPS):
            batch = LazyBatch(world.x_train, world.y_train, rows, noise)
            start = perf_counter()
            world.learner.step(X_nld, batch, eta_l)
            end = perf_counter()
            if step >= WARM_UP or end - began > LONGEST:
                taken.append(end - start)
            if end - began > LONGEST:
                break
    torch.set_num_threads(threads)
    facts = len(taken), world.learner.parameters, rows.shape[1]
    return StepTime(min(taken), max(taken), *facts)
