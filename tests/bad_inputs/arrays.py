"""Data sets in a file `d.npz`, good ones to be spoilt."""

from pathlib import Path
from typing import Any

import numpy as np

from bad_inputs.rows import SMALL, Content, Row, settings

X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
Y = np.arange(60) % 3
GOOD = {"x_train": X, "y_train": Y, "x_test": X[:20], "y_test": Y[:20]}
TEXT = np.arange(60 * 5).reshape(60, 5) % 7
ON_TOKENS = "data.dataset=synthetic_tokens data.samples=60 data.test_samples=20"


def npz(id: str, content: Content, *told: str, also: str = "") -> Row:
    given = settings(*SMALL, "data.dataset=npz", "data.path=d.npz", *also.split())
    return Row(id, ("run", *given), told, {"d.npz": content})


def cut(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)
    path.write_bytes(path.read_bytes()[:500])
