"""Collective communication between ranks, over torch.distributed.

A rank is one of the processes that compute a run together (docs/large-runs.md). NCCL connects GPUs;
gloo connects CPUs and carries the few bytes by which ranks agree. `ranks/group.py` says what is
exchanged and why.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from skerry.errors import SkerryError, one_line

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets in the environment of every rank."""
PATIENCE = timedelta(minutes=30)
"""The time that a rank waits for the others before it gives up the run."""
GRACE_SECONDS = 10.0
"""The time that a rank without the others waits for the process that started it to end it."""

CLOSING_SECONDS = 5.0


class Communicator(Protocol):
    """Every rank calls the same methods in the same order; tensors have the same shape on all."""

    rank: int
    ranks: int

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by the sum over all ranks, in place."""

    def largest(self, tensor: Tensor) -> None:
        """Replace each number by the largest of all ranks, in place."""

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all ranks in order; `counts` are the rows of each."""

    def swap(self, sends: Mapping[int, Tensor], receives: Mapping[int, Tensor]) -> None:
        """Send a tensor to some ranks, and fill tensors with what other ranks send."""

    def broadcast(self, text: str) -> str:
        """The text of rank 0."""


class TorchCommunicator:
    """Communicates over torch.distributed."""

    def __init__(self, device: torch.device):
        if not dist.is_available():
            raise SkerryError("this build of torch has no torch.distributed. Run without ranks.")
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        with _connection_errors():
            store = _store(self.rank, self.ranks)
            own = {"store": store, "rank": self.rank, "world_size": self.ranks}
            dist.init_process_group(backend, timeout=PATIENCE, **(own if store else {}))

    def close(self) -> None:
        """Close the connection, without waiting long for ranks that may be busy after an error."""
        closing = threading.Thread(target=dist.destroy_process_group, daemon=True)
        closing.start()
        closing.join(CLOSING_SECONDS)

    def add(self, tensor: Tensor) -> None:
        with _connection_errors():
            dist.all_reduce(tensor, dist.ReduceOp.SUM)

    def largest(self, tensor: Tensor) -> None:
        with _connection_errors():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        found = [torch.empty_like(padded) for _ in counts]
        with _connection_errors():
            dist.all_gather(found, padded)
        return torch.cat([part[:count] for part, count in zip(found, counts, strict=True)])

    def swap(self, sends: Mapping[int, Tensor], receives: Mapping[int, Tensor]) -> None:
        operations = [dist.P2POp(dist.isend, tensor, rank) for rank, tensor in sends.items()]
        operations += [dist.P2POp(dist.irecv, tensor, rank) for rank, tensor in receives.items()]
        with _connection_errors():
            for request in dist.batch_isend_irecv(operations) if operations else []:
                request.wait()

    def broadcast(self, text: str) -> str:
        sent = torch.tensor(list(text.encode()) if self.rank == 0 else [], dtype=torch.uint8)
        length = torch.tensor([len(sent)])
        with _connection_errors():
            dist.broadcast(length, 0)
            sent = sent if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(sent, 0)
        return bytes(sent.tolist()).decode()


def _store(rank: int, ranks: int) -> Any:
    """The store through which ranks find each other. It listens on MASTER_ADDR, which is loopback
    with --ranks; the one that torch would start listens on all interfaces. None under torchrun,
    which has started its own."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    own: dict[str, Any] = {}
    if rank == 0:
        with suppress(OSError):  # an address of another machine in front: torch listens by itself
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            own["master_listen_fd"] = socket.create_server((host, port), family=family).detach()
    return dist.TCPStore(  # type: ignore[attr-defined]
        host, port, ranks, rank == 0, timeout=PATIENCE, **own
    )


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Turn torch's error about a lost rank into a SkerryError.

    The process that started the ranks knows which one is gone, and ends the others while they wait.
    """
    try:
        yield
    except RuntimeError as error:
        time.sleep(GRACE_SECONDS)
        raise SkerryError(
            f"another rank is gone or does not answer ({one_line(error)}). The same command goes "
            "on from the last checkpoint."
        ) from error
