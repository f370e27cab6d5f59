"""Drivers at work in a store's folder: locks of worlds, and two tables that `skerry watch` reads.

A driver keeps a row in the table `drivers` while it works: host, process, planned runs, and a
heartbeat that a thread renews every second. The table `progress` holds the rounds done of runs in
progress, because their histories reach the store only with a checkpoint. A driver that was killed
is recognised by its missing process, or by its old heartbeat where it ran on another machine.
"""

import hashlib
import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.files import is_file

CHECKPOINT_FOLDER = "checkpoints"
HEARTBEAT_SECONDS = 1.0
STALE_SECONDS = 30.0  # a driver whose heartbeat is older is gone
BUSY_SECONDS = 5.0

DRIVER_TABLE = "drivers"
DRIVER_COLUMNS = "number, host, pid, heartbeat, plan"
DRIVER_SCHEMA = (
    f"""CREATE TABLE {DRIVER_TABLE} (
        number INTEGER PRIMARY KEY,
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        heartbeat REAL NOT NULL,
        plan TEXT NOT NULL
    )""",
)
PROGRESS_TABLE = "progress"
PROGRESS_COLUMNS = "driver, key, round"
PROGRESS_SCHEMA = (
    f"""CREATE TABLE {PROGRESS_TABLE} (
        driver INTEGER NOT NULL REFERENCES drivers ON DELETE CASCADE,
        key TEXT NOT NULL,
        round INTEGER NOT NULL,
        PRIMARY KEY (driver, key)
    ) WITHOUT ROWID""",
)


class RunPlan:
    """The runs that a driver intends to compute: key, text digest and device-steps of each. The
    digest identifies a run whose key changes with files and objects outside the experiment."""

    def __init__(self, rows: Iterable[Sequence[Any]]):
        self.rows = [(str(key), str(digest), int(steps)) for key, digest, steps in rows]
        self._positions = {digest: i for i, (_, digest, _) in enumerate(self.rows)}
        self._positions |= {key: i for i, (key, _, _) in enumerate(self.rows)}

    @classmethod
    def of(cls, experiments: Iterable[Experiment]) -> "RunPlan":
        return cls((one.key(), text_digest(one), device_steps(one)) for one in experiments)

    def position(self, key: str, digest: str) -> int | None:
        """The index of a recorded run in the plan, or None."""
        return self._positions.get(key, self._positions.get(digest))


def device_steps(experiment: Experiment) -> int:
    """Local steps of all devices over all rounds of a run. With local epochs, whose steps are known
    once the data are read, it counts epochs: it compares runs, and tells no speed."""
    training = experiment.training
    each = training.local_epochs or training.local_steps
    return experiment.rounds * experiment.network.devices * each


def text_digest(experiment: Experiment) -> str:
    """Hash of an experiment's fields; unlike its key, computed without importing user modules."""
    text = json.dumps(experiment.as_written("json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Presence:
    """A context in which a driver is announced in a store, with its plan and its progress.

    A thread writes every second through a connection of its own, so that neither a long round nor
    a busy store delays the heartbeat. After an error the plan stays, without a heartbeat; a later
    driver replaces it. No run fails because it cannot be announced.
    """

    def __init__(self, path: Path, experiments: Iterable[Experiment]):
        self._path, self._plan = path, RunPlan.of(experiments)
        self._rounds: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._row: int | None = None
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._db = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        with suppress(sqlite3.Error):
            # A heartbeat need not survive a loss of power: no commit waits for the disk.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA foreign_keys = ON")
            rows = self._db.execute(f"SELECT {DRIVER_COLUMNS} FROM {DRIVER_TABLE}").fetchall()
            for row, host, pid, heartbeat, _ in rows:
                if not is_alive(host, pid, heartbeat):
                    self._db.execute(f"DELETE FROM {DRIVER_TABLE} WHERE number = ?", (row,))
            self._announce()
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        end = f"UPDATE {DRIVER_TABLE} SET heartbeat = 0" if kind else f"DELETE FROM {DRIVER_TABLE}"
        with suppress(sqlite3.Error):
            self._db.execute(f"{end} WHERE number = ?", (self._row,))
        self._db.close()

    def _announce(self) -> None:
        self._written = {}
        self._row = self._db.execute(
            f"INSERT INTO {DRIVER_TABLE} (host, pid, heartbeat, plan) VALUES (?, ?, ?, ?)",
            (socket.gethostname(), os.getpid(), time.time(), json.dumps(self._plan.rows)),
        ).lastrowid

    def update(self, keys: Sequence[str], round_: int) -> None:
        """Note how many rounds of these runs are done."""
        with self._lock:
            self._rounds |= dict.fromkeys(keys, round_)

    def clear(self, keys: Sequence[str]) -> None:
        """Remove runs that are finished, or will start again."""
        with self._lock:
            for key in keys:
                self._rounds.pop(key, None)

    def write(self) -> None:
        """Write the heartbeat, and the progress where it has changed."""
        with self._lock:
            rounds = dict(self._rounds)
        beat = f"UPDATE {DRIVER_TABLE} SET heartbeat = ? WHERE number = ?"
        with suppress(sqlite3.Error), self._writing:
            if not self._db.execute(beat, (time.time(), self._row)).rowcount:
                self._announce()  # this machine slept, and another driver took it for gone
            if rounds != self._written:
                with self._db:
                    self._db.execute("BEGIN IMMEDIATE")
                    self._db.execute(f"DELETE FROM {PROGRESS_TABLE} WHERE driver = ?", (self._row,))
                    self._db.executemany(
                        f"INSERT INTO {PROGRESS_TABLE} VALUES (?, ?, ?)",
                        [(self._row, key, round_) for key, round_ in rounds.items()],
                    )
                self._written = rounds

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            self.write()


@dataclass(frozen=True)
class Activity:
    """The drivers at work in a store, their plan and their progress."""

    working: bool = False  # whether a driver is at work
    plan: RunPlan | None = None  # the newest plan that is not done
    rounds: Mapping[str, int] | None = None  # by key, rounds done of runs in progress
    heartbeat: float = 0.0  # the newest heartbeat, in seconds since 1970


def read_activity(db: sqlite3.Connection) -> Activity:
    """Read the two tables of a store that is open; rows that make no sense are ignored."""
    rows = db.execute(f"SELECT {DRIVER_COLUMNS} FROM {DRIVER_TABLE} ORDER BY number").fetchall()
    rows = [row for row in rows if isinstance(row[2], int) and isinstance(row[3], float)]
    alive = {row for row, host, pid, beat, _ in rows if is_alive(host, pid, beat)}
    progress = db.execute(f"SELECT {PROGRESS_COLUMNS} FROM {PROGRESS_TABLE}").fetchall()
    plan = None
    with suppress(ValueError, TypeError, IndexError, RecursionError):
        plan = RunPlan(json.loads(rows[-1][4]))
    return Activity(
        bool(alive),
        plan,
        {key: done for row, key, done in progress if row in alive and isinstance(done, int)},
        max((row[3] for row in rows), default=0.0),
    )


def is_working(folder: Path, file: str = "skerry.sqlite") -> bool:
    """Whether a driver is at work in a folder. False also where its store cannot be read."""
    if not is_file(folder / file):  # also a pipe, which may never answer
        return False
    address = f"{(folder / file).absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as db:
        return read_activity(db).working
    return False


def is_alive(host: str, pid: int, heartbeat: float) -> bool:
    """Whether the driver of a row is at work: a young heartbeat, and on this machine a process."""
    if time.time() - heartbeat > STALE_SECONDS:
        return False
    if host != socket.gethostname() or os.name == "nt":  # there, signal 0 is a Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # a process of another user
    return True


def lock_world(folder: Path, world: str) -> FileLock | None:
    """Take the lock of a world, which ends with the process; None where another driver has it."""
    folder = folder / CHECKPOINT_FOLDER
    lock = FileLock(folder / f"{world}.lock")
    try:
        folder.mkdir(exist_ok=True)
        lock.acquire(timeout=0)
    except (Timeout, FileNotFoundError):  # another driver has it, or has just removed the folder
        return None
    except NotImplementedError:
        return lock  # a file system without locks; the store still keeps rows from mixing
    except OSError as error:
        raise RecordsError(
            f"cannot write to {folder} ({error.strerror}). Choose another folder."
        ) from None
    if not Path(lock.lock_file).exists():  # its previous owner has removed it in this instant
        lock.release()
        return None
    return lock


def unlock_world(lock: FileLock) -> None:
    if lock.is_locked:
        with suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


class FolderGuard:
    """Checks that a folder and its files stay in place while runs are recorded in it."""

    def __init__(self, folder: Path, *files: Path):
        self._identities = {path: _identity(path) for path in (folder, *files)}

    def check(self) -> None:
        for path, identity in self._identities.items():
            if _identity(path) != identity:
                raise RecordsError(
                    f"{path} was removed, renamed or replaced while runs were recorded in it, so "
                    "further results would be lost. Leave the folder alone until the runs are "
                    "done; the same command starts what is missing."
                )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
