"""Weights to start from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bad_inputs.rows import Content, Row, run, sets, settings


def weights(id: str, tensors: Content, *told: str, model: str = "linear") -> Row:
    given = settings("model.weights=w.safetensors", f"model.name={model}")
    return run(id, given, *told, **{"w.safetensors": tensors})


def _tensors(**arrays: Any) -> Callable[[Path], object]:
    from safetensors.numpy import save_file

    return lambda path: save_file({name.replace("__", "."): a for name, a in arrays.items()}, path)


FULL = {"weight": np.zeros((10, 64), np.float32), "bias": np.zeros(10, np.float32)}

ROWS = [
    sets(
        "weights that are not there",
        "model.weights=start.safetensors",
        "/start.safetensors. Name a .safetensors file.",
    ),
    weights(
        "weights that are a pickle",
        b"\x80\x04not a safetensors file",
        "model.weights: w.safetensors cannot be read as safetensors (",
    ),
    weights(
        "weights of another shape",
        _tensors(**FULL | {"weight": np.zeros((10, 63), np.float32)}),
        "model.weights: 'weight' in w.safetensors must be numbers of shape (10, 64) (got float32 "
        "of shape (10, 63)).",
    ),
    weights(
        "weights that are missing",
        _tensors(weight=FULL["weight"]),
        "model.weights: w.safetensors lacks 'bias'. Names must be those of model.state_dict().",
    ),
    weights(
        "weights of another model",
        _tensors(**FULL),
        "model.weights: w.safetensors lacks '1.bias', '1.weight', '3.bias' and 1 more and has "
        "'bias', 'weight', which the model does not.",
        model="mlp",
    ),
    weights(
        "weights that are not numbers",
        _tensors(**FULL | {"bias": np.full(10, np.nan, np.float32)}),
        "model.weights: 'bias' in w.safetensors must be finite.",
    ),
    weights(
        "weights for what has none",
        _tensors(**FULL),
        "model 'quadratic' cannot start from weights. Leave out model.weights.",
        model="quadratic",
    ),
]
