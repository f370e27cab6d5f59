"""Data drawn by a formula, for a first look at each task: what could be learnt is known."""

import math

import numpy as np

from skerry.config.experiment import Data
from skerry.data.dataset import Dataset
from skerry.data.sources.formats import Array
from skerry.errors import DataError
from skerry.seeds import stream

MOST_NUMBERS = 10**9
"""In the inputs of a synthetic data set; 4 GB, and several times as much while they are drawn."""
MOST_DIFFICULT = 10**6
MOST_TOKENS = 1000


def classes(
    data: Data,
    seed: int,
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
    _require_whole("classes", classes, 2)
    _require_whole("features", features, 2)
    _require_size(samples, test_samples, data_seed, features=features)
    if samples < classes:
        raise DataError(
            f"data.samples must be at least data.classes (got {samples} samples of {classes} "
            "classes). Raise data.samples."
        )
    _require_number("difficulty", difficulty)
    rng = stream(data_seed, "synthetic")
    directions = rng.standard_normal((classes, features))
    centres = math.sqrt(2) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    y = np.concatenate([rng.permutation(np.arange(m) % classes) for m in (samples, test_samples)])
    x = (centres[y] + difficulty * rng.standard_normal((len(y), features))).astype(np.float32)
    return Dataset("synthetic", x[:samples], y[:samples], x[samples:], y[samples:], classes)


def regression(
    data: Data,
    seed: int,
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
    _require_whole("features", features, 2)
    _require_size(samples, test_samples, data_seed, features=features)
    _require_number("noise", noise)
    _require_number("curve", curve)
    rng = stream(data_seed, "synthetic regression")
    u, v = (
        direction / np.linalg.norm(direction) for direction in rng.standard_normal((2, features))
    )
    x = rng.standard_normal((samples + test_samples, features))
    y = x @ u + curve * np.sin(2 * (x @ v)) + noise * rng.standard_normal(len(x))
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Dataset("synthetic_regression", x[:samples], y[:samples], x[samples:], y[samples:], 1)


def tokens(
    data: Data,
    seed: int,
    *,
    samples: int = 2000,
    test_samples: int = 500,
    length: int = 16,
    vocabulary: int = 12,
    dialects: int = 2,
    data_seed: int = 0,
) -> Dataset:
    """Texts of random Markov chains, one for each dialect: the first samples speak the first
    dialect, the last ones the last, in the test set too. A model that sees one token of the past
    can learn all there is of a dialect. The data follow from `data_seed`."""
    _require_whole("length", length, 2)
    _require_whole("vocabulary", vocabulary, 2)
    _require_whole("dialects", dialects, 1)
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


def _require_size(samples: object, test_samples: object, data_seed: object, **each: int) -> None:
    _require_whole("samples", samples, 1)
    _require_whole("test_samples", test_samples, 1)
    _require_whole("data_seed", data_seed, 0)
    assert isinstance(samples, int)
    assert isinstance(test_samples, int)
    ((option, size),) = each.items()
    if (samples + test_samples) * size > MOST_NUMBERS:
        raise DataError(
            f"data.samples and data.test_samples times data.{option} must be at most "
            f"{MOST_NUMBERS:,} (got {(samples + test_samples) * size:,}). Lower one of them."
        )


def _require_whole(option: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise DataError(
            f"data.{option} must be a whole number of at least {least} (got {value!r})."
        )


def _require_number(option: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= MOST_DIFFICULT:  # type: ignore[operator]
        raise DataError(
            f"data.{option} must be a number from 0 to {MOST_DIFFICULT:,} (got {value!r})."
        )
