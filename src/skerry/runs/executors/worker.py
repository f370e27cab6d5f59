"""A worker: computes the stacks that a driver in another process sends, and reports back.

A worker has a store of its own, with checkpoints. Where it sees the driver's files it keeps them
beside the driver's store, so that a stack that was interrupted goes on; on another machine they
are temporary. The driver copies what is finished into its store: it alone writes there.

`python -m skerry.runs.executors.worker` talks with its driver by lines on stdin and stdout. The
first line it hears is what was given from Python; while it lives it says so every few seconds.
"""

import gc
import json
import os
import queue
import sys
import tempfile
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from filelock import FileLock, Timeout

from skerry.config.experiment import Experiment
from skerry.engine.ranks.exchange import Communicator
from skerry.engine.rehearsal import rehearse
from skerry.engine.simulate import Moment
from skerry.engine.world import SOURCE, Materials, World, build_world, pick_device, source_of
from skerry.errors import SkerryError, one_line
from skerry.plugins import fingerprint
from skerry.records.store import Store
from skerry.runs.determinism import torch_is_deterministic
from skerry.runs.executors.messages import (
    Done,
    Failed,
    News,
    Outcome,
    Survey,
    Task,
    Tick,
    news_of,
    to_line,
)
from skerry.runs.memory import footprint
from skerry.runs.stack_run import follow_world

TICK_SECONDS = 0.5
BEAT_SECONDS = 5.0
ORPHAN_SECONDS = 30.0
TOKEN = "driver"
BEAT = "alive"
"""A line that is no news."""


class LastWorld:
    """Builds worlds and keeps the last one: stacks of one world follow each other."""

    def __init__(self, materials: Materials | None = None, exchange: Communicator | None = None):
        self._materials, self._exchange = materials, exchange
        self._last: tuple[str, World] | None = None

    def of(self, experiment: Experiment, device: str) -> World:
        name = f"{experiment.world_key()} {device}"
        if self._last is None or self._last[0] != name:
            before = self._last[1] if self._last else None
            place = pick_device(device)
            materials = self._materials or Materials()
            if before and not before.has_inputs_of(experiment, materials, place, before.dtype):
                before = self._last = None  # two sets of inputs need not fit into memory
            exchange = self._exchange
            world = build_world(experiment, materials, place, before=before, exchange=exchange)
            self._last = name, world
        return self._last[1]


_worlds = LastWorld()
_given = b""


def pack(materials: Materials) -> bytes:
    """What was given from Python, to be sent to workers. It goes through pipes alone, to processes
    that were started for it: nothing pickled is ever read from a file."""
    if not materials.any:
        return b""
    source = source_of(materials.model) if materials.model is not None else ""
    try:
        return bytes(cloudpickle.dumps((materials, source)))
    except Exception as error:  # whatever a user's function holds on to
        raise SkerryError(
            f"the graph, data or model given from Python cannot be sent to workers "
            f"({one_line(error)}). Run it here, or name it in the experiment: "
            '"package.module:function".'
        ) from error


def take(given: bytes) -> None:
    """Build worlds with this from now on."""
    global _given, _worlds
    if given != _given:
        materials, source = cloudpickle.loads(given) if given else (None, "")
        if materials is not None and materials.model is not None:
            setattr(materials.model, SOURCE, source)
        _given, _worlds = given, LastWorld(materials)


def pack_functions(experiments: Iterable[Experiment]) -> str:
    """The functions given from Python that these experiments name, to be sent along with them."""
    names = (name for each in experiments for _, name in each.users_own())
    functions = fingerprint.registered_functions(names)
    if not functions:
        return ""
    try:
        return b64encode(cloudpickle.dumps(functions)).decode()
    except Exception as error:  # whatever a user's function holds on to
        told = ", ".join(map(fingerprint.short_name, functions))
        raise SkerryError(
            f"functions given from Python cannot be sent to workers: {told} ({one_line(error)}). "
            'Run it here, or name them in the experiment: "package.module:function".'
        ) from error


def take_functions(packed: str) -> None:
    fingerprint.register_functions(cloudpickle.loads(b64decode(packed)) if packed else {})


def survey_of(world: World) -> Survey:
    return Survey(world.fingerprints, world.n, footprint(world), world)


def survey(request: str, given: bytes = b"") -> str:
    """Build the world of an experiment here, and tell what a plan must know of it."""
    asked = json.loads(request)
    settle(**asked["home"])
    take(given)
    take_functions(asked["functions"])
    world = _worlds.of(Experiment.parse(asked["experiment"]), asked["device"])
    return survey_of(world).to_json()


def survey_request(experiment: Experiment, device: str) -> str:
    return json.dumps(
        {
            "experiment": table_of(experiment),
            "functions": pack_functions([experiment]),
            "device": device,
            "home": home(),
        }
    )


def order(
    task: Task, device: str, folder: Path, token: str, checkpoint_seconds: float, threads: int
) -> str:
    """A task as a line for a worker."""
    return json.dumps(
        {
            "home": home(),
            "experiments": [table_of(experiment) for experiment in task.experiments],
            "functions": pack_functions(task.experiments),
            "fingerprints": task.survey.fingerprints,
            "device": device,
            "folder": str(folder),
            "token": token,
            "checkpoint_seconds": checkpoint_seconds,
            "threads": threads,
            "deterministic": task.deterministic,
        }
    )


def home() -> dict[str, Any]:
    """Where a driver finds the files and modules that experiments name."""
    return {"folder": os.getcwd(), "path": [str(Path(path).absolute()) for path in sys.path]}


def settle(folder: str, path: list[str]) -> None:
    """Find them at the same places, as far as this machine has them."""
    with suppress(OSError):
        os.chdir(folder)
    sys.path += [place for place in path if place not in sys.path]


def work(order: str, given: bytes = b"") -> Iterator[str]:
    """The news of one task, as lines. Whatever goes wrong is news too."""
    failure: News | None = None
    try:
        asked = json.loads(order)
        settle(**asked.pop("home"))
        take(given)
        take_functions(asked.pop("functions"))
        for news in _news(**asked):
            yield to_line(news)
    except Exception as error:  # a user's code may fail in any way
        failure = news_of(error)
    if failure is not None:
        free_what_failed()
        yield to_line(failure)


def free_what_failed() -> None:
    """To be called outside of `except`, where the error still holds the memory of its stack."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def ticks(
    world: World,
    experiments: list[Experiment],
    store: Store,
    folder: Path,
    checkpoint_seconds: float,
    deterministic: bool = False,
    watch: Callable[[Moment], None] = lambda moment: None,
) -> Iterator[Tick]:
    """Run and record lanes of a world, with a tick after every round; and one before the first of
    a stack that goes on from a checkpoint, which says where it stands."""
    rehearse(world, experiments)
    unit = world.n * world.experiment.training.local_steps
    lanes: frozenset[str] = frozenset()
    before = fresh = 0
    moments = follow_world(world, experiments, store, folder, checkpoint_seconds, deterministic)
    for moment in moments:
        watch(moment)
        if moment.stack.keys[0] not in lanes:  # another stack: interrupted ones go on by themselves
            before += len(lanes) * world.rounds * unit
            lanes = frozenset(moment.stack.keys)
            if moment.phase == "before_server":
                done = moment.round - 1
                yield Tick(done, before + len(lanes) * done * unit, fresh)
        if moment.phase != "end":
            continue
        fresh += len(moment.stack) * unit
        yield Tick(moment.round, before + len(lanes) * moment.round * unit, fresh)


def _news(
    experiments: list[dict[str, Any]],
    fingerprints: dict[str, str],
    device: str,
    folder: str,
    token: str,
    checkpoint_seconds: float,
    threads: int,
    deterministic: bool = False,
) -> Iterator[News]:
    torch.set_num_threads(threads)
    with torch_is_deterministic(deterministic):
        yield from _computed(
            [Experiment.parse(table) for table in experiments],
            fingerprints,
            device,
            folder,
            token,
            checkpoint_seconds,
            deterministic,
        )


def _computed(
    lanes: list[Experiment],
    fingerprints: dict[str, str],
    device: str,
    folder: str,
    token: str,
    checkpoint_seconds: float,
    deterministic: bool,
) -> Iterator[News]:
    try:
        world = _worlds.of(lanes[0], device)
    except Exception as error:  # a user's data and model may fail in any way
        news = news_of(error)
        yield replace(news, whole_world=True) if isinstance(news, Failed) else news
        return
    if world.fingerprints != fingerprints:
        raise SkerryError(
            "a file or a model that the experiment names is another one where the driver runs. "
            "Give all machines the same."
        )
    with _own_folder(Path(folder), token) as own, Store.open(own) as store:
        told = float("-inf")  # the first tick says where a stack goes on
        done = store.finished(world.key(lane) for lane in lanes)
        waiting = [lane for lane in lanes if world.key(lane) not in done]
        if waiting:
            checkpoints = own / "checkpoints"
            for tick in ticks(
                world, waiting, store, checkpoints, checkpoint_seconds, deterministic
            ):
                if time.monotonic() - told >= TICK_SECONDS:
                    told = time.monotonic()
                    yield tick
        yield Done(tuple(_outcome(store, world.key(lane)) for lane in lanes))


def _outcome(store: Store, key: str) -> Outcome:
    run = store.run(key)
    assert run is not None, f"run {key} was recorded above"
    assert run.wall_seconds is not None, f"run {key} is finished"
    return Outcome(
        key,
        run.status,
        run.device,
        run.versions,
        run.wall_seconds,
        run.note,
        *Outcome.encoded(store.history(key)),
        store.devices(key),
    )


@contextmanager
def _own_folder(shared: Path, token: str) -> Iterator[Path]:
    """The given folder where it lies beside this driver's files, and no worker of a driver that
    was killed is still in it; else a temporary one."""
    lock = FileLock(f"{shared}.lock")
    if _reads(shared.parent / TOKEN) == token:
        try:
            lock.acquire(timeout=ORPHAN_SECONDS)
        except (Timeout, OSError, NotImplementedError):
            pass
        else:
            try:
                yield shared
            finally:
                lock.release()
            return
    with tempfile.TemporaryDirectory(prefix="skerry-") as own:
        yield Path(own)


def table_of(experiment: Experiment) -> dict[str, Any]:
    return experiment.model_dump(mode="json", exclude_unset=True)


def _reads(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def main() -> None:
    # Whatever a user's code prints must not come between the lines for the driver.
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    one_at_a_time = threading.Lock()

    def say(line: str) -> None:
        with one_at_a_time:
            lines.write(f"{line}\n")
            lines.flush()

    given = b64decode(sys.stdin.readline())
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    threading.Thread(target=_beat, args=(say,), daemon=True).start()
    while True:
        for line in work(orders.get(), given):
            say(line)


def _beat(say: Callable[[str], None]) -> None:
    """A round may take minutes: without this, a worker that hangs would look the same."""
    while True:
        time.sleep(BEAT_SECONDS)
        with suppress(OSError):  # the driver is gone, and so are we in a moment
            say(BEAT)


def _listen(orders: "queue.SimpleQueue[str]") -> None:
    """A worker lives no longer than its driver: when that is gone, however it ended, stdin ends."""
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
