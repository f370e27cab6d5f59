"""A worker: computes stacks for a driver in another process, and sends events back.

A worker has a store of its own, with checkpoints. Where it sees the driver's files it keeps them
beside the driver's store, so that an interrupted stack can resume; on another machine they are
temporary. The driver copies finished runs into its store, to which it alone writes.

`python -m skerry.runs.executors.worker` exchanges pickled objects with its driver through stdin and
stdout. The first object it receives is the materials from Python; the others are orders. Nothing
pickled is ever read from a file.
"""

import os
import pickle
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import cloudpickle
import torch
from filelock import FileLock, Timeout

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, World
from skerry.errors import SkerryError, one_line
from skerry.plugins import fingerprint
from skerry.records.activity import CHECKPOINT_FOLDER
from skerry.records.store import Store
from skerry.runs.executors.executor import (
    Done,
    Event,
    Failure,
    RunOutcome,
    WorldCache,
    WorldSurvey,
    failure_of,
    rehearse_plugins,
    release_memory,
    survey_world,
)
from skerry.runs.process import deterministic_torch
from skerry.runs.stack_run import run_lanes

TICK_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
ORPHAN_SECONDS = 30.0
TOKEN = "driver"
HEARTBEAT = None  # the object that a worker sends while it has no event


@dataclass(frozen=True)
class Order:
    """Work for a worker: lanes of one world, and where their records go."""

    experiments: tuple[Experiment, ...]
    functions: bytes  # `pack_functions` of the experiments
    device: str
    fingerprints: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()
    token: str = ""
    checkpoint_seconds: float = 0.0
    threads: int = 1
    deterministic: bool = False
    directory: str = field(default_factory=os.getcwd)
    """The driver's working directory: experiments name files relative to it."""
    path: tuple[str, ...] = field(
        default_factory=lambda: tuple(str(Path(path).absolute()) for path in sys.path)
    )
    """The driver's `sys.path`: experiments name modules on it."""


def pack_materials(materials: Materials) -> bytes:
    """Pickle objects from Python for workers."""
    if materials == Materials():
        return b""
    return _pickle(materials.with_fingerprint(), "the graph, data or model", "", "it")


def pack_functions(experiments: Iterable[Experiment]) -> bytes:
    """Pickle the functions from Python that these experiments name, for workers."""
    names = (name for each in experiments for _, name in each.users_own())
    given = fingerprint.FUNCTIONS
    functions = {name: given[name] for name in names if name in given}
    if not functions:
        return b""
    labels = ", ".join(map(fingerprint.short_name, functions))
    return _pickle(functions, "functions", f": {labels}", "them")


def _pickle(content: object, what: str, labels: str, pronoun: str) -> bytes:
    try:
        return bytes(cloudpickle.dumps(content))
    except Exception as error:  # a user's function may refer to anything
        raise SkerryError(
            f"{what} given from Python cannot be sent to workers{labels} ({one_line(error)}). Run "
            f'it here, or name {pronoun} in the experiment: "package.module:function".'
        ) from error


_worlds = WorldCache()
_packed_materials = b""


def _prepare(order: Order, materials: bytes) -> World:
    """Set this process up as the driver's is, and build the world of an order."""
    global _packed_materials, _worlds
    with suppress(OSError):  # another machine need not have the folder
        os.chdir(order.directory)
    sys.path += [place for place in order.path if place not in sys.path]
    if materials != _packed_materials:
        unpacked = cloudpickle.loads(materials) if materials else None
        _packed_materials, _worlds = materials, WorldCache(unpacked)
    fingerprint.FUNCTIONS.update(cloudpickle.loads(order.functions) if order.functions else {})
    return _worlds.get(order.experiments[0], order.device)


def survey(order: Order, materials: bytes = b"") -> WorldSurvey:
    return replace(survey_world(_prepare(order, materials)), world=None)


def work(order: Order, materials: bytes = b"") -> Iterator[Event]:
    """Compute an order; errors become events."""
    failure: Failure | None = None
    try:
        torch.set_num_threads(order.threads)
        with deterministic_torch(order.deterministic):
            yield from _compute(order, materials)
    except Exception as error:  # a user's code may raise anything
        failure = failure_of(error)
    if failure is not None:
        release_memory()
        # The error itself stays here: a user's exception need not be picklable.
        yield replace(failure, error=None)


def _compute(order: Order, materials: bytes) -> Iterator[Event]:
    lanes = order.experiments
    try:
        world = _prepare(order, materials)
    except Exception as error:  # a user's data and model may raise anything
        failure = failure_of(error)
        cause = "world" if failure.cause == "lanes" else failure.cause
        yield replace(failure, cause=cause, error=None)
        return
    if world.fingerprints != order.fingerprints:
        raise SkerryError(
            "a file or a model that the experiment names differs between the driver's machine and "
            "this one. Give all machines the same."
        )
    with _own_folder(order.folder, order.token) as own, Store.open(own) as store:
        keys = {world.key(lane): lane for lane in lanes}
        done = store.finished(keys)
        waiting = [lane for key, lane in keys.items() if key not in done]
        if waiting:
            rehearse_plugins(world, waiting)
            sent = float("-inf")
            seconds, folder = order.checkpoint_seconds, own / CHECKPOINT_FOLDER
            for tick in run_lanes(world, waiting, store, folder, seconds, order.deterministic):
                if time.monotonic() - sent >= TICK_SECONDS:
                    sent = time.monotonic()
                    yield tick
        runs = filter(None, map(store.run, keys))  # all were recorded above
        found = (RunOutcome(one, store.history(one.key), store.devices(one.key)) for one in runs)
        yield Done(tuple(found))


@contextmanager
def _own_folder(shared: Path, token: str) -> Iterator[Path]:
    """The shared folder, if it is this driver's and no orphan uses it; else a temporary one."""
    lock = FileLock(f"{shared}.lock")
    with suppress(Timeout, OSError, NotImplementedError):
        if (shared.parent / TOKEN).read_text() == token:
            lock.acquire(timeout=ORPHAN_SECONDS)
    if not lock.is_locked:
        with tempfile.TemporaryDirectory(prefix="skerry-") as own:
            yield Path(own)
        return
    try:
        yield shared
    finally:
        lock.release()


def _serve() -> None:
    # A user's code may print: its output must not come between the objects for the driver.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    lock = threading.Lock()

    def send(event: Event | None) -> None:
        with lock:
            pickle.dump(event, output, pickle.HIGHEST_PROTOCOL)
            output.flush()

    def beat() -> None:
        while True:  # a round may take minutes, and a worker may hang
            time.sleep(HEARTBEAT_SECONDS)
            with suppress(OSError):  # the driver has ended, and so will this process
                send(HEARTBEAT)

    materials = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our driver
    threading.Thread(target=_receive, args=(sys.stdin.buffer, orders), daemon=True).start()
    threading.Thread(target=beat, daemon=True).start()
    while True:
        for event in work(orders.get(), materials):
            send(event)


def _receive(source: BinaryIO, orders: "queue.SimpleQueue[Order]") -> None:
    """Queue orders until stdin ends: a worker lives no longer than its driver."""
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            orders.put(pickle.load(source))  # noqa: S301 - from our driver
    os._exit(0)


if __name__ == "__main__":
    _serve()
