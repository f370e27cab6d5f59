"""What a world takes before any lane is in it: its data, its links, and what building them took.

Measured on CPython 3.11 with networkx 3: tests/runs/test_holdings.py compares with real processes.
"""

from dataclasses import dataclass

from skerry.data.dataset import MOMENT_ROWS, Dataset
from skerry.engine.world import World
from skerry.network.fleet import is_sparse
from skerry.network.links import Links

DRAWN = 170
"""Bytes of a link in a networkx graph: two entries of dictionaries, and one of its own. Python
keeps them for other objects when the graph is gone."""
EDGE = 16
"""Bytes of a link as a pair of numbers."""
SORTED = 66
"""More bytes of a link while its pairs are sorted."""
WEIGHED = 40
"""Bytes of an entry of W while it is put together."""
SCIPY_ENTRY, TORCH_ENTRY = 12, 20
"""Bytes of an entry of a sparse W."""
TABLE = 4
"""Numbers of a device in the table that minibatches are drawn by."""
DOUBLE, SINGLE = 8, 4


@dataclass(frozen=True)
class Holdings:
    """In bytes, on the host."""

    held: int
    """For as long as the world is there."""
    building: int
    """More, at the most, while it is built."""
    weighing: int
    """More, while W of the first round is put together; lanes are there already."""


def holdings(world: World) -> Holdings:
    links = list(world.fleet.islands(0))
    largest = max(links, key=lambda one: len(one.edges))
    raw, building = _data(world.dataset)
    return Holdings(
        held=raw
        + sum(EDGE * len(one.edges) for one in links)
        + DRAWN * len(largest.edges)
        + _weights(links, DOUBLE, SCIPY_ENTRY)
        + (on_device(world) if world.device.type == "cpu" else 0),
        building=max(building, SORTED * len(largest.edges)),
        weighing=WEIGHED * _entries(largest),
    )


def on_device(world: World) -> int:
    """What torch holds of a world, where the computing is done."""
    tensors = (world.x_train, world.y_train, world.x_own, world.y_own, world.test_classes)
    W = _weights(list(world.fleet.islands(0)), world.dtype.itemsize, TORCH_ENTRY)
    return sum(tensor.nbytes for tensor in tensors) + W + _draws(world)


def _draws(world: World) -> int:
    """On a GPU: the sample numbers and noise keys of a round and of the next one, and the tables
    that they are drawn from. On a CPU they come and go."""
    if world.device.type != "cuda":
        return 0
    training = world.experiment.training
    a_round = DOUBLE * (training.batch + 1) * training.local_steps * world.held
    rounds = 2 if training.local_steps == 1 else 3  # more steps are drawn apart, then put together
    return rounds * a_round + DOUBLE * (len(world.partition.order) + TABLE * world.n)


def _data(dataset: Dataset) -> tuple[int, int]:
    """What a data set holds, and what it took more to make or read it and to scale it."""
    arrays = (dataset.x_train, dataset.x_test)
    numbers = sum(array.size for array in arrays)
    raw = sum(array.nbytes for array in arrays)
    rows = min(len(dataset.x_train), MOMENT_ROWS)
    moments = 0 if dataset.mean is not None else 2 * DOUBLE * rows * dataset.x_train[0].size
    drawn = 2 * DOUBLE * numbers if dataset.name == "synthetic" else 0
    return raw, max(moments, drawn, raw + SINGLE * numbers)


def _weights(links: list[Links], dense: int, sparse: int) -> int:
    """W, with so many bytes an entry; components with the same links share it."""
    shapes = {(one.size, len(one.edges), int(one.edges.sum())): one for one in links}
    return sum(
        sparse * _entries(one) if is_sparse(one.size, _entries(one)) else dense * one.size**2
        for one in shapes.values()
    )


def _entries(links: Links) -> int:
    """Of W: both ways over every link, and the diagonal."""
    return 2 * len(links.edges) + links.size
