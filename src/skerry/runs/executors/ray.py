"""The executor `ray`: jobs are tasks of a Ray cluster, a local one or one that exists already."""

import logging
import os
import secrets
import socket
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials
from skerry.errors import SkerryError, argument, one_line
from skerry.runs.executors import worker
from skerry.runs.executors.executor import POLL_SECONDS, Event, Failure, StackJob, Tick, WorldSurvey
from skerry.runs.executors.processes import WorkerExecutor
from skerry.runs.memory import Footprint

if TYPE_CHECKING:
    from types import ModuleType

ANSWER_SECONDS = 5.0
OBJECT_STORE = 2**28  # results are a few megabytes; Ray would take a third of the memory
CUDA_CONTEXT = 2**29  # what a process holds of a GPU before it computes anything
SHARES = (8, 4, 2)


class OnRay(WorkerExecutor):
    """Jobs on a Ray cluster; without an address, Ray runs on this machine during the sweep."""

    def __init__(
        self,
        *,
        device: str = "auto",
        workers: int | None = None,
        address: str | None = None,
        materials: Materials | None = None,
    ):
        super().__init__(materials)
        self._wanted, self._workers = device, workers
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._ray = _import_ray(on_loopback=not self._address)
        self._jobs: list[tuple[StackJob, Any]] = []  # submitted jobs with their streams of events
        self._joined = False

    def __enter__(self) -> Self:
        if not self._ray.is_initialized():
            self._join()
            self._joined = True
        try:
            self._inspect_cluster()
        except BaseException:
            self.__exit__()
            raise
        return self

    def cancel(self) -> None:
        for _, stream in self._jobs:
            self._ray.cancel(stream, force=True)
        self._jobs = []

    def __exit__(self, *error: object) -> None:
        self.cancel()
        if self._joined:
            self._ray.shutdown()
        self._remove_folder()

    def _survey(self, experiment: Experiment) -> WorldSurvey:
        order = worker.Order((experiment,), worker.pack_functions([experiment]), self._device)
        options = self._resources(1 / max(SHARES) if self._device == "cuda" else 0)
        remote = self._ray.remote(max_retries=3)(worker.survey).options(**options)
        try:
            found: WorldSurvey = self._ray.get(remote.remote(order, self._shared_materials))
            return found
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def sharers(self, footprint: Footprint) -> int:
        if self._device == "cuda":
            return 1  # every job requests its share of a GPU
        return max(1, int(self._largest_node // self._cpus))

    def submit(self, job: StackJob) -> None:
        footprint = job.survey.footprint
        gpus = gpu_share(footprint.need(len(job)), footprint.total)
        options = self._resources(gpus if self._device == "cuda" else 0)
        # The driver itself submits a job again when its worker is lost: it counts attempts, and
        # splits a stack that loses one worker after the other.
        remote = self._ray.remote(num_returns="streaming", max_retries=0)(worker.work)
        order = self._order(job, self._device, self._threads)
        stream = remote.options(**options).remote(order, self._shared_materials)
        self._jobs.append((job, stream))

    def events(self) -> list[tuple[StackJob, Event]]:
        if not self._jobs:
            return []
        ready, _ = self._ray.wait([stream for _, stream in self._jobs], timeout=POLL_SECONDS)
        waiting = [(job, one) for job, one in self._jobs if any(one is other for other in ready)]
        found = [(job, self._next(stream)) for job, stream in waiting]
        ended = {job for job, event in found if not isinstance(event, Tick)}
        self._jobs = [(job, stream) for job, stream in self._jobs if job not in ended]
        return found

    def _next(self, stream: Any) -> Event:
        exceptions = self._ray.exceptions
        try:
            event: Event = self._ray.get(next(stream))
            return event
        except exceptions.OutOfMemoryError as error:
            return Failure("memory", one_line(error))
        except exceptions.RayTaskError as error:
            return Failure("lanes", one_line(error.cause))
        except (exceptions.RayError, StopIteration) as error:
            return Failure("worker", f"its worker ended ({type(error).__name__})")

    @cached_property
    def _shared_materials(self) -> Any:
        """Objects given from Python, which the cluster stores once for all tasks."""
        return self._ray.put(self._packed_materials)

    def _resources(self, gpus: float) -> dict[str, float]:
        return {"num_cpus": self._cpus, "num_gpus": gpus}

    def _inspect_cluster(self) -> None:
        """Choose device and number of jobs by the resources of the cluster."""
        resources = self._ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 1)), int(resources.get("GPU", 0))
        if self._wanted.startswith("cuda") and not gpus:
            raise SkerryError("the Ray cluster has no GPU. Use device cpu or auto.")
        self._device = "cuda" if gpus and self._wanted != "cpu" else "cpu"
        nodes = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        self._largest_node = max([1, *nodes])
        self.slots = self._workers or (gpus * max(SHARES) if self._device == "cuda" else cpus)
        self._cpus = max(1, min(int(self._largest_node), cpus // self.slots))
        here = torch.get_num_threads() // self.slots
        self._threads = self._cpus if self._address else max(1, here)

    def _join(self) -> None:
        quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            if self._address:
                _check_address(self._address)
                self._ray.init(address=self._address, **quiet)
            else:
                self._ray.init(
                    address="local",
                    num_cpus=self._workers or os.cpu_count(),
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE,
                    **quiet,
                )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"at {self._address}" if self._address else "on this machine"
            raise SkerryError(
                f"no Ray cluster can be used {where} ({one_line(error)}). Check the address, and "
                "Ray's token if the cluster asks for one; or leave "
                f"{argument('ray_address')} out to start Ray on this machine."
            ) from error


def gpu_share(need: int, total: int) -> float:
    """The share of a GPU that a stack needs, by its bytes and those of the GPU."""
    return next((1 / n for n in SHARES if (need + CUDA_CONTEXT) * n <= total), 1.0)


def _import_ray(on_loopback: bool) -> "ModuleType":
    """Import Ray; a local one listens on loopback only and requires a token, which is written
    nowhere. Ray executes whatever code reaches its ports and reads these variables on import."""
    if on_loopback and "ray" not in sys.modules:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise SkerryError(
            "executor 'ray' needs Ray, which is not installed. Install it: pip install "
            "'skerry[ray]'"
        ) from None
    return ray  # type: ignore[no-any-return,unused-ignore]


def _check_address(address: str) -> None:
    """Check an address at once; Ray itself would try for a minute and print a lot."""
    if address.startswith("ray://"):
        raise ValueError("a ray:// address is a client's. Run on a machine of the cluster instead")
    host, colon, port = address.rpartition(":")
    if not colon:
        if address != "auto":
            raise ValueError("an address reads host:port, such as 10.0.0.1:6379, or auto")
        return
    if not port.isdigit():
        raise ValueError(f"'{port}' is no port; an address reads host:port, or auto")
    socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
