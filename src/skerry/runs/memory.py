"""How many lanes fit: the memory there is, measured, and what a lane needs of it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from skerry.config.experiment import Experiment
from skerry.config.measures import GROUPS
from skerry.engine.compressed_messages import compression_temporaries, count_compression_arrays
from skerry.engine.compression import NUMBER, PORTION, SQUEEZING
from skerry.engine.method_hooks import piece_bytes
from skerry.engine.stack import method_of, step_bytes, working_memory
from skerry.engine.world import World
from skerry.errors import SkerryError, is_out_of_memory, out_of_memory
from skerry.kernels.cuda_graph import WARM_UP
from skerry.kernels.precision import arithmetic
from skerry.measure.accuracy import bytes_per_score, measured_bytes_per_score, scoring_memory
from skerry.methods.method import Method, count_companions
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
SCORES = {"cpu": 160 * 2**20, "cuda": 2**26}
"""What of them is class scores at most, and what is made of them, unless a learner knows better:
more are computed in portions."""
MEANS, TABLES, WEIGHTS = 3, 3, 4
"""Arrays at once: of component means; of what devices scored on each class, for a lane; of how that
is weighed, for all of them."""
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
    judged: int = 0
    """What the devices of a lane scored on each class."""
    passing: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Arrays that compressed messages need for a while: what is compressed, all that is there
    meanwhile, and the most that ever is."""

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
        nothing = 0.0, 0.0, 0.0
        passing = [nothing, *(compression_temporaries(e, self.devices) for e in different.values())]
        return replace(
            self,
            companions=max(map(_companions, different.values()), default=0),
            passing=tuple(map(max, zip(*passing, strict=True))),
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
        scored = max(
            min(lanes * self.scores, self.most_scores) + lanes * self.judged,
            (WEIGHTS + TABLES * lanes) * self.judged,
        )
        after = max(int(self.other * X) + scored, self.weighing, self.messages(X))
        kept = (1 + self.companions) * X
        return self.world + max(self.building, kept + max(step, after))

    def messages(self, X: int) -> int:
        """What compressed ones need on their way, a few lanes of so much X at a time."""
        squeezed, beside, most = self.passing
        piece = max(self.lane, min(X, piece_bytes(X, self.on_gpu)))
        squeezing = SQUEEZING * min(PORTION, int(squeezed * piece) // NUMBER)
        return max(int(beside * piece) + squeezing, int(most * piece))


def _companions(experiment: Experiment) -> int:
    method = method_of(experiment) or Method()
    return count_companions(method) + count_compression_arrays(experiment, method.mixed_arrays)


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
    scores, most_scores = _scores(world)
    judged = world.held * world.test_classes.shape[1] * world.dtype.itemsize
    return Footprint(
        free=free,
        total=total,
        share=USABLE[world.device.type],
        world=on_device(world) + _workspaces(world) if on_gpu else taken.held,
        lane=each,
        step=(world.held * (2 * one - two), world.held * (two - one), most),
        # The server gathers the models of those it meets; measures hold a mean per component, all
        # of them once more in one array, and how far they are from the average.
        other=max(server.most_sampled(world.n), MEANS * len(world.sizes) + 2) / world.n,
        efficient=efficient,
        building=0 if on_gpu else taken.building,
        weighing=0 if on_gpu else taken.weighing,
        on_gpu=on_gpu,
        devices=world.n,
        scores=scores,
        most_scores=most_scores,
        judged=judged if on_gpu and _scores_devices(world) else 0,
    )


def _scores(world: World) -> tuple[int, int]:
    """Of a lane, and of all lanes at most."""
    each, samples = measured_bytes_per_score(world), len(world.y_test)
    if each is None or world.device.type != "cuda":
        return 3 * world.held * world.test_classes.nbytes, SCORES[world.device.type]
    pairs = samples
    if _scores_devices(world):
        scored_on = world.experiment.evaluate.device_samples or samples
        pairs = max(pairs, world.held * min(samples, scored_on))
    return pairs * each, max(1, scoring_memory(world) // bytes_per_score(world)) * each


def _scores_devices(world: World) -> bool:
    wanted = world.experiment.evaluate.wanted
    return not wanted.isdisjoint({*GROUPS["devices"], *GROUPS["fairness"]})


def _workspaces(world: World) -> int:
    """Measures have products in any case. They are recorded if they come often enough, and so are
    those of steps."""
    training, evaluate = world.experiment.training, world.experiment.evaluate
    evaluations = 1 + -(-world.rounds // evaluate.every)
    with arithmetic(training.precision):
        by_torch = not steps_on_chip(world.learner, training.batch)
    return (2 if by_torch or evaluations > WARM_UP else 1) * WORKSPACE


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
