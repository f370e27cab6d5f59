"""How ranks reach each other: a few words that all of them say at the same time.

A rank is one of the processes that compute a run together (docs/large-runs.md). What is exchanged
and why stands in party.py; this is the wire, torch.distributed: NCCL between GPUs, gloo between
CPUs and for the few bytes by which ranks agree.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from skerry.errors import SkerryError, one_line

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets in the environment of every rank."""
PATIENCE = timedelta(minutes=30)
"""So long a rank waits for the others before it gives the run up."""
GRACE_SECONDS = 10.0
"""So long one that has lost the others waits to be ended by whoever started it, who knows more."""

CLOSING_SECONDS = 5.0


class Exchange(Protocol):
    """Every rank calls the same methods in the same order; tensors have the same shape on all."""

    rank: int
    ranks: int

    def add(self, tensor: Tensor) -> None:
        """Becomes the sum of all ranks' tensors, in place."""

    def largest(self, tensor: Tensor) -> None:
        """Becomes the largest of each number, in place."""

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """All ranks' rows, one rank after the other; each has its own number of them."""

    def swap(self, sends: Mapping[int, Tensor], receives: Mapping[int, Tensor]) -> None:
        """Send a tensor to some ranks, and fill others with what they send."""

    def tell(self, text: str) -> str:
        """What rank 0 says."""


class Distributed:
    """Over torch.distributed."""

    def __init__(self, device: torch.device):
        if not dist.is_available():
            raise SkerryError("this build of torch has no torch.distributed. Run without ranks.")
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        with _in_touch():
            dist.init_process_group(backend, timeout=PATIENCE)

    def close(self) -> None:
        """After an error others may be in the middle of something: they are not waited for long."""
        closing = threading.Thread(target=dist.destroy_process_group, daemon=True)
        closing.start()
        closing.join(CLOSING_SECONDS)

    def add(self, tensor: Tensor) -> None:
        with _in_touch():
            dist.all_reduce(tensor, dist.ReduceOp.SUM)

    def largest(self, tensor: Tensor) -> None:
        with _in_touch():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        found = [torch.empty_like(padded) for _ in counts]
        with _in_touch():
            dist.all_gather(found, padded)
        return torch.cat([part[:count] for part, count in zip(found, counts, strict=True)])

    def swap(self, sends: Mapping[int, Tensor], receives: Mapping[int, Tensor]) -> None:
        asked = [dist.P2POp(dist.isend, tensor, rank) for rank, tensor in sends.items()]
        asked += [dist.P2POp(dist.irecv, tensor, rank) for rank, tensor in receives.items()]
        with _in_touch():
            for request in dist.batch_isend_irecv(asked) if asked else []:
                request.wait()

    def tell(self, text: str) -> str:
        said = torch.tensor(list(text.encode()) if self.rank == 0 else [], dtype=torch.uint8)
        length = torch.tensor([len(said)])
        with _in_touch():
            dist.broadcast(length, 0)
            said = said if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(said, 0)
        return bytes(said.tolist()).decode()


@contextmanager
def _in_touch() -> Iterator[None]:
    """When a rank is gone, the others are told in torch's words, by its address. Whoever started
    them knows which it was, and ends them while they wait."""
    try:
        yield
    except RuntimeError as error:
        time.sleep(GRACE_SECONDS)
        raise SkerryError(
            f"another rank is gone or does not answer ({one_line(error)}). The same command goes "
            "on from the last checkpoint."
        ) from error
