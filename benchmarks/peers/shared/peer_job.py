"""What every contestant is handed, and what it hands back.

A job is a folder of plain files: `job.json` (its numbers), `x.npy` and `y.npy` (a row of samples
per device), `x_test.npy` and `y_test.npy`, `initial.npz` (the initial model under PyTorch's names
and layouts). An answer is `answer.json` and `final.npz` in a folder of the contestant's own. NumPy
alone is needed, because this module runs in every contestant's environment.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

WARM_UP = 1
"""Rounds before the clock starts: they load, compile and fill caches, and count as start-up."""

Model = dict[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    name: str
    words: str
    devices: int
    samples: int
    """On each device."""
    shape: tuple[int, ...]
    classes: int
    batch: int
    stepsize: float
    rounds: int
    """On the clock, after the warm-up."""
    signal: float
    """Standard deviation of the class centres; the noise around them has 1."""

    @property
    def all_rounds(self) -> int:
        return WARM_UP + self.rounds

    def save(self, folder: Path) -> None:
        (folder / "job.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> "Job":
        numbers = json.loads((folder / "job.json").read_text())
        return cls(**numbers | {"shape": tuple(numbers["shape"])})


def device_data(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [devices, samples, *shape] and labels [devices, samples], read where they lie."""
    return np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def initial_model(folder: Path) -> Model:
    with np.load(folder / "initial.npz") as arrays:
        return dict(arrays)


class Turn:
    """One contestant's run of a job: where its files are, and its stopwatch.

    The clock is the machine's monotonic one, so that the process that launched this one can tell
    how long starting up took.
    """

    def __init__(self, folder: Path, answer_to: Path, variant: str):
        self.folder, self.answer_to, self.variant = folder, answer_to, variant
        self.job = Job.load(folder)
        self._started = self._ended = 0.0

    @classmethod
    def from_command_line(cls) -> "Turn":
        folder, answer_to, variant = sys.argv[1:4]
        return cls(Path(folder), Path(answer_to), variant)

    def warm(self) -> None:
        """Call it once the warm-up is done: the clock starts."""
        self._started = time.monotonic()

    def stop(self) -> None:
        """Call it once the last round is done: the clock stops."""
        self._ended = time.monotonic()

    def answer(self, final: Mapping[str, np.ndarray], packages: Iterable[str]) -> None:
        """Hand back the average of all devices' models, and what it was made with."""
        np.savez(self.answer_to / "final.npz", **final)
        answer = {
            "started": self._started,
            "ended": self._ended,
            "versions": {name: version(name) for name in packages},
        }
        draft = self.answer_to / "answer.json.new"
        draft.write_text(json.dumps(answer))
        os.replace(draft, self.answer_to / "answer.json")
