"""Data sets: files that cannot be read or do not hold one, and options that they cannot have."""

import zipfile
from pathlib import Path

import numpy as np

from bad_inputs.arrays import GOOD, ON_TOKENS, X, Y, cut, npz
from bad_inputs.rows import run, sets, settings


def _zipped(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


ROWS = [
    sets(
        "no such npz",
        "data.dataset=npz data.path=d.npz",
        "/d.npz. Name a .npz file.",
    ),
    npz(
        "text",
        "hello",
        "d.npz cannot be read: it is not a .npz file, or it is truncated. Write it with "
        "np.savez(path, x_train=..., y_train=..., x_test=..., y_test=...), without objects.",
    ),
    npz(
        "npy",
        lambda path: np.save(path.open("wb"), X),
        "d.npz cannot be read: it is not a .npz file, or it is truncated.",
    ),
    npz(
        "cut off",
        lambda path: cut(path, GOOD),
        "d.npz cannot be read: it is not a .npz file, or it is truncated.",
    ),
    npz(
        "objects",
        GOOD | {"x_train": np.array([[1], [2, 3]], dtype=object)},
        "d.npz cannot be read (ValueError: Object arrays cannot be loaded when "
        "allow_pickle=False).",
    ),
    sets(
        "npz with a long name",
        f"data.dataset=npz data.path={'n' * 3000}",
        "nnn",
    ),
    sets(
        "npz of nobody",
        "data.dataset=npz data.path=~nosuchuser/d.npz",
        "/~nosuchuser/d.npz. Name a .npz file.",
    ),
    sets(
        "published set with a long name",
        f"data.dataset=mnist data.path={'n' * 3000}",
        "nnn",
    ),
    npz(
        "bfloat16",
        GOOD | {"x_train": X.astype(np.float16).view("V2")},
        "d.npz: x_train must hold real numbers (got dtype |V2). Convert: x_train.astype(np.float",
    ),
    npz(
        "single numbers",
        {"x": np.float32(1), "y": np.int64(1)},
        "x and y in d.npz must have the same length (got shapes () and ()).",
    ),
    npz(
        "single labels",
        GOOD | {"y_train": np.int64(1)},
        "d.npz: y_train must have one dimension (got shape ()).",
    ),
    npz(
        "text in the archive",
        lambda path: _zipped(path, {"x": b"hello", "y": b"you"}),
        "x and y in d.npz must have the same length (got shapes () and ()).",
    ),
    npz(
        "array of a header that is cut",
        lambda path: _zipped(path, {"x.npy": b"\x93NUMPY\x01\x00\x05\x00{'a'"}),
        "d.npz cannot be read (",
    ),
    npz(
        "other names",
        {"a": X},
        "d.npz must hold x_train, y_train, x_test, y_test, or x and y (got a).",
    ),
    npz(
        "lengths",
        GOOD | {"y_train": Y[:9]},
        "d.npz: x_train and y_train must have the same length (got 60 and 9).",
    ),
    npz(
        "nan",
        GOOD | {"x_train": np.where(X > 2, np.nan, X)},
        "d.npz: x_train must be finite in float32 (got 6 values that are not).",
    ),
    npz(
        "text inputs",
        GOOD | {"x_train": X.astype(str)},
        "d.npz: x_train must hold real numbers (got dtype <U32).",
    ),
    npz(
        "float labels",
        GOOD | {"y_train": Y + 0.5},
        "d.npz: y_train and y_test must both hold whole numbers, or both numbers of a regression "
        "(got dtype float32 and int64). Give labels as integers in both, or amounts as "
        "floating-point numbers in both.",
    ),
    npz(
        "negative labels",
        GOOD | {"y_train": Y - 1},
        "d.npz: y_train must hold every label from 0 to classes - 1 (got 3 labels from -1 to 1).",
    ),
    npz(
        "labels with gaps",
        GOOD | {"y_train": Y * 2},
        "d.npz: y_train must hold every label from 0 to classes - 1 (got 3 labels from 0 to "
        "4). Renumber: np.unique(labels, return_inverse=True)[1]",
    ),
    npz(
        "labels only in the test",
        GOOD | {"y_test": Y[:20] + 3},
        "d.npz: y_test must hold labels 0 to 2 (got 5).",
    ),
    npz(
        "one class",
        GOOD | {"y_train": Y * 0, "y_test": Y[:20] * 0},
        "d.npz: a data set needs at least 2 classes (got 1).",
    ),
    npz(
        "other shape in the test",
        GOOD | {"x_test": X[:20, :4]},
        "d.npz: x_train and x_test must be alike (got float32 samples of (5,) and float32 "
        "samples of (4,)).",
    ),
    npz(
        "no test",
        GOOD | {"x_test": X[:0], "y_test": Y[:0]},
        "d.npz: x_test must not be empty (got shape (0, 5)).",
    ),
    npz(
        "channels first",
        GOOD | {"x_train": np.zeros((60, 3, 8, 8)), "x_test": np.zeros((20, 3, 8, 8))},
        "d.npz: images must be N,H,W,C (got shape (60, 3, 8, 8)). Move the channels last: "
        "np.moveaxis(x, 1, -1)",
    ),
    run(
        "not a published set",
        settings("data.dataset=mnist", "data.path=folder"),
        "folder does not hold mnist. It must hold train-images-idx3-ubyte, "
        "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.",
        **{"folder/readme": "hello"},
    ),
    run(
        "not an archive",
        settings("data.dataset=mnist", "data.path=mnist.tar"),
        "mnist.tar cannot be read: it is truncated or damaged (ReadError: file could not be opened",
        **{"mnist.tar": "hello"},
    ),
    sets(
        "option of a data set",
        "data.dataset=synthetic data.difficulty=-1",
        "data.difficulty must be a number from 0 to 1,000,000 (got -1).",
    ),
    sets(
        "too much data",
        "data.dataset=synthetic data.samples=1_000_000_000_000_000",
        "data.samples and data.test_samples times data.features must be at most 1,000,000,000 (got "
        "20,000,000,000,020,000). Lower one of them.",
    ),
    sets("one token", f"{ON_TOKENS} data.vocabulary=1", "data.vocabulary must be a whole number"),
    sets(
        "noise below 0",
        "data.dataset=synthetic_regression data.noise=-1",
        "data.noise must be a number from 0 to 1,000,000 (got -1).",
    ),
]
