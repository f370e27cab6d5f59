"""Data sets that people made, each on a device of their own: vowels and speeches."""

from importlib.resources import files

import numpy as np

from skerry.config.experiment import Data
from skerry.data.by_device.holdings import Grouped, Holdings
from skerry.data.dataset import Dataset
from skerry.data.sources.fetch import fetch
from skerry.data.sources.formats import Array
from skerry.data.sources.speeches import CHARACTERS, presidents

MEN = ("Andrew", "Bill", "David", "Mark", "Mike", "Nick", "Rich", "Tim")
SPEAKERS = (
    *("Andrew", "Bill", "David", "Mark", "Jo", "Kate", "Penny", "Rose"),
    *("Mike", "Nick", "Rich", "Tim", "Sarah", "Sue", "Wendy"),
)
"""In the order of the data."""
TESTED = 2
"""So many of a speaker's six repetitions of every vowel, the last ones, are for testing."""


def vowels(data: Data, seed: int) -> Dataset:
    """990 vowels said by 15 speakers, in the package (UCI, CC BY 4.0; see embedded/). Islands: men
    and women. Of the six times that a speaker says a vowel, two are his or her own test samples."""
    with (files("skerry.data") / "embedded" / "vowels.npz").open("rb") as file:
        x_srvf = np.load(file, allow_pickle=False)["x"].astype(np.float32) / 1000
    speakers, repetitions, classes, _ = x_srvf.shape
    train, test = np.split(x_srvf, [repetitions - TESTED], axis=1)
    return Dataset(
        "vowels",
        *_flat(train),
        *_flat(test),
        classes=classes,
        holdings=Holdings(
            SPEAKERS,
            _in_turn([train[0, :, :, 0].size] * speakers),
            _in_turn([test[0, :, :, 0].size] * speakers),
            islands=tuple("men" if name in MEN else "women" for name in SPEAKERS),
        ),
    )


def speeches(data: Data, seed: int, *, path: str) -> Dataset:
    """The addresses of 43 presidents on the state of the union, in stretches of 64 characters, each
    with the next characters. Islands: parties. Every tenth stretch is for testing."""
    arrays = fetch("speeches", path, progress=False)
    names, parties = presidents(arrays["presidents"])
    return Dataset(
        "speeches",
        arrays["x_train"].astype(np.int64),
        arrays["y_train"].astype(np.int64),
        arrays["x_test"].astype(np.int64),
        arrays["y_test"].astype(np.int64),
        classes=CHARACTERS,
        whole=True,
        holdings=Holdings(
            names,
            Grouped.by(arrays["whose_train"].astype(np.int64), len(names)),
            Grouped.by(arrays["whose_test"].astype(np.int64), len(names)),
            islands=parties,
        ),
    )


def _flat(x_srvf: Array) -> tuple[Array, Array]:
    """Samples and labels, speaker by speaker."""
    speakers, repetitions, classes, features = x_srvf.shape
    return x_srvf.reshape(-1, features), np.tile(np.arange(classes), speakers * repetitions)


def _in_turn(sizes: list[int]) -> Grouped:
    return Grouped(np.arange(sum(sizes)), np.cumsum([0, *sizes]))
