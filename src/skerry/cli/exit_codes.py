"""Exit codes, one-line error messages, signals and output streams of the `skerry` command.

Exit code 2: wrong input, which the user can correct. 1: a problem of the machine (a full disk, a
folder without read permission, a missing library) or a bug in Skerry. 130 and 143: stopped by
Ctrl-C or by SIGTERM.
"""

import codecs
import errno
import io
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from skerry import errors
from skerry.errors import SkerryError, one_line, printable

MACHINE_ERROR, INPUT_ERROR, INTERRUPTED, TERMINATED = 1, 2, 130, 143
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ASCII_FALLBACK = "skerry.ascii"
_ASCII_NAMES = {
    "±": "+-", "×": "x", "·": ".", "→": "->", "≤": "<=", "≥": ">=", "–": "-", "—": "-",
    "α": "alpha", "β": "beta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "σ": "sigma",
}  # fmt: skip


def print_error(error: BaseException) -> int:
    """Print an error to stderr, one line for each fault, and return the exit code."""
    code, lines = describe_error(error)
    for line in lines:
        with suppress(OSError, ValueError):  # stderr may be full or closed; the code still counts
            print(printable(line), file=sys.stderr, flush=True)
    return code


def describe_error(error: BaseException) -> tuple[int, list[str]]:
    """Return the exit code of an error and the lines that a user reads."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ["Stopped."]
    if isinstance(error, BrokenPipeError):
        return MACHINE_ERROR, []  # the reader of the output has closed it
    if isinstance(error, SkerryError):
        code, faults = INPUT_ERROR, error.faults
    else:
        code, fault = _unexpected_error(error)
        faults = [fault]
    return code, [f"error: {errors.as_options(fault)}" for fault in faults]


def _unexpected_error(error: BaseException) -> tuple[int, str]:
    """Exit code and message of an error that no check of Skerry's own has found first."""
    if errors.is_out_of_memory(error):
        return INPUT_ERROR, errors.out_of_memory(error)
    if isinstance(error, RecursionError):
        return INPUT_ERROR, "the input is nested too deep to be read. Write it with fewer levels."
    if isinstance(error, UnicodeError):
        return INPUT_ERROR, f"a text is not valid UTF-8 ({one_line(error)}). Save it as UTF-8."
    if isinstance(error, OSError):
        return _system_error(error)
    if isinstance(error, ImportError):
        return MACHINE_ERROR, (
            f"a library cannot be loaded ({one_line(error)}). "
            "Reinstall skerry and its dependencies."
        )
    return MACHINE_ERROR, (
        f"this is a bug in Skerry ({one_line(error)}). Please report it, with the experiment "
        "file; the same command with --debug shows where it happened."
    )


def _system_error(error: OSError) -> tuple[int, str]:
    path = str(error.filename) if error.filename is not None else "the output"
    reason = error.strerror or one_line(error)
    if error.errno in _DISK_FULL:
        return (
            MACHINE_ERROR,
            f"no space is left to write {path} ({reason}). Free some space, or write elsewhere.",
        )
    if not _succeeds(os.getcwd):
        return MACHINE_ERROR, "the working folder no longer exists. Change to one that does."
    if error.errno == errno.ENAMETOOLONG:
        return INPUT_ERROR, f"a path is too long ({reason}: {path[:60]}...). Choose a shorter one."
    return MACHINE_ERROR, (
        f"cannot use {path} ({reason}). Check that it exists and that you have permission."
    )


def _succeeds(system_call: Callable[..., object], *arguments: object) -> bool:
    try:
        system_call(*arguments)
    except OSError:
        return False
    return True


class TerminationSignal(KeyboardInterrupt):
    """SIGTERM has arrived; handled like Ctrl-C, so that finished work is kept."""


@contextmanager
def raise_on_sigterm() -> Iterator[list[int]]:
    """Raise `TerminationSignal` when SIGTERM arrives, and add its number to the list."""
    arrived: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        raise TerminationSignal

    usual = signal.getsignal(signal.SIGTERM)
    if usual is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield arrived  # the program that started this one handles the signal
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield arrived
    finally:
        signal.signal(signal.SIGTERM, usual)


def repair_streams() -> None:
    """Open missing standard streams, and replace characters that a stream cannot encode.

    Without this, the next file that is opened would get the number of a missing stream, and printed
    text would be written into it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            with suppress(OSError):
                if not _succeeds(os.fstat, number):  # it is closed
                    os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    codecs.register_error(_ASCII_FALLBACK, _replace_by_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ASCII_FALLBACK)


def flush_streams(code: int) -> int:
    """Flush stdout and stderr; return the exit code, which changes if flushing fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # Silenced, or Python would try again, and fail with lines of its own.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or print_error(error)
        except ValueError:
            pass  # closed already
    return code


def _replace_by_ascii(error: UnicodeError) -> tuple[str, int]:
    """Codec error handler: ± becomes +-, é becomes e, anything else a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = ""
    for letter in error.object[error.start : error.end]:
        decomposed = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
        plain += _ASCII_NAMES.get(letter) or decomposed or "?"
    return plain, error.end
