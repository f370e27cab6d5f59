"""How many lanes fit: the free memory, and an estimate of what worlds and lanes need."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from skerry.config.experiment import Experiment
from skerry.config.measures import GROUPS
from skerry.data.dataset import MOMENT_ROWS, Dataset
from skerry.engine.compressed_messages import compression_temporaries, count_compression_arrays
from skerry.engine.compression import COMPRESSING, NUMBER, PORTION
from skerry.engine.method_hooks import piece_bytes
from skerry.engine.stack import method_of, step_bytes, working_memory
from skerry.engine.world import World
from skerry.errors import SkerryError, is_out_of_memory, out_of_memory
from skerry.kernels.cuda_graph import WARM_UP
from skerry.kernels.precision import arithmetic
from skerry.measure.accuracy import bytes_per_score, measured_bytes_per_score, scoring_memory
from skerry.methods.method import Method, count_companions
from skerry.models.layout import count
from skerry.models.learner import steps_on_chip
from skerry.network.fleet import is_sparse
from skerry.network.links import Links

USABLE = {"cpu": 0.7, "cuda": 0.6}
"""Usable share of the free memory. A step on a GPU takes a quarter of it for temporaries."""
WORKSPACE = 2**25  # bytes of torch on a GPU for products, and again for those in CUDA graphs
COPIES = 3  # copies of X in a plan: X, what the server gathers, and one more to keep or save lanes
EVALUATION = 2**28  # bytes of the measures' temporaries, a few models at a time
SCORES = {"cpu": 160 * 2**20, "cuda": 2**26}
"""Bytes of class scores, unless a learner knows better; more are computed in portions."""
MEANS, TABLES, WEIGHTS = 3, 3, 4  # arrays at once: island means, device scores, weights
CPU_STACK = 2**28  # bytes of X beyond which a larger stack on a CPU saves no time per lane
CPU_LANES = (8, 128)
CONTAINER = "/sys/fs/cgroup/memory"

# What a world takes. Measured on CPython 3.11 with networkx 3 (tests/runs/test_holdings.py).
DRAWN = 170
"""Bytes of a link in a networkx graph: two entries of dictionaries, and one of its own. Python
keeps them for other objects when the graph is gone."""
EDGE = 16  # bytes of a link as a pair of numbers
SORTED = 66  # more bytes of a link while its pairs are sorted
WEIGHED = 40  # bytes of an entry of W while it is put together
SCIPY_ENTRY, TORCH_ENTRY = 12, 20  # bytes of an entry of a sparse W
TABLE = 4  # numbers of a device in the table that minibatches are drawn by
DOUBLE, SINGLE = 8, 4


@dataclass(frozen=True)
class Footprint:
    """The memory that is free where a world is, and what its stacks need, in bytes."""

    free: int
    total: int
    share: float  # the share of the free memory that stacks may take
    world: int  # the world itself with its links and data; every process holds its own
    lane: int  # X of one lane
    step: tuple[int, int, int]  # temporaries of local steps: fixed, more per lane, at most
    other: float  # temporaries of server rounds and measures, as a share of X
    scores: int  # class scores of a lane's models on the test set, and what is computed from them
    most_scores: int  # the maximum of `scores` over all lanes
    efficient: int  # the number of lanes beyond which a stack gets no faster per lane
    on_gpu: bool = False
    devices: int = 1  # the number of devices of the whole fleet
    building: int = 0  # additional bytes while the world is built, before it has lanes
    weighing: int = 0  # additional bytes while W is assembled, with lanes
    companions: int = 0  # arrays like X that a lane keeps for its method and compression, at most
    private: float = 0.0  # share of X that is private, and copied while the rest travels
    judged: int = 0  # scores of each device of a lane on each class
    passing: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Arrays of compressed messages in units of X: compressed, beside it, and at most."""

    def for_lanes(self, experiments: Iterable[Experiment]) -> "Footprint":
        """The footprint with what methods and compression of these lanes need."""
        compressing = (
            (e, [one for one in (e.network, e.server) if one.compresses]) for e in experiments
        )
        different = {(e.method, e.training, *sections): e for e, sections in compressing}
        nothing = 0.0, 0.0, 0.0
        passing = [nothing, *(compression_temporaries(e, self.devices) for e in different.values())]
        return replace(
            self,
            companions=max(map(_companions, different.values()), default=0),
            passing=tuple(map(max, zip(*passing, strict=True))),
        )

    def lanes(self, sharers: int = 1) -> int:
        """The largest number of lanes of a stack, where `sharers` stacks run at once."""
        held = self.world if sharers > 1 else 0  # a single stack has its world in memory already
        room = self.free * self.share / sharers - held - EVALUATION
        copies = COPIES + self.companions + self._aside
        each = int(copies * self.lane) + self.step[1]
        return max(1, min(self.efficient, int(room) // max(1, each)))

    def need(self, lanes: int) -> int:
        """Peak bytes of a stack: the larger of a local step and of what comes after it."""
        X = lanes * self.lane
        fixed, more, most = self.step
        step = min(fixed + lanes * more, most)
        scored = max(
            min(lanes * self.scores, self.most_scores) + lanes * self.judged,
            (WEIGHTS + TABLES * lanes) * self.judged,
        )
        after = max(int(self.other * X) + scored, self.weighing, self.messages(X))
        after += int(self._aside * X)
        kept = (1 + self.companions) * X
        return self.world + max(self.building, kept + max(step, after))

    @property
    def _aside(self) -> float:
        """Copies of private parts, of the models and of what methods keep, in units of X."""
        return self.private * (1 + self.companions)

    def messages(self, X: int) -> int:
        """Bytes of compressed messages in transit, which are sent for a few lanes at a time."""
        compressed, beside, most = self.passing
        piece = max(self.lane, min(X, piece_bytes(X, self.on_gpu)))
        compressing = COMPRESSING * min(PORTION, int(compressed * piece) // NUMBER)
        return max(int(beside * piece) + compressing, int(most * piece))


def _companions(experiment: Experiment) -> int:
    method = method_of(experiment) or Method()
    return count_companions(method) + count_compression_arrays(experiment, method.mixed_arrays)


def measure_footprint(world: World) -> Footprint:
    """The footprint of a world's stacks; raises SkerryError where not even one run has room."""
    each = world.local_devices * world.learner.d * world.dtype.itemsize
    server = world.experiment.server
    one, two = step_bytes(world, 1), step_bytes(world, 2)
    most = max(working_memory(world.device), two)
    on_gpu = world.device.type == "cuda"
    if on_gpu:
        free, total = torch.cuda.mem_get_info(world.device)
        efficient = 2**16
        held, building, weighing = on_device(world) + _workspaces(world), 0, 0
    else:
        free, total = free_memory(), total_memory()
        fewest, most_lanes = CPU_LANES
        efficient = max(fewest, min(most_lanes, CPU_STACK // each))
        held, building, weighing = host_memory(world)
    if each > total:  # before the system kills this process
        raise SkerryError(
            f"out of memory: the models of {world.local_devices:,} devices with "
            f"{world.learner.parameters:,} parameters "
            f"take {each / 1e9:,.1f} GB of {total / 1e9:,.1f} GB. Lower network.devices or take a "
            "smaller model."
        )
    scores, most_scores = _scores(world)
    judged = world.local_devices * world.test_classes.shape[1] * world.dtype.itemsize
    return Footprint(
        free=free,
        total=total,
        share=USABLE[world.device.type],
        world=held,
        lane=each,
        step=(world.local_devices * (2 * one - two), world.local_devices * (two - one), most),
        # The server gathers the sampled models; measures hold a mean per island, all of these once
        # more in one array, and their distances from the average.
        other=max(server.most_sampled(world.n), MEANS * len(world.sizes) + 2) / world.n,
        efficient=efficient,
        building=building,
        weighing=weighing,
        on_gpu=on_gpu,
        devices=world.n,
        scores=scores,
        most_scores=most_scores,
        private=count(world.private) / world.learner.d,
        judged=judged if on_gpu and _scores_devices(world) else 0,
    )


def _scores(world: World) -> tuple[int, int]:
    """Bytes of the class scores of a lane, and of all lanes at most."""
    each, samples = measured_bytes_per_score(world), len(world.y_test)
    if each is None or world.device.type != "cuda":
        return 3 * world.local_devices * world.test_classes.nbytes, SCORES[world.device.type]
    pairs = samples
    if _scores_devices(world):
        scored_on = world.experiment.evaluate.device_samples or samples
        pairs = max(pairs, world.local_devices * min(samples, scored_on))
    return pairs * each, max(1, scoring_memory(world) // bytes_per_score(world)) * each


def _scores_devices(world: World) -> bool:
    wanted = world.experiment.evaluate.wanted
    return not wanted.isdisjoint({*GROUPS["devices"], *GROUPS["fairness"]})


def _workspaces(world: World) -> int:
    """Bytes of torch's workspaces: one for measures, one for what a CUDA graph captures."""
    training, evaluate = world.experiment.training, world.experiment.evaluate
    evaluations = 1 + -(-world.rounds // evaluate.every)
    with arithmetic(training.precision):
        by_torch = not steps_on_chip(world.learner, world.batch)
    return (2 if by_torch or evaluations > WARM_UP else 1) * WORKSPACE


def host_memory(world: World) -> tuple[int, int, int]:
    """Estimate the bytes of a world on a CPU: held, building and weighing, as in `Footprint`."""
    links = list(world.fleet.islands(0))
    largest = max(links, key=lambda one: len(one.edges))
    raw, building = _data(world.dataset)
    drawn = sum(EDGE * len(one.edges) for one in links) + DRAWN * len(largest.edges)
    held = raw + drawn + _weights(links, DOUBLE, SCIPY_ENTRY) + on_device(world)
    return held, max(building, SORTED * len(largest.edges)), WEIGHED * _entries(largest)


def on_device(world: World) -> int:
    """Bytes that torch holds of a world on the compute device."""
    tensors = (world.x_train, world.y_train, world.x_own, world.y_own, world.test_classes)
    W = _weights(list(world.fleet.islands(0)), world.dtype.itemsize, TORCH_ENTRY)
    draws = _draws(world) if world.device.type == "cuda" else 0  # on a CPU they are temporary
    return sum(tensor.nbytes for tensor in tensors) + W + draws


def _draws(world: World) -> int:
    """Bytes of the minibatch draws of this round and the next one, and of their tables."""
    training = world.experiment.training
    a_round = DOUBLE * (training.batch + 1) * training.local_steps * world.local_devices
    if (epochs := world.local_epochs) is not None:  # orders, noise keys, places of minibatches
        steps = 2 * int(epochs.steps.max()) if world.learner.noisy else 1
        a_round = DOUBLE * (epochs.epochs * len(world.y_train) + steps * world.local_devices)
        return 2 * a_round + 3 * DOUBLE * len(world.y_train)
    rounds = 2 if training.local_steps == 1 else 3  # more steps are drawn apart, then put together
    return rounds * a_round + DOUBLE * (len(world.partition.order) + TABLE * world.n)


def _data(dataset: Dataset) -> tuple[int, int]:
    """Bytes of a data set, and additional bytes while it is created or read and scaled."""
    arrays = (dataset.x_train, dataset.x_test)
    numbers = sum(array.size for array in arrays)
    raw = sum(array.nbytes for array in arrays)
    rows = min(len(dataset.x_train), MOMENT_ROWS)
    moments = 0 if dataset.mean is not None else 2 * DOUBLE * rows * dataset.x_train[0].size
    drawn = 2 * DOUBLE * numbers if dataset.name == "synthetic" else 0
    return raw, max(moments, drawn, raw + SINGLE * numbers)


def _weights(links: list[Links], dense: int, sparse: int) -> int:
    """Bytes of W, by bytes of a dense and of a sparse entry; islands with the same links share."""
    shapes = {(one.size, len(one.edges), int(one.edges.sum())): one for one in links}
    return sum(
        sparse * _entries(one) if is_sparse(one.size, _entries(one)) else dense * one.size**2
        for one in shapes.values()
    )


def _entries(links: Links) -> int:
    """Entries of an island's W: both directions of every link, and the diagonal."""
    return 2 * len(links.edges) + links.size


@contextmanager
def explain_memory_errors() -> Iterator[None]:
    """Raise out-of-memory errors as SkerryError, with advice."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise SkerryError(out_of_memory(error)) from error


def free_memory() -> int:
    """Bytes that this machine, or the container of this process, has free."""
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
    """The number after a name in a file of Linux; None where there is no such line."""
    try:
        lines = Path(path).read_text().splitlines()
        line = next(line for line in lines if line.startswith(name))
        return int(line.removeprefix(name).removeprefix(":").split()[0])
    except (OSError, StopIteration, ValueError):
        return None
