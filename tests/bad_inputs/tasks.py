"""Targets, losses and scores that do not fit each other."""

import numpy as np

from bad_inputs.arrays import GOOD, TEXT, X, Y, npz
from bad_inputs.rows import sets

Z = Y + 0.5
NUMBERS = {"x_train": X, "y_train": Z, "x_test": X[:20], "y_test": Z[:20]}
TOKENS = {"x_train": TEXT, "y_train": TEXT, "x_test": TEXT[:9], "y_test": TEXT[:9]}

ROWS = [
    npz(
        "nan targets",
        NUMBERS | {"y_train": np.where(Z > 2, np.nan, Z)},
        "d.npz: y_train must be finite in float32 (20 of its values are not). Drop those samples.",
    ),
    npz(
        "text targets",
        GOOD | {"y_train": Y.astype(str)},
        "d.npz: y_train must hold whole numbers, or for a regression floating-point ones (got ",
    ),
    npz(
        "whole numbers as floats",
        GOOD | {"y_train": Y.astype(float), "y_test": Y[:20].astype(float)},
        "y_train of d holds whole numbers as float32, which may be labels or amounts. If they are "
        'amounts, set task.name = "regression"; if labels, give them as integers.',
    ),
    npz(
        "more numbers in the test",
        NUMBERS | {"y_test": np.stack([Z, Z], axis=1)[:20]},
        "d.npz: y_train and y_test must have as many numbers for each sample (got () and (2,)).",
    ),
    npz(
        "targets in a cube",
        NUMBERS | {"y_train": np.ones((60, 2, 2)) / 3},
        "d.npz: y_train must hold one number, or one row of numbers, for each sample (got shape "
        "(60, 2, 2)).",
    ),
    npz(
        "fewer next tokens than tokens",
        TOKENS | {"y_train": TEXT[:, :4]},
        "d.npz: x_train and y_train must have the same shape, a next token for each token (got "
        "(60, 5) and (60, 4)).",
    ),
    npz(
        "a token below 0",
        TOKENS | {"y_test": TEXT[:9] - 1},
        "d.npz: y_test must hold tokens from 0 on (got -1).",
    ),
    sets(
        "unknown task",
        "task.name=clasification",
        "task.name must be one of 'auto', 'classification', 'regression' or 'tokens' (got "
        '"clasification").',
    ),
    sets(
        "tokens without tokens",
        "task.name=tokens",
        'task.name = "tokens" needs targets that are whole numbers of the same shape as the inputs '
        '(got int64 of shape (1437,)). Set task.name = "classification", or change the targets.',
    ),
    sets(
        "classes without labels",
        "task.name=classification data.dataset=synthetic_regression",
        'task.name = "classification" needs targets that are whole labels, one for each sample',
    ),
    sets("unknown loss", "task.loss=hubber", "unknown loss 'hubber'; did you mean 'huber'?"),
    sets(
        "loss of another task",
        "task.loss=mse",
        'task.loss = "mse" is not a loss of a classification task. Choose cross_entropy, or your '
        "own",
    ),
    sets("no delta", "task.loss=huber task.delta=0", "task.delta must be above 0 (got 0)."),
    sets(
        "top five numbers",
        "task.name=regression task.score=top5",
        'task.score = "top5" needs classes or tokens (got a regression task).',
    ),
    sets(
        "option of no loss",
        "task.smoothing=0.1",
        "unknown field 'task.smoothing'",
    ),
    sets(
        "loss that is a vector",
        "task.name=regression task.loss=task_plugins:vector",
        "loss 'task_plugins:vector' must give a torch tensor with one number, the mean over the "
        "minibatch (got shape (16, 1)). End it with .mean(), without .item().",
    ),
    sets(
        "loss that raises",
        "task.loss=task_plugins:raises",
        "loss 'task_plugins:raises' failed (ValueError: no loss today). Correct the function;",
    ),
    sets(
        "loss that does not learn",
        "task.loss=task_plugins:constant",
        "loss 'task_plugins:constant' must be differentiable: its value does not depend on the "
        "outputs",
    ),
    sets(
        "loss that looks at values",
        "task.loss=task_plugins:looks_at_values",
        "loss 'task_plugins:looks_at_values' cannot be computed for all devices at once (",
    ),
    sets(
        "score that is a vector",
        "task.name=regression task.score=task_plugins:vector",
        "score 'task_plugins:vector' must give a torch tensor with one number, the mean over the",
    ),
    npz(
        "labels that are words",
        {**GOOD, "y_train": Y.astype("U1"), "y_test": Y[:20].astype("U1")},
        "y_train must hold whole numbers, or for a regression floating-point ones (got dtype <U1). "
        "Number labels from 0 on: np.unique(y_train, return_inverse=True)[1]",
    ),
]
