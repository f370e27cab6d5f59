"""Synthetic data sets, one for each task; the best possible score of each is known."""

import math
from typing import Any

import numpy as np

from skerry.data.dataset import Array, Dataset
from skerry.errors import DataError
from skerry.seeds import stream

MOST_NUMBERS = 10**9
"""Most numbers in the inputs: 4 GB, and several times as much while they are drawn."""
LARGEST_NUMBER = 10**6
MOST_TOKENS = 1000


def classes(
    *,
    samples: int = 6000,
    test_samples: int = 1000,
    features: int = 20,
    classes: int = 10,
    difficulty: float = 0.5,
    data_seed: int = 0,
) -> Dataset:
    """Gaussian classes: x = sqrt(2) u_y + difficulty z, with z ~ N(0, I) and a random unit
    vector u_c for each class; every class occurs equally often.

    Classes with orthogonal u are confused with probability Phi(-1 / difficulty): never at 0,
    2 % at 0.5, 16 % at 1. The data follow from `data_seed`, so all seeds of a study share them.
    """
    _require_whole(2, classes=classes, features=features)
    _require_size(samples, test_samples, data_seed, features=features)
    if samples < classes:
        raise DataError(
            f"data.samples must be at least data.classes (got {samples} samples of {classes} "
            "classes). Raise data.samples."
        )
    _require_numbers(difficulty=difficulty)
    rng = stream(data_seed, "synthetic")
    directions = rng.standard_normal((classes, features))
    centres = math.sqrt(2) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    y = np.concatenate([rng.permutation(np.arange(m) % classes) for m in (samples, test_samples)])
    x = (centres[y] + difficulty * rng.standard_normal((len(y), features))).astype(np.float32)
    return Dataset("synthetic", x[:samples], y[:samples], x[samples:], y[samples:], classes)


def regression(
    *,
    samples: int = 6000,
    test_samples: int = 1000,
    features: int = 20,
    noise: float = 0.5,
    curve: float = 0.0,
    data_seed: int = 0,
) -> Dataset:
    """y = u^T x + curve sin(2 v^T x) + noise e, with x ~ N(0, I), e ~ N(0, 1) and random unit
    vectors u and v: no model has a mean squared error below noise^2, and with curve = 0 a linear
    one can reach it. The data follow from `data_seed`."""
    _require_whole(2, features=features)
    _require_size(samples, test_samples, data_seed, features=features)
    _require_numbers(noise=noise, curve=curve)
    rng = stream(data_seed, "synthetic regression")
    u, v = (
        direction / np.linalg.norm(direction) for direction in rng.standard_normal((2, features))
    )
    x = rng.standard_normal((samples + test_samples, features))
    y = x @ u + curve * np.sin(2 * (x @ v)) + noise * rng.standard_normal(len(x))
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Dataset("synthetic_regression", x[:samples], y[:samples], x[samples:], y[samples:], 1)


def tokens(
    *,
    samples: int = 2000,
    test_samples: int = 500,
    length: int = 16,
    vocabulary: int = 12,
    dialects: int = 2,
    data_seed: int = 0,
) -> Dataset:
    """Texts of random Markov chains, one for each dialect: the first samples are of the first
    dialect and the last ones of the last, in the test set too. A model that sees one token of the
    past can learn all there is of a dialect. The data follow from `data_seed`."""
    _require_whole(2, length=length, vocabulary=vocabulary)
    _require_whole(1, dialects=dialects)
    _require_size(samples, test_samples, data_seed, length=length)
    if vocabulary > MOST_TOKENS or dialects > min(samples, test_samples, MOST_TOKENS):
        raise DataError(
            f"data.vocabulary and data.dialects must be at most {MOST_TOKENS:,}, and dialects at "
            f"most the samples (got {vocabulary} and {dialects}). Lower them."
        )
    rng = stream(data_seed, "synthetic tokens")
    # Few of the tokens are likely to follow another: there is something to learn.
    follows = rng.dirichlet(np.full(vocabulary, 0.2), size=(dialects, vocabulary)).cumsum(axis=2)
    train, test = (_texts(follows, count, length + 1, rng) for count in (samples, test_samples))
    return Dataset(
        "synthetic_tokens", train[:, :-1], train[:, 1:], test[:, :-1], test[:, 1:], vocabulary
    )


def _texts(follows_dvv: Array, count: int, length: int, rng: np.random.Generator) -> Array:
    dialects, vocabulary, _ = follows_dvv.shape
    dialect = np.arange(count) * dialects // count
    text = np.empty((count, length), dtype=np.int64)
    text[:, 0] = rng.integers(0, vocabulary, count)
    for place in range(1, length):
        below = rng.random((count, 1)) >= follows_dvv[dialect, text[:, place - 1]]
        text[:, place] = np.minimum(below.sum(axis=1), vocabulary - 1)
    return text


def _require_size(samples: int, test_samples: int, data_seed: object, **width: int) -> None:
    """Raise DataError unless the sizes are sound and the inputs fit into memory; `width` is the
    option that says how many numbers a sample has."""
    _require_whole(1, samples=samples, test_samples=test_samples)
    _require_whole(0, data_seed=data_seed)
    ((option, size),) = width.items()
    if (samples + test_samples) * size > MOST_NUMBERS:
        raise DataError(
            f"data.samples and data.test_samples times data.{option} must be at most "
            f"{MOST_NUMBERS:,} (got {(samples + test_samples) * size:,}). Lower one of them."
        )


def _require_whole(least: int, **options: object) -> None:
    for option, value in options.items():
        if type(value) is not int or value < least:
            raise DataError(
                f"data.{option} must be a whole number of at least {least} (got {value!r})."
            )


def _require_numbers(**options: Any) -> None:
    for option, value in options.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= LARGEST_NUMBER:
            raise DataError(
                f"data.{option} must be a number from 0 to {LARGEST_NUMBER:,} (got {value!r})."
            )
