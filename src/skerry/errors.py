"""Exceptions and warnings. A message says what is wrong, the rule, what was got, and the fix."""

import math
import os
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any


class SkerryError(Exception):
    """An error that a user can correct: one line, or one for each of several faults. The command
    line prints them and exits with code 2."""

    @property
    def faults(self) -> list[str]:
        """The lines of the message, one for each fault."""
        return [printable(str(fault)) for fault in self.args]

    def __str__(self) -> str:
        return "\n".join(self.faults)


class ExperimentError(SkerryError):
    """An experiment that cannot be run."""


class OtherCommandError(ExperimentError):
    """A file for another command, with which the message ends."""

    def __init__(self, message: str, name: str, path: str | Path, settings: Iterable[str]):
        self.given = message, name, path, tuple(settings)
        super().__init__(self.with_options())

    def with_options(self, **more: object) -> str:
        """The message, whose command has further options."""
        message, name, path, settings = self.given
        return (
            f"{message} Run it with: {skerry_command(name, Path(path), settings=settings, **more)}"
        )


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
        super().__init__(message)
        self.reason = printable(reason)


@contextmanager
def writing(file: object, end: str = ".") -> Iterator[None]:
    """Raise errors of the system as RecordsError, in a context that writes a file."""
    try:
        yield
    except OSError as error:
        raise RecordsError(
            f"cannot write {file} ({error.strerror}). Choose a folder that exists and can be "
            f"written{end}"
        ) from None


class CallbackError(SkerryError):
    """An error that a progress callback raised. `results` holds what was recorded until then."""

    results: Any = ()


class SkerryWarning(UserWarning):
    """A warning of one line, which the command line prints; the work goes on."""


@cache
def warn_once(line: str) -> None:
    """Issue a SkerryWarning, once per process: a world is built for every seed."""
    warnings.warn(printable(line), SkerryWarning, stacklevel=3)


def argument(name: str) -> str:
    """The name of an argument in a message: `last`. The command line shows it as --last."""
    return f"`{name}`"


def as_options(message: str) -> str:
    """A message with its arguments written as options of the command line."""
    return re.sub(r"`([a-z_]+)`", lambda found: f"--{found[1].replace('_', '-')}", message)


def unknown(kind: str, got: str, available: Iterable[str]) -> str:
    """`unknown topology 'rign'; did you mean 'ring'? Available: complete, grid, ring.`"""
    names = sorted(available)
    return f"unknown {kind} '{got}'{did_you_mean(got, names)} Available: {', '.join(names)}."


_SYNONYMS = {
    "training.stepsize": "lr learning_rate step_size eta client_lr local_lr",
    "training.batch": "batch_size batchsize bs minibatch minibatch_size",
    "training.local_epochs": "epochs epoch num_epochs e",
    "training.local_steps": "steps num_steps local_iterations local_updates local_iters tau",
    "training.optimizer": "client_optimizer local_optimizer",
    "training.schedule": "scheduler lr_schedule lr_scheduler",
    "training.weight_decay": "wd l2",
    "server.learning_rate": "lr server_lr global_lr server_learning_rate",
    "server.optimizer": "aggregator aggregation strategy server_optimizer",
    "server.sampled": "k cohort cohort_size clients_per_round devices_per_round fraction "
    "fraction_fit client_fraction sample_rate participation_rate",
    "server.period": "h frequency interval aggregate_every communication_period",
    "server.primitive": "algorithm protocol",
    "server.selection": "sampler client_selection device_selection",
    "network.devices": "n clients num_clients n_clients num_devices nodes num_nodes agents workers "
    "users",
    "network.components": "islands num_islands n_islands clusters num_clusters communities",
    "network.topology": "graph",
    "data.dataset": "data_name data_set",
    "data.alpha": "dirichlet dirichlet_alpha concentration",
    "data.intra": "partition partitioner iid non_iid",
    "model.hidden": "width hidden_size hidden_dim hidden_units hidden_layers units neurons",
    "model.width": "hidden hidden_size hidden_dim embedding d_model",
    "model.name": "arch architecture",
    "rounds": "num_rounds n_rounds t comm_rounds communication_rounds global_rounds iterations",
    "seed": "random_seed random_state",
    "stop": "early_stopping patience",
    "seeds": "num_seeds n_seeds repeats repetitions trials",
    "compare": "methods method algorithms algorithm primitives primitive strategies strategy",
    "out": "output output_dir out_dir folder dir save",
    "device": "gpu cuda",
    "cuda": "gpu",
}
"""By field, option or name, what other software and papers call it."""


def meant_by(word: str, names: Iterable[str]) -> list[str]:
    """The names, fields in full or by their last part, that go by this word elsewhere."""
    names, ours = list(names), [(path, path.rpartition(".")[2]) for path in _ours(word)]
    return [one for paths in ours for one in names if one.lstrip("-") in paths]


def _ours(word: str) -> list[str]:
    """The fields and options that go by this word elsewhere."""
    plain = word.rpartition(".")[2].strip("-").replace("-", "_").lower()
    return [path for path, words in _SYNONYMS.items() if plain in words.split()]


def nearest(got: str, names: Iterable[str]) -> list[str]:
    """The names that are called so elsewhere, or else the most similar ones: first of all those
    with the same letters in another order."""
    names, word = list(names), got.lower()
    if _ours(got):  # it is no slip of the fingers
        return meant_by(got, names)
    near = get_close_matches(word, names, n=9, cutoff=0.5)
    return sorted(near, key=lambda one: sorted(one) != sorted(word))


def did_you_mean(got: str, names: Iterable[str]) -> str:
    """The end of a sentence: a full stop, or a question with the nearest name."""
    near = nearest(got, names)
    return f"; did you mean '{near[0]}'?" if near else "."


def one_line(error: BaseException) -> str:
    """An error of other code in one line: `ValueError: its message`."""
    text = shorten(printable(" ".join(_text(error).split())), 200, placeholder=" ...")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(error)[:10_000]
    except BaseException as another:  # a user's own exception may fail to be printed
        if is_interrupt(another):
            raise
        return "its message cannot be read"


def printable(text: str, keep: str = "") -> str:
    """The text in one line: line ends and other control characters, also those that reverse what
    follows, are written as \\n or \\x1b, except those in `keep`. Names from files and stores pass
    through here before they reach a terminal, a table, a page or a picture."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def typed(word: object) -> str:
    """A path or another word as one types it in a POSIX shell, quoted where needed."""
    text = str(word)
    if text.isprintable() and "`" not in text:  # `out` would be shown as --out
        return shlex.quote(text)
    octal = "".join(f"\\{byte:03o}" for byte in os.fsencode(text))
    return f"\"$(printf '{octal}')\""


def skerry_command(*words: object, settings: Iterable[str] = (), **options: object) -> str:
    """A command that runs as it is printed: every message that suggests one gets it from here, and
    ends with it, or with four spaces after it. `settings` are given by --set; words and options
    that are None are left out, and an option that is True has no value."""
    given = [f"./{one}" if isinstance(one, Path) and str(one)[0] == "-" else one for one in words]
    for name, value in [*(("set", one) for one in settings), *options.items()]:
        if value is not None:
            given += [f"--{name.replace('_', '-')}", None if value is True else value]
    return " ".join(["skerry", *(typed(one) for one in given if one is not None)])


def short_repr(value: object, length: int = 60) -> str:
    """A value of other code in at most `length` printable characters."""
    try:
        return printable(repr(value))[:length]
    except Exception:  # such as a number of thousands of digits
        return f"a value of type {type(value).__name__}"


def as_number(
    value: Any, rule: str, least: float = -math.inf, most: float = math.inf, when: str = ""
) -> float:
    """A finite number from `least` to `most` that a plug-in gave, as a float: a number of Python,
    NumPy, torch, decimal or fractions. A SkerryError with the rule for everything else, also for
    truth values and for arrays with one number; `when` ends the part about what was received."""
    dtype = str(getattr(value, "dtype", type(value).__name__))
    found = math.nan
    if not isinstance(value, str | bytes) and "bool" not in dtype and "complex" not in dtype:
        with suppress(TypeError, ValueError, OverflowError, RuntimeError):
            found = float(value) if getattr(value, "shape", ()) == () else math.nan
    if not (math.isfinite(found) and least <= found <= most):
        raise SkerryError(f"{rule} (got {short_repr(value)}{when}).")
    return found


def is_interrupt(error: BaseException) -> bool:
    """Whether this is Ctrl-C or a signal, not an exception of a user's own."""
    own = type(error) is KeyboardInterrupt or type(error).__module__.startswith("skerry.")
    return isinstance(error, KeyboardInterrupt) and own


_FULL = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. A full GPU has its own error, known by name so that torch need not be
    loaded; for a full machine torch raises a RuntimeError with one of these texts."""
    if isinstance(error, RuntimeError):
        named = type(error).__name__ == "OutOfMemoryError"
        return named or any(words in _text(error) for words in _FULL)
    return isinstance(error, MemoryError)


def out_of_memory(error: BaseException) -> str:
    """The message for an error of memory."""
    return (
        f"out of memory ({one_line(error)}). Lower network.devices or training.batch, take less "
        "data or a smaller model, or compare fewer primitives at once."
    )
