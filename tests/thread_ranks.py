"""Ranks as threads of one process: the engine's own arithmetic, over a wire that is a list."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from skerry.engine.world import build_world

BUILDING = threading.Lock()
"""Modules draw their initial weights from torch's global state, which threads share."""


def build(*given, exchange, **options):
    with BUILDING:
        return build_world(*given, exchange=exchange, **options)


class Thread:
    """One rank's end of the wire (engine/ranks/exchange.py)."""

    def __init__(self, rank, ranks, barrier, desk):
        self.rank, self.ranks = rank, ranks
        self._barrier, self._desk = barrier, desk

    def add(self, tensor):
        tensor.copy_(torch.stack(self._all(tensor)).sum(dim=0))

    def largest(self, tensor):
        tensor.copy_(torch.stack(self._all(tensor)).amax(dim=0))

    def gather(self, rows, counts):
        found = self._all(rows)
        assert [len(part) for part in found] == list(counts)
        return torch.cat(found)

    def swap(self, sends, receives):
        sent = self._all(sends)
        for other, tensor in receives.items():
            tensor.copy_(sent[other].pop(self.rank))
        self._barrier.wait()
        assert not sends, "sent, but nobody has taken it"

    def broadcast(self, text):
        return self._all(text)[0]

    def _all(self, own):
        """What every rank lays on the desk, by rank."""
        self._desk[self.rank] = own.clone() if isinstance(own, torch.Tensor) else own
        self._barrier.wait(timeout=60)
        found = list(self._desk)
        self._barrier.wait(timeout=60)
        return found


def together(ranks, work):
    """What `work(exchange)` gives on each of so many ranks."""
    barrier, desk = threading.Barrier(ranks), [None] * ranks

    def one(rank):
        try:
            return work(Thread(rank, ranks, barrier, desk))
        except BaseException:
            barrier.abort()  # or the others would wait
            raise

    with ThreadPoolExecutor(ranks) as pool:
        asked = [pool.submit(one, rank) for rank in range(ranks)]
        faults = [fault for one in asked if (fault := one.exception())]
        told = [f for f in faults if not isinstance(f, threading.BrokenBarrierError)]
        if faults:
            raise (told or faults)[0]
        return [one.result() for one in asked]
