"""How a command ends: whatever goes wrong is one line, and an exit code that says whose turn it is.

2: the input, which the user can put right. 1: the machine (a full disk, a folder that may not be
read, a library that is not there), or a fault of Skerry itself. 130 and 143: stopped by Ctrl-C, or
by a signal to terminate.
"""

import codecs
import errno
import io
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TextIO

from skerry.errors import (
    SkerryError,
    as_options,
    is_out_of_memory,
    one_line,
    out_of_memory,
    printable,
)

MACHINE, INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PLAIN = "skerry.plain"
_IN_ASCII = {
    "±": "+-", "×": "x", "·": ".", "→": "->", "≤": "<=", "≥": ">=", "–": "-", "—": "-",
    "α": "alpha", "β": "beta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "σ": "sigma",
}  # fmt: skip


# What went wrong


def tell(error: BaseException) -> int:
    """Print the line of an error, or the lines of several faults; gives the exit code."""
    code, lines = told(error)
    for line in lines:
        with suppress(OSError, ValueError):  # stderr may be full or closed: the code still tells
            print(printable(line), file=sys.stderr, flush=True)
    return code


def told(error: BaseException) -> tuple[int, list[str]]:
    """The exit code of an error, and what a user reads."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ["Stopped."]
    if isinstance(error, BrokenPipeError):
        return MACHINE, []  # whoever read the output has left: there is nobody to tell
    if isinstance(error, SkerryError):
        code, faults = INPUT, error.faults
    else:
        code, fault = _foreign(error)
        faults = [fault]
    return code, [f"error: {as_options(fault)}" for fault in faults]


def _foreign(error: BaseException) -> tuple[int, str]:
    """An error that no check of ours has found first."""
    if is_out_of_memory(error):
        return INPUT, out_of_memory(error)
    if isinstance(error, RecursionError):
        return INPUT, "the input is nested too deep to be read. Write it with fewer levels."
    if isinstance(error, UnicodeError):
        return INPUT, f"a text is not sound UTF-8 ({one_line(error)}). Save it as UTF-8."
    if isinstance(error, OSError):
        return _from_the_system(error)
    if isinstance(error, ImportError):
        return MACHINE, (
            f"a library cannot be loaded ({one_line(error)}). Install Skerry and its needs anew."
        )
    return MACHINE, (
        f"this is a fault of Skerry ({one_line(error)}). Please report it, with the experiment "
        "file; skerry --debug shows where it happened."
    )


def _from_the_system(error: OSError) -> tuple[int, str]:
    what = str(error.filename) if error.filename is not None else "the output"
    reason = error.strerror or one_line(error)
    if error.errno in _NO_ROOM:
        return (
            MACHINE,
            f"no room is left to write {what} ({reason}). Make room, or write elsewhere.",
        )
    if not _is_somewhere():
        return MACHINE, "the folder where you work is gone. Change to one that is there."
    if error.errno == errno.ENAMETOOLONG:
        return INPUT, f"a path is too long ({reason}: {what[:60]}...). Choose a shorter one."
    return MACHINE, f"cannot use {what} ({reason}). See that it is there and may be used."


def _is_somewhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


# Signals


@dataclass
class Signals:
    terminated: bool = False


class Terminated(KeyboardInterrupt):
    """A signal to terminate, treated like Ctrl-C: what was computed is kept."""


@contextmanager
def terminable() -> Iterator[Signals]:
    """Raise where a signal to terminate arrives, and note that it did."""
    signals = Signals()

    def stop(number: int, frame: FrameType | None) -> None:
        signals.terminated = True
        raise Terminated

    usual = signal.getsignal(signal.SIGTERM)
    if usual is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield signals  # whoever started this takes care of it
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, usual)


# Streams


def mend_streams() -> None:
    """Open the streams that the program was started without: a file would take their place, and
    what is printed would go there. And let none fail over a character that it cannot show."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            with suppress(OSError):
                if not _is_open(number):
                    os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    codecs.register_error(_PLAIN, _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def flushed(code: int) -> int:
    """The exit code, once all that was printed is written; it is another where that fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            _silence(stream)  # or Python would try again, and fail with lines of its own
            code = code or tell(error)
        except ValueError:
            pass  # closed already
    return code


def _silence(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    """For terminals without them: ± as +-, é as e, what has no likeness as a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(map(_plain, found)), error.end


def _plain(letter: str) -> str:
    alike = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _IN_ASCII.get(letter) or alike or "?"
