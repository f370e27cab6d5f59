"""What a driver lets other processes know: that it is at work, what it has set out to run, and how
far that is.

The first is told by its locks, the others by files beside its store. The plan goes when all of it
is done, so one that is there names work to do. How far runs are that are under way is told every
second: their rows reach the store with a checkpoint only.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.files import remove_file, replace_file

FILE = "plan.json"
UNDER_WAY = "under-way.json"
TELL_SECONDS = 1.0
CHECKPOINTS = "checkpoints"
WORKERS = "workers"


@dataclass(frozen=True)
class Planned:
    """A run that somebody has set out to compute."""

    key: str
    """Its content key, as far as its text alone tells."""
    text: str
    """A digest of that text: what lies outside of it changes the key, but not this."""
    steps: int
    """Device-steps."""

    @classmethod
    def of(cls, experiment: Experiment) -> "Planned":
        return cls(experiment.key(), text_digest(experiment), device_steps(experiment))


@dataclass(frozen=True)
class Plan:
    runs: tuple[Planned, ...]

    @cached_property
    def _places(self) -> dict[str, int]:
        by_text = {planned.text: i for i, planned in enumerate(self.runs)}
        return by_text | {planned.key: i for i, planned in enumerate(self.runs)}

    def place(self, key: str, text: str) -> int | None:
        """Where a recorded run stands in the plan."""
        return self._places.get(key, self._places.get(text))

    def __le__(self, other: "Plan") -> bool:
        return {planned.key for planned in self.runs} <= {planned.key for planned in other.runs}


def lock_world(folder: Path, world: str) -> FileLock | None:
    """The lock of a world, taken; None where another driver has it."""
    folder = folder / CHECKPOINTS
    lock = FileLock(folder / f"{world}.lock")
    try:
        folder.mkdir(exist_ok=True)
        lock.acquire(timeout=0)
    except (Timeout, FileNotFoundError):  # another driver has it, or has just tidied up
        return None
    except NotImplementedError:
        return lock  # a file system without locks; the store still keeps rows from mixing
    except OSError as error:
        raise RecordsError(
            f"cannot write to {folder} ({error.strerror}). Choose another folder."
        ) from None
    if not Path(lock.lock_file).exists():  # the one before has removed it in this instant
        lock.release()
        return None
    return lock


def unlock(lock: FileLock) -> None:
    if lock.is_locked:
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


@contextmanager
def announced(folder: Path, experiments: Sequence[Experiment]) -> Iterator[None]:
    """Announce runs while they are computed. A newer announcement takes the place of an older
    one; after an error or a kill it stays, until these runs are announced again and done."""
    plan = Plan(tuple(map(Planned.of, experiments)))
    _write(folder / FILE, plan)
    yield
    left = read_plan(folder)
    if left is not None and left <= plan:
        remove_file(folder / FILE)


def read_plan(folder: Path) -> Plan | None:
    """The newest announcement that is not done; None where there is none that can be read."""
    try:
        table = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Plan(tuple(Planned(str(k), str(t), int(s)) for k, t, s in table["runs"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


class UnderWay:
    """Tells how many rounds of runs are done, by their keys, as long as these are under way."""

    def __init__(self, folder: Path):
        self._file = folder / UNDER_WAY
        self._rounds: dict[str, int] = {}
        self._told = float("-inf")
        self.close()  # one that was killed may have left its own

    def at(self, keys: Sequence[str], round_: int) -> None:
        self._rounds |= dict.fromkeys(keys, round_)
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._tell()

    def over(self, keys: Sequence[str]) -> None:
        """These are finished, or begin anew."""
        for key in keys:
            self._rounds.pop(key, None)
        if self._told > float("-inf"):
            self._tell()

    def close(self) -> None:
        with suppress(OSError):
            remove_file(self._file)

    def _tell(self) -> None:
        self._told = time.monotonic()
        with suppress(OSError):
            replace_file(self._file, json.dumps(self._rounds).encode())


def read_under_way(folder: Path) -> Mapping[str, int]:
    """How many rounds are done of runs that are under way, as far as somebody tells."""
    try:
        table = json.loads((folder / UNDER_WAY).read_text(encoding="utf-8"))
        return {str(key): int(done) for key, done in table.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


class Place:
    """A folder that must stay where it is while something is recorded in it."""

    def __init__(self, folder: Path, *files: Path):
        self._folder = folder
        self._known = {path: _identity(path) for path in (folder, *files)}

    def check(self) -> None:
        for path, known in self._known.items():
            if _identity(path) != known:
                raise RecordsError(
                    f"{path} was removed, renamed or replaced while runs were recorded in it, so "
                    "what is computed from here on would be lost. Leave the folder alone until the "
                    "runs are done; the same command starts what is missing."
                )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def is_working(folder: Path) -> bool:
    """Whether a driver has a world of this folder."""
    return any(is_held(lock) for lock in (folder / CHECKPOINTS).glob("*.lock"))


def is_held(lock: Path) -> bool:
    """Whether a process holds this lock. Asked by a shared lock for an instant, which cannot wait
    and leaves the file as it is."""
    try:
        import fcntl
    except ImportError:  # a system whose locks cannot be asked: the file is gone when they are
        return lock.exists()
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # gone, or a file system without locks
        return False
    return False


def device_steps(experiment: Experiment) -> int:
    return experiment.rounds * experiment.network.devices * experiment.training.local_steps


def text_digest(experiment: Experiment) -> str:
    """Unlike a key it asks nothing of modules that the experiment names."""
    text = json.dumps(experiment.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(file: Path, plan: Plan) -> None:
    """Nobody's run shall fail because it could not be announced."""
    rows = [[planned.key, planned.text, planned.steps] for planned in plan.runs]
    with suppress(OSError):
        replace_file(file, json.dumps({"runs": rows}).encode())
