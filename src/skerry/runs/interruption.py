"""Ctrl-C and its kin, held until they can do no harm.

While a round is computed the state is neither that of the round before nor of the next, and nothing
can be saved. So a signal that ends the process waits for the end of the round. A second one, from
somebody who does not want to wait, acts at once.
"""

import signal
import threading
from types import FrameType
from typing import Self

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class HeldSignals:
    """A context in which signals wait. They act as they did before, once they are let go: the
    handlers of a program, or of the system, are only asked later. In a thread, where Python hears
    no signals, it does nothing."""

    def __init__(self) -> None:
        self._came: int | None = None
        self._holding = False
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._hold()
        return self

    def __exit__(self, *error: object) -> None:
        self._let_go()

    @property
    def one_has_come(self) -> bool:
        return self._came is not None

    def act(self) -> None:
        """Let the signal that has come act, if there is one. Where its handler returns, all goes
        on."""
        if self._came is None:
            return
        came, self._came = self._came, None
        self._let_go()
        signal.raise_signal(came)
        self._hold()

    def _hold(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._holding = True
        for number in SIGNALS:
            before = _living(signal.getsignal(number), number)
            # What is ignored (nohup) stays ignored; what is not Python's (None) is left alone.
            if before not in (signal.SIG_IGN, None):
                self._before[number] = before
                signal.signal(number, self._take)

    def _let_go(self) -> None:
        self._holding = False
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._take:
                signal.signal(number, _living(before, number))

    def _take(self, number: int, frame: FrameType | None) -> None:
        if not self._holding:  # let go in a thread, where no handler can be put back
            signal.signal(number, _living(self._before[number], number))
            signal.raise_signal(number)
        elif self._came is None:
            self._came = number
        else:
            self._came = number
            self.act()


def _living(handler: "signal._HANDLER", number: int) -> "signal._HANDLER":
    """Contexts need not end in the order of their beginning (a run that is left in the middle ends
    when its generator is collected): of those that have ended, the handler before them."""
    owner = getattr(handler, "__self__", None)
    while isinstance(owner, HeldSignals) and not owner._holding:
        handler = owner._before[number]
        owner = getattr(handler, "__self__", None)
    return handler
