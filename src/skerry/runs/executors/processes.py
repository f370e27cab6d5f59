"""The executor `processes`: workers on this machine; and what all executors with workers share."""

import os
import pickle
import queue
import secrets
import shutil
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, outside, pick_device
from skerry.errors import RecordsError, SkerryError
from skerry.records.store import Store, versions
from skerry.runs.executors import worker
from skerry.runs.executors.executor import (
    POLL_SECONDS,
    Event,
    Failure,
    StackJob,
    Tick,
    WorldCache,
    WorldSurvey,
    memory_shape,
    survey_world,
)
from skerry.runs.launch import terminate_and_wait
from skerry.runs.memory import Footprint
from skerry.runs.progress import Progress

WORKER_FOLDER = "workers"
SILENT_SECONDS = 120.0  # silence that ends a worker, which sends a heartbeat every few seconds
SAVING_SECONDS = 30.0  # how long a driver that was stopped waits for its workers' checkpoints


class WorkerExecutor(ABC):
    """Base of executors whose workers are other processes."""

    slots: int

    def __init__(self, materials: Materials | None) -> None:
        self._materials = materials or Materials()
        self._packed_materials = worker.pack_materials(self._materials)
        self._surveys: dict[str, WorldSurvey] = {}
        self._token = secrets.token_hex(8)
        self._folder: Path | None = None

    def survey(self, experiment: Experiment) -> WorldSurvey:
        """Worlds of one shape are surveyed once, unless their keys depend on files."""
        if outside(experiment, self._materials):
            return self._survey(experiment)
        name = memory_shape(experiment)
        if name not in self._surveys:
            self._surveys[name] = self._survey(experiment)
        return self._surveys[name]

    @abstractmethod
    def _survey(self, experiment: Experiment) -> WorldSurvey: ...

    def start(self, store: Store, progress: Progress, checkpoint_seconds: float) -> None:
        self._store, self._checkpoint_seconds = store, checkpoint_seconds
        self._folder = store.path.parent.absolute() / WORKER_FOLDER
        try:
            self._folder.mkdir(exist_ok=True)
            (self._folder / worker.TOKEN).write_text(self._token)
        except OSError as error:
            raise RecordsError(
                f"cannot write to {self._folder} ({error.strerror}). Choose another folder."
            ) from None

    def _order(self, job: StackJob, device: str, threads: int) -> worker.Order:
        """The order for a job, whose runs are recorded as running from here on."""
        assert self._folder is not None, "start comes first"
        self._store.begin(
            dict(zip(job.keys, job.experiments, strict=True)),
            materials=job.survey.fingerprints,
            world=job.world,
            versions=versions(),
        )
        return worker.Order(
            job.experiments,
            worker.pack_functions(job.experiments),
            device,
            job.survey.fingerprints,
            deterministic=job.deterministic,
            folder=self._folder / job.name,
            token=self._token,
            checkpoint_seconds=self._checkpoint_seconds,
            threads=threads,
        )

    def clear(self, world: str) -> None:
        assert self._folder is not None, "start comes first"
        for path in self._folder.glob(f"{world}-*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _remove_folder(self) -> None:
        """Remove the workers' folder, unless it holds checkpoints."""
        if self._folder and all(path.name == worker.TOKEN for path in self._folder.glob("*")):
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class _Process:
    popen: "subprocess.Popen[bytes]"
    job: StackJob | None = None
    heard: float = field(default_factory=time.monotonic)  # when it last sent something

    def send(self, message: Any) -> None:
        assert self.popen.stdin is not None
        with suppress(OSError):  # if it has ended, its listener reports that
            pickle.dump(message, self.popen.stdin, pickle.HIGHEST_PROTOCOL)
            self.popen.stdin.flush()


_ENDED = object()


class Processes(WorkerExecutor):
    """A pool of processes on this machine that share its cores and GPUs."""

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
        self._messages: queue.SimpleQueue[tuple[_Process, Any]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()
        self._remove_folder()

    def interrupt(self) -> None:
        """End all jobs after their round, with a checkpoint of each."""
        working = [process.popen for process in self._pool if process and process.job]
        terminate_and_wait(working, SAVING_SECONDS)
        self.cancel()

    def cancel(self) -> None:
        running = [process for process in self._pool if process is not None]
        for process in running:
            process.job = None
            process.popen.kill()
        for process in running:
            process.popen.wait()

    def _survey(self, experiment: Experiment) -> WorldSurvey:
        world = WorldCache(self._materials).get(experiment, str(self._device))
        return replace(survey_world(world), world=None)  # workers build their own

    def sharers(self, footprint: Footprint) -> int:
        return -(-self.slots // self._gpus) if self._device.type == "cuda" else self.slots

    def submit(self, job: StackJob) -> None:
        slot = next(i for i, one in enumerate(self._pool) if one is None or one.job is None)
        process = self._pool[slot] or self._start()
        self._pool[slot] = process
        process.job = job
        device = str(self._device)
        if device == "cuda" and self._gpus > 1:
            device = f"cuda:{slot % self._gpus}"
        process.send(self._order(job, device, self._threads))

    def events(self) -> list[tuple[StackJob, Event]]:
        for process in self._pool:
            if process is not None and time.monotonic() - process.heard > SILENT_SECONDS:
                process.popen.kill()  # its job goes to another worker
        found, timeout = [], POLL_SECONDS
        with suppress(queue.Empty):
            while True:
                if event := self._receive(*self._messages.get(timeout=timeout)):
                    found.append(event)
                timeout = 0
        return found

    def _receive(self, process: _Process, message: Any) -> tuple[StackJob, Event] | None:
        job = process.job
        if message is _ENDED:
            self._pool[self._pool.index(process)] = None
            process.job, code = None, process.popen.returncode
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            return (job, Failure("worker", f"its worker ended ({ending})")) if job else None
        if message is worker.HEARTBEAT:
            return None
        assert job is not None, "only a job has events"
        if not isinstance(message, Tick):
            process.job = None
        return job, message

    def _start(self) -> _Process:
        process = _Process(
            subprocess.Popen(
                [sys.executable, "-P", "-m", worker.__name__],  # -P: no library from this folder
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the driver alone
                env={**os.environ, "OMP_NUM_THREADS": str(self._threads)},
            )
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        process.send(self._packed_materials)
        return process

    def _listen(self, process: _Process) -> None:
        """Queue what a worker sends, in a thread of its own."""
        assert process.popen.stdout is not None
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                message = pickle.load(process.popen.stdout)  # noqa: S301 - from our worker
                process.heard = time.monotonic()
                self._messages.put((process, message))
        process.popen.wait()
        self._messages.put((process, _ENDED))
