"""In other processes on this machine, and what all executors with workers of their own share."""

import os
import queue
import secrets
import shutil
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import torch

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, outside, pick_device
from skerry.errors import RecordsError, SkerryError
from skerry.records.store import Store
from skerry.runs.executors import worker
from skerry.runs.executors.executor import POLL_SECONDS
from skerry.runs.executors.messages import Lost, News, Survey, Task, Tick, from_line
from skerry.runs.grouping import shape
from skerry.runs.memory import Footprint
from skerry.runs.presence import WORKERS
from skerry.runs.progress import Watcher

SILENT_SECONDS = 120.0
"""A worker that says nothing for so long is given up; it says that it lives every few seconds."""
SAVING_SECONDS = 30.0
"""So long a driver that was stopped waits for its workers' checkpoints."""


class Workers(ABC):
    """What executors with workers of their own have in common."""

    slots: int

    def __init__(self, materials: Materials | None) -> None:
        self._materials = materials or Materials()
        self._given = worker.pack(self._materials)
        self._surveys: dict[str, Survey] = {}
        self._token = secrets.token_hex(8)
        self._folder: Path | None = None

    def survey(self, experiment: Experiment) -> Survey:
        """Worlds of one shape are surveyed once, unless their keys depend on files."""
        if outside(experiment, self._materials):
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
    heard: float = field(default_factory=time.monotonic)
    """When it last said something."""


class Processes(Workers):
    """A pool of processes on this machine. The cores are divided among them, and the GPUs."""

    def __init__(
        self,
        *,
        device: str = "auto",
        workers: int | None = None,
        address: str | None = None,
        materials: Materials | None = None,
    ):
        if address:
            raise SkerryError("executor 'processes' has no address. Take executor 'ray'.")
        super().__init__(materials)
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
        try:
            if error and error[0] is KeyboardInterrupt:
                self._let_workers_save()
        finally:
            self.drop()
            self.leave()

    def _let_workers_save(self) -> None:
        """They finish their round and leave a checkpoint; a second Ctrl-C does not wait for it."""
        working = [process for process in self._pool if process is not None and process.task]
        for process in working:
            process.popen.terminate()
        deadline = time.monotonic() + SAVING_SECONDS
        for process in working:
            with suppress(subprocess.TimeoutExpired):
                process.popen.wait(max(0.0, deadline - time.monotonic()))

    def drop(self) -> None:
        running = [process for process in self._pool if process is not None]
        for process in running:
            process.task = None
            process.popen.kill()
        for process in running:
            process.popen.wait()

    def survey_world(self, experiment: Experiment) -> Survey:
        found = worker.survey_of(
            worker.LastWorld(self._materials).of(experiment, str(self._device))
        )
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
        self._end_the_silent()
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

    def _end_the_silent(self) -> None:
        """A worker that has stopped answering is ended; its task goes to another one."""
        for process in self._pool:
            if process is not None and time.monotonic() - process.heard > SILENT_SECONDS:
                process.popen.kill()

    def _hear(self, process: _Process, line: str | None) -> tuple[Task, News] | None:
        task = process.task
        if line is None:
            self._pool[self._pool.index(process)] = None
            process.task = None
            return (task, Lost(f"its worker ended ({_ending(process)})")) if task else None
        if line.strip() == worker.BEAT:
            return None
        assert task is not None, "only a task has news"
        news = from_line(line)
        if not isinstance(news, Tick):
            process.task = None
        return task, news

    def _start(self) -> _Process:
        process = _Process(
            subprocess.Popen(
                [sys.executable, "-P", "-m", worker.__name__],  # -P: no library from this folder
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
        with suppress(OSError):  # it may be gone: then its last line will tell
            _say(process, b64encode(self._given).decode())
        return process

    def _listen(self, process: _Process) -> None:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            process.heard = time.monotonic()
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
