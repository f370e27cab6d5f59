"""Settings of this process while runs are computed: deterministic torch, and held signals.

Floating-point sums depend on the number of threads, on the lanes in the same products, and on a GPU
on the chunk of devices and on which kernel was the fastest. So a deterministic run is alone in its
stack, on one thread, and torch's own switch, which engine and kernels ask, fixes the rest.

While a round is computed the state belongs to no round, and nothing can be saved. So a signal that
ends the process is held until the end of the round. A second signal acts at once.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Self

import torch

from skerry.engine.ranks.group import Rank, RankGroup

DETERMINISTIC_THREADS = 1
DETERMINISTIC_LANES = 1
MARK = "deterministic"  # marks deterministic runs in their recorded versions


@contextmanager
def deterministic_torch(wanted: bool = True) -> Iterator[None]:
    """Make torch compute on one thread and always in the same order, if `wanted`."""
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when a GPU is first used
    threads, was_on = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    was_lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(DETERMINISTIC_THREADS)
    # Only a warning, because a user's model may need operations without a deterministic form.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(was_on, warn_only=was_lenient)


def run_conditions(lanes: int, deterministic: bool, ranks: RankGroup) -> dict[str, str]:
    """Conditions that affect the last bits of a run besides versions and machine, to record."""
    found = {"threads": str(torch.get_num_threads()), "lanes": str(lanes)}
    if isinstance(ranks, Rank):
        found["ranks"] = str(ranks.count)
    return {**found, MARK: "yes"} if deterministic else found


def was_deterministic(versions: Mapping[str, str]) -> bool:
    """Whether a run was computed deterministically, by its recorded versions."""
    return versions.get(MARK) == "yes"


SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class HeldSignals:
    """A context in which signals are held back; `act` delivers them to the previous handlers. In a
    thread, where Python receives no signals, it does nothing."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._holding = False
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._hold()
        return self

    def __exit__(self, *error: object) -> None:
        self._release()

    @property
    def is_stop_requested(self) -> bool:
        """Whether a signal was received."""
        return self._received is not None

    def act(self) -> None:
        """Deliver the received signal, if there is one; returns where its handler does."""
        if self._received is None:
            return
        number, self._received = self._received, None
        self._release()
        signal.raise_signal(number)
        self._hold()

    def _hold(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._holding = True
        for number in SIGNALS:
            before = _active_handler(signal.getsignal(number), number)
            # Ignored signals (nohup) stay ignored; handlers not set by Python (None) stay.
            if before not in (signal.SIG_IGN, None):
                self._before[number] = before
                signal.signal(number, self._receive)

    def _release(self) -> None:
        self._holding = False
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._receive:
                signal.signal(number, _active_handler(before, number))

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self._holding:  # released in a thread, where no handler can be restored
            signal.signal(number, _active_handler(self._before[number], number))
            signal.raise_signal(number)
        elif self._received is None:
            self._received = number
        else:
            self._received = number
            self.act()


def _active_handler(handler: "signal._HANDLER", number: int) -> "signal._HANDLER":
    """The handler, or the one before it where it belongs to a context that has ended. Contexts need
    not end in order: an abandoned run ends when its generator is collected."""
    owner = getattr(handler, "__self__", None)
    while isinstance(owner, HeldSignals) and not owner._holding:
        handler = owner._before[number]
        owner = getattr(handler, "__self__", None)
    return handler
