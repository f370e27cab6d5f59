"""One family of exceptions. A message says what is wrong, the rule, what was got, and the fix."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from textwrap import shorten


class SkerryError(Exception):
    """Anything a user can put right: one line, or one for each of several faults. The command
    line prints them and exits with 2."""

    @property
    def faults(self) -> list[str]:
        return [str(fault) for fault in self.args]

    def __str__(self) -> str:
        return "\n".join(self.faults)


class ExperimentError(SkerryError):
    """An experiment that cannot be run."""


class NetworkError(SkerryError):
    """A graph or a mixing matrix that breaks the rules of D2D communication."""


class DataError(SkerryError):
    """A data set that is missing, damaged, or cannot be split as asked."""


class ModelError(SkerryError):
    """A model that cannot be trained as one of many in a stack."""


class RecordsError(SkerryError):
    """A store or checkpoint that cannot be read or written."""


class DamagedError(RecordsError):
    """A store, run or checkpoint whose content is not what was written."""

    def __init__(self, message: str, *, reason: str):
        super().__init__(escape_surrogates(message))
        self.reason = escape_surrogates(reason)


class SkerryWarning(UserWarning):
    """What a user should know though nothing stops: one line, which the command line prints."""


def argument(name: str) -> str:
    """An argument of a function, as a message names it: `last`. The command line, whose users know
    it as an option, shows --last instead."""
    return f"`{name}`"


def as_options(message: str) -> str:
    """The same message for the command line."""
    return re.sub(r"`([a-z_]+)`", lambda found: f"--{found[1].replace('_', '-')}", message)


def unknown(kind: str, got: str, available: Iterable[str]) -> str:
    """`unknown topology 'rign'; did you mean 'ring'? Available: complete, grid, ring.`"""
    names = sorted(available)
    return f"unknown {kind} '{got}'{did_you_mean(got, names)} Available: {', '.join(names)}."


def did_you_mean(got: str, names: Iterable[str]) -> str:
    """The end of a sentence: a full stop, or the question whether a near name was meant."""
    near = get_close_matches(got.lower(), list(names), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else "."


def one_line(error: BaseException) -> str:
    """A foreign error inside a message of ours: `ValueError: what it says`."""
    said = shorten(str(error), 200, placeholder=" ...")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def printable(text: str) -> str:
    """In one line, whatever it quotes: line ends and other signs that a terminal obeys are written
    out as \\n or \\x1b."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escape_surrogates(text: str) -> str:
    """Text as it can be printed: bytes of a damaged file that are no text are written out."""
    return text.encode("utf-8", "backslashreplace").decode()


_FULL = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """A full GPU has an error of its own (torch need not be loaded to know it by its name); torch
    tells a full machine only in words."""
    if isinstance(error, RuntimeError):
        named = type(error).__name__ == "OutOfMemoryError"
        return named or any(words in str(error) for words in _FULL)
    return isinstance(error, MemoryError)


def out_of_memory(error: BaseException) -> str:
    return (
        f"out of memory ({one_line(error)}). Lower network.devices or training.batch, take less "
        "data or a smaller model, or compare fewer primitives at once."
    )
