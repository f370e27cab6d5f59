"""How many lanes fit: the memory there is, measured, and what a lane needs of it."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from skerry.engine.world import World

USABLE = {"cpu": 0.7, "cuda": 0.6}
"""Of the free memory. A step on a GPU takes a quarter of it for its temporaries."""
COPIES = 3
"""X itself, what the server gathers of it, and one more where lanes are kept or saved."""
EVALUATION = 2**28
"""Temporaries of the measures, which are computed a few models at a time."""
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
    """What the world itself holds, which every process holds anew."""
    lane: int
    efficient: int
    """More lanes than this bring nothing."""

    def lanes(self, sharers: int = 1) -> int:
        """The most lanes of a stack where so many stacks are under way at once."""
        held = self.world if sharers > 1 else 0  # a single one has its world in memory already
        room = self.free * self.share / sharers - held - EVALUATION
        return max(1, min(self.efficient, int(room) // self.lane))

    def need(self, lanes: int) -> int:
        return self.world + EVALUATION + lanes * self.lane


def footprint(world: World) -> Footprint:
    each = world.n * world.learner.d * world.dtype.itemsize
    step = world.learner.bytes_per_device(1, world.experiment.training.batch)
    tensors = (world.x_train, world.y_train, world.x_test, world.y_test)
    if world.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(world.device)
        efficient = 2**16
    else:
        free, total = free_memory(), total_memory()
        fewest, most = CPU_LANES
        efficient = max(fewest, min(most, CPU_STACK // each))
    return Footprint(
        free=free,
        total=total,
        share=USABLE[world.device.type],
        world=sum(tensor.nbytes for tensor in tensors),
        lane=COPIES * each + step,
        efficient=efficient,
    )


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
