"""Where stacks are computed: in this process, or in others on this machine.

An executor takes tasks and gives news; it neither plans nor records (sweep/driver.py does).
"""

import os
import queue
import secrets
import shutil
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import torch

from skerry.engine.world import Materials, outside, pick_device
from skerry.errors import RecordsError, SkerryError
from skerry.experiment import Experiment
from skerry.records import checkpoint
from skerry.records.store import Store
from skerry.sweep import worker
from skerry.sweep.announcement import CHECKPOINTS, WORKERS
from skerry.sweep.memory import Footprint
from skerry.sweep.plan import shape
from skerry.sweep.run import Watcher
from skerry.sweep.tasks import Done, Lost, News, Survey, Task, Tick, from_line, news_of

POLL_SECONDS = 0.2


class Executor(Protocol):
    slots: int
    """How many tasks may be under way at once."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

    def survey(self, experiment: Experiment) -> Survey:
        """What a plan must know of the experiment's world; raises what building it raises."""

    def sharers(self, footprint: Footprint) -> int:
        """How many stacks share the memory of one machine or of one GPU."""

    def begin(self, store: Store, watcher: Watcher, checkpoint_seconds: float) -> None:
        """Tasks follow; the store is the driver's."""

    def submit(self, task: Task) -> None: ...

    def news(self) -> list[tuple[Task, News]]:
        """What has come in; waits for it a little while."""

    def clear(self, world: str) -> None:
        """Remove what was kept of a world (its key) so that it could go on."""


class Here:
    """In this process, one stack after the other. Rows and checkpoints go to the driver's store
    as they come."""

    slots = 1

    def __init__(
        self,
        *,
        device: str = "auto",
        workers: int | None = None,
        address: str | None = None,
        materials: Materials | None = None,
    ):
        if (workers or 1) > 1 or address:
            raise SkerryError(
                "executor 'here' is this process alone. For several workers take --executor "
                "processes, for a cluster --executor ray."
            )
        self._device = str(pick_device(device))
        self._worlds = worker.LastWorld(materials)
        self._under_way: tuple[Task, Iterator[News]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def survey(self, experiment: Experiment) -> Survey:
        return worker.survey_of(self._worlds.of(experiment, self._device))

    def sharers(self, footprint: Footprint) -> int:
        return 1

    def begin(self, store: Store, watcher: Watcher, checkpoint_seconds: float) -> None:
        self._store, self._watcher, self._checkpoint_seconds = store, watcher, checkpoint_seconds
        self._checkpoints = store.path.parent / CHECKPOINTS

    def submit(self, task: Task) -> None:
        self._under_way = task, self._compute(task)

    def news(self) -> list[tuple[Task, News]]:
        if self._under_way is None:
            return []
        task, steps = self._under_way
        return [(task, next(steps))]

    def clear(self, world: str) -> None:
        for file in self._checkpoints.glob(f"{world}-*"):
            checkpoint.remove(file)

    def _compute(self, task: Task) -> Iterator[News]:
        last: News = Done()
        try:
            yield from worker.ticks(
                self._worlds.of(task.experiments[0], self._device),
                list(task.experiments),
                self._store,
                self._checkpoints,
                self._checkpoint_seconds,
                self._watcher.moment,
            )
        except RecordsError:
            raise
        except Exception as error:  # a user's code may fail in any way
            last = news_of(error)
        if not isinstance(last, Done):
            worker.free_what_failed()
        self._under_way = None
        yield last


class Workers(ABC):
    """What executors with workers of their own have in common."""

    slots: int

    def __init__(self) -> None:
        self._surveys: dict[str, Survey] = {}
        self._token = secrets.token_hex(8)
        self._folder: Path | None = None

    def survey(self, experiment: Experiment) -> Survey:
        """Worlds of one shape are surveyed once, unless their keys depend on files."""
        if outside(experiment, Materials()):
            return self.survey_world(experiment)
        name = shape(experiment)
        if name not in self._surveys:
            self._surveys[name] = self.survey_world(experiment)
        return self._surveys[name]

    @abstractmethod
    def survey_world(self, experiment: Experiment) -> Survey: ...

    def begin(self, store: Store, watcher: Watcher, checkpoint_seconds: float) -> None:
        self._checkpoint_seconds = checkpoint_seconds
        self._folder = store.path.parent.absolute() / WORKERS
        try:
            self._folder.mkdir(exist_ok=True)
            (self._folder / worker.TOKEN).write_text(self._token)
        except OSError as error:
            raise RecordsError(
                f"cannot write to {self._folder} ({error.strerror}). Choose another folder."
            ) from None

    def order(self, task: Task, device: str, threads: int) -> str:
        assert self._folder is not None, "begin comes first"
        folder = self._folder / task.name
        return worker.order(task, device, folder, self._token, self._checkpoint_seconds, threads)

    def clear(self, world: str) -> None:
        assert self._folder is not None, "begin comes first"
        for path in self._folder.glob(f"{world}-*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove the workers' folder, unless there is something in it to go on from."""
        if self._folder is not None and {path.name for path in self._folder.glob("*")} <= {
            worker.TOKEN
        }:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class _Process:
    popen: "subprocess.Popen[str]"
    task: Task | None = None


class Processes(Workers):
    """A pool of processes on this machine. The cores are divided among them, and the GPUs."""

    def __init__(
        self, *, device: str = "auto", workers: int | None = None, address: str | None = None
    ):
        if address:
            raise SkerryError("executor 'processes' has no address. Take --executor ray.")
        super().__init__()
        self._device = pick_device(device)
        self._gpus = torch.cuda.device_count() if device in ("auto", "cuda") else 1
        on_gpu = self._device.type == "cuda"
        self.slots = workers or (self._gpus if on_gpu else (os.cpu_count() or 1))
        self._threads = max(1, torch.get_num_threads() // self.slots)
        self._pool: list[_Process | None] = [None] * self.slots
        self._lines: queue.SimpleQueue[tuple[_Process, str | None]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._pool:
            if process is not None:
                process.popen.kill()
        for process in self._pool:
            if process is not None:
                process.popen.wait()
        self.leave()

    def survey_world(self, experiment: Experiment) -> Survey:
        found = worker.survey_of(worker.LastWorld().of(experiment, str(self._device)))
        return replace(found, world=None)  # the workers build worlds of their own

    def sharers(self, footprint: Footprint) -> int:
        return -(-self.slots // self._gpus) if self._device.type == "cuda" else self.slots

    def submit(self, task: Task) -> None:
        slot = next(i for i, one in enumerate(self._pool) if one is None or one.task is None)
        process = self._pool[slot] or self._start()
        self._pool[slot] = process
        process.task = task
        device = str(self._device)
        if device == "cuda" and self._gpus > 1:
            device = f"cuda:{slot % self._gpus}"
        with suppress(OSError):  # it may be gone: then its last line will tell
            _say(process, self.order(task, device, self._threads))

    def news(self) -> list[tuple[Task, News]]:
        found = []
        wait = True
        while line := self._next_line(wait):
            wait = False
            if news := self._hear(*line):
                found.append(news)
        return found

    def _next_line(self, wait: bool) -> tuple[_Process, str | None] | None:
        try:
            return self._lines.get(timeout=POLL_SECONDS if wait else 0)
        except queue.Empty:
            return None

    def _hear(self, process: _Process, line: str | None) -> tuple[Task, News] | None:
        task = process.task
        if line is None:
            self._pool[self._pool.index(process)] = None
            process.task = None
            return (task, Lost(f"its worker ended ({_ending(process)})")) if task else None
        assert task is not None, "only a task has news"
        news = from_line(line)
        if not isinstance(news, Tick):
            process.task = None
        return task, news

    def _start(self) -> _Process:
        process = _Process(
            subprocess.Popen(
                [sys.executable, "-m", worker.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                # Ctrl-C is for the driver alone.
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": str(self._threads)},
            )
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: _Process) -> None:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            self._lines.put((process, line))
        process.popen.wait()
        self._lines.put((process, None))


def _say(process: _Process, line: str) -> None:
    assert process.popen.stdin is not None
    process.popen.stdin.write(f"{line}\n")
    process.popen.stdin.flush()


def _ending(process: _Process) -> str:
    code = process.popen.returncode
    return f"signal {-code}" if code < 0 else f"exit code {code}"
