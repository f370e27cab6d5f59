"""How many lanes fit: the memory there is, measured, and what a lane needs of it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from skerry.engine.acting import room_for_a_piece
from skerry.engine.compressed import copies_of, passing_of
from skerry.engine.compression import NUMBER, PORTION, SQUEEZING
from skerry.engine.method import Method, companions_of
from skerry.engine.stack import method_of, step_bytes, working_memory
from skerry.engine.world import World
from skerry.errors import SkerryError, is_out_of_memory, out_of_memory
from skerry.experiment import Experiment
from skerry.kernels.precision import arithmetic
from skerry.kernels.recorded import WARM_UP, pays
from skerry.measure.portions import bytes_of_a_score, memory, taken_by_a_score
from skerry.measures import GROUPS
from skerry.models.learner import steps_on_chip
from skerry.runs.holdings import holdings, on_device

USABLE = {"cpu": 0.7, "cuda": 0.6}
"""Of the free memory. A step on a GPU takes a quarter of it for its temporaries."""
WORKSPACE = 2**25
"""What torch takes on a GPU for its products: once, and once more for those that are recorded."""
COPIES = 3
"""Of X, for which a plan leaves room: itself, what the server gathers of it, and one more where
lanes are kept or saved."""
EVALUATION = 2**28
"""Temporaries of the measures, which are computed a few models at a time."""
CPU_SCORES = 160 * 2**20
"""What of them is class scores at most, and what is made of them: more are computed in portions."""
MEANS, TABLES, WEIGHTS = 3, 3, 4
"""Arrays at once: of component means; of what devices scored by class; of how that is weighed."""
CPU_STACK = 2**28
"""More than this much X at once brings nothing on a CPU: time per lane stays the same."""
CPU_LANES = (8, 128)
CONTAINER = "/sys/fs/cgroup/memory"


@dataclass(frozen=True)
class Footprint:
    """The memory that is free where a world is, and what its stacks need, in bytes."""

    free: int
    total: int
    share: float
    """Of the free memory that stacks may take."""
    world: int
    """What the world itself holds, its links and data included; every process holds it anew."""
    lane: int
    """X of one lane."""
    step: tuple[int, int, int]
    """Temporaries of the local steps: their fixed part, more for each lane, at most."""
    other: float
    """Temporaries of server rounds and measures, as a share of X."""
    scores: int
    """Class scores of a lane's models on the test set, and what is made of them."""
    most_scores: int
    """Of all lanes."""
    efficient: int
    """More lanes than this bring nothing."""
    on_gpu: bool = False
    devices: int = 1
    """Of the whole fleet."""
    building: int = 0
    """What building the world takes more, before there are lanes."""
    weighing: int = 0
    """What putting W together takes more, when there are."""
    companions: int = 0
    """Arrays of the size of X that a lane keeps beside it, for its method and for compression, at
    most."""
    judged: tuple[int, int] = (0, 0)
    """What all devices scored on each class: what it is weighed by, and more for each lane."""
    records: bool = False
    """Whether products are recorded, where that pays."""
    passing: tuple[float, float] = (0.0, 0.0)
    """Arrays that compressed messages need for a while: beside what compressing does, and at
    most."""

    def keeping(self, experiments: Iterable[Experiment]) -> "Footprint":
        """With what the methods of these lanes keep, and what compression does."""
        different = {
            (
                e.method,
                e.training,
                e.network.compresses and e.network,
                e.server.compresses and e.server,
            ): e
            for e in experiments
        }
        passing = [passing_of(e, self.devices) for e in different.values()]
        return replace(
            self,
            companions=max(map(_companions, different.values()), default=0),
            passing=tuple(map(max, zip((0.0, 0.0), *passing, strict=True))),
        )

    def lanes(self, sharers: int = 1) -> int:
        """The most lanes of a stack where so many stacks are under way at once."""
        held = self.world if sharers > 1 else 0  # a single one has its world in memory already
        room = self.free * self.share / sharers - held - EVALUATION
        each = (COPIES + self.companions) * self.lane + self.step[1]
        return max(1, min(self.efficient, int(room) // max(1, each)))

    def need(self, lanes: int) -> int:
        """What a stack takes at its peak: the larger of a local step and of what comes after."""
        X = lanes * self.lane
        fixed, more, most = self.step
        step = min(fixed + lanes * more, most)
        weights, each = self.judged
        scored = max(
            min(lanes * self.scores, self.most_scores) + lanes * each,
            WEIGHTS * weights + TABLES * lanes * each,
        )
        after = max(int(self.other * X) + scored, self.weighing, self._messages(X))
        kept = (1 + self.companions) * X
        kept += WORKSPACE if self.records and pays(X, step) else 0
        return self.world + max(self.building, kept + max(step, after))

    def _messages(self, X: int) -> int:
        """What compressed ones need, a few lanes at a time."""
        beside, most = self.passing
        piece = max(self.lane, min(X, room_for_a_piece(X, self.on_gpu)))
        squeezing = SQUEEZING * min(PORTION, piece // NUMBER)
        return max(int(beside * piece) + squeezing, int(most * piece)) if most else 0


def _companions(experiment: Experiment) -> int:
    method = method_of(experiment) or Method()
    return companions_of(method) + copies_of(experiment, method.travels)


def footprint(world: World) -> Footprint:
    """Raises SkerryError where not even one run has room."""
    each = world.held * world.learner.d * world.dtype.itemsize
    server = world.experiment.server
    one, two = step_bytes(world, 1), step_bytes(world, 2)
    most = max(working_memory(world.device), two)
    taken, on_gpu = holdings(world), world.device.type == "cuda"
    if on_gpu:
        free, total = torch.cuda.mem_get_info(world.device)
        efficient = 2**16
    else:
        free, total = free_memory(), total_memory()
        fewest, most_lanes = CPU_LANES
        efficient = max(fewest, min(most_lanes, CPU_STACK // each))
    if each > total:  # told before the system ends this process without a word
        raise SkerryError(
            f"out of memory: the models of {world.held:,} devices with "
            f"{world.learner.parameters:,} parameters "
            f"take {each / 1e9:,.1f} GB of {total / 1e9:,.1f} GB. Lower network.devices or take a "
            "smaller model."
        )
    return Footprint(
        free=free,
        total=total,
        share=USABLE[world.device.type],
        world=on_device(world) + WORKSPACE if on_gpu else taken.held,
        lane=each,
        step=(world.held * (2 * one - two), world.held * (two - one), most),
        # The server gathers the models of those it meets; measures hold a mean per component, all
        # of them once more in one array, and how far they are from the average.
        other=max(server.sampled, server.sampled_end or 0, MEANS * len(world.sizes) + 2) / world.n,
        efficient=efficient,
        building=0 if on_gpu else taken.building,
        weighing=0 if on_gpu else taken.weighing,
        on_gpu=on_gpu,
        devices=world.n,
        **(_measures_on_gpu(world) if on_gpu else _measures_on_cpu(world)),
    )


def _measures_on_cpu(world: World) -> dict[str, Any]:
    return {"scores": 3 * world.held * world.test_classes.nbytes, "most_scores": CPU_SCORES}


def _measures_on_gpu(world: World) -> dict[str, Any]:
    """Class scores come in portions; the last evaluation is one of all devices, if any is."""
    training, evaluate, learner = (
        world.experiment.training,
        world.experiment.evaluate,
        world.learner,
    )
    of_devices = not evaluate.wanted.isdisjoint({*GROUPS["devices"], *GROUPS["fairness"]})
    samples, each = len(world.y_test), taken_by_a_score(world)
    judged = world.test_classes[0].nbytes * world.held if of_devices else 0
    pairs = samples
    if of_devices:
        pairs = max(pairs, world.held * min(samples, evaluate.device_samples or samples))
    evaluations = 1 + -(-world.rounds // evaluate.every)
    with arithmetic(training.precision):
        by_torch = not steps_on_chip(learner, training.batch)
    return {
        "scores": pairs * each,
        "most_scores": max(1, memory(world) // bytes_of_a_score(world)) * each,
        "judged": (judged, judged),
        "records": by_torch or evaluations > WARM_UP,
    }


@contextmanager
def memory_in_words() -> Iterator[None]:
    """Where not even a single lane fits."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise SkerryError(out_of_memory(error)) from error


def free_memory() -> int:
    """What this machine, or the container around this process, can still give."""
    kilobytes = _line("/proc/meminfo", "MemAvailable")
    free = total_memory() // 2 if kilobytes is None else kilobytes * 1024
    limit, used = _line(f"{CONTAINER}.max"), _line(f"{CONTAINER}.current")
    if limit is not None and used is not None:
        reclaimable = _line(f"{CONTAINER}.stat", "inactive_file") or 0
        free = min(free, max(0, limit - used + reclaimable))
    return free


def total_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _line(path: str, name: str = "") -> int | None:
    """The number on the line of a file that begins with a name; None where there is none, as on
    systems other than Linux and in containers without a limit."""
    try:
        lines = Path(path).read_text().splitlines()
        line = next(line for line in lines if line.startswith(name))
        return int(line.removeprefix(name).removeprefix(":").split()[0])
    except (OSError, StopIteration, ValueError):
        return None
