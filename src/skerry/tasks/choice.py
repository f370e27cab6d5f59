"""Choose the task of an experiment, from its section [task] and the targets of its data."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, vmap

from skerry.config.fields import Task
from skerry.data.dataset import Dataset, TargetKind
from skerry.errors import DataError, ModelError, SkerryError, one_line
from skerry.plugins import registry
from skerry.plugins.calls import explained, lend, recording
from skerry.plugins.context import Context
from skerry.plugins.options import bind
from skerry.tasks.built_in import Classification, Regression, Tokens
from skerry.tasks.task import Function, LearningTask

TASKS: dict[str, type[LearningTask]] = {
    task.name: task for task in (Classification, Regression, Tokens)
}
NEEDS: dict[str, tuple[tuple[TargetKind, ...], str]] = {
    "classification": (("labels",), "whole labels, one for each sample"),
    "regression": (("numbers", "labels"), "numbers, one or one row for each sample"),
    "tokens": (("tokens",), "whole numbers of the same shape as the inputs"),
}
"""The targets of each task, in words, too; the first kind makes it the task by default."""
DEFAULT_TASK = {kinds[0]: name for name, (kinds, _) in NEEDS.items()}


def choose_task(section: Task, dataset: Dataset, seed: int) -> LearningTask:
    """The task of a data set; raise SkerryError if the section does not fit the data."""
    name: str = section.name
    if name == "auto":
        name = DEFAULT_TASK[dataset.targets]
        if dataset.targets == "numbers" and (dataset.y_train == dataset.y_train.round()).all():
            raise DataError(
                f"y_train of {dataset.name} holds whole numbers as {dataset.y_train.dtype}, which "
                "may be labels or amounts. If they are amounts, set task.name = "
                '"regression"; if labels, give them as integers.'
            )
    kinds, needed = NEEDS[name]
    if dataset.targets not in kinds:
        raise DataError(
            f'task.name = "{name}" needs targets that are {needed} (got {dataset.y_train.dtype} '
            f"of shape {dataset.y_train.shape}). Set task.name = "
            f'"{DEFAULT_TASK[dataset.targets]}", or change the targets.'
        )
    losses = TASKS[name].losses
    loss = section.loss or losses[0]
    if registry.is_builtin("loss", loss) and loss not in losses:
        raise ModelError(
            f'task.loss = "{loss}" is not a loss of a {name} task. Choose {_one_of(losses)}, or '
            'your own "package.module:function".'
        )
    if section.score == "top5" and name == "regression":
        raise ModelError('task.score = "top5" needs classes or tokens (got a regression task).')
    words = "losses and scores are computed, for all devices at once"
    context = Context(words, seed=seed, _is_kept=True)
    score = _resolve("score", section.score, section, context) if section.score else None
    function = _resolve("loss", loss, section, context)
    task = TASKS[name](loss, function, score, delta=section.delta)
    _rehearse(task, section, dataset)
    return task


def outputs_of(task: LearningTask, dataset: Dataset) -> int:
    """The number of outputs of a model: classes, tokens, or numbers of a target. A regression may
    take labels for numbers."""
    return 1 if task.name == "regression" and dataset.targets == "labels" else dataset.classes


def _resolve(kind: str, name: str, section: Task, context: Context) -> Function:
    function = registry.resolve(kind, name)
    options = section.options_for(kind) if kind in section.functions else {}
    bound = partial(bind(kind, function, options), context=context)
    return explained(kind, name, bound, ModelError)


def _rehearse(task: LearningTask, section: Task, dataset: Dataset) -> None:
    """Try a user's own functions on two samples, so that mistakes are found before training."""
    y = task.targets(torch.from_numpy(dataset.y_train[:2]), torch.float32)
    shape = task.output_shape(dataset.input_shape, outputs_of(task, dataset))
    for kind, name in section.functions.items():
        if kind == "score" or not registry.is_builtin(kind, name):
            outputs = torch.linspace(0.1, 0.9, len(y) * math.prod(shape)).view(len(y), *shape)
            _try(kind, name, getattr(task, kind), outputs, y)


def _try(kind: str, name: str, function: Function, outputs: Tensor, y: Tensor) -> None:
    inputs = outputs.requires_grad_(kind == "loss").clone()  # a leaf could not be changed
    with recording(), lend(kind, name, ModelError, outputs=inputs, targets=y):
        value: Any = function(inputs, y)
    if not isinstance(value, Tensor) or value.shape != ():
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ModelError(
            f"{kind} '{name}' must give a torch tensor with one number, the mean over the "
            f"minibatch (got {got}). End it with .mean(), without .item()."
        )
    if value.is_complex() or (kind == "loss" and not value.isfinite()):
        raise ModelError(
            f"{kind} '{name}' must give a finite number for ordinary outputs (got {value.item()})."
        )
    if function(inputs, y) != value and not value.isnan():
        raise ModelError(
            f"{kind} '{name}' gives different results for the same outputs: it must keep nothing "
            "from earlier calls, and draw no random numbers."
        )
    if kind == "loss" and not value.requires_grad:
        raise ModelError(
            f"loss '{name}' must be differentiable: its value does not depend on the outputs in a "
            "way that torch can follow. Use torch operations, without .item() and .detach()."
        )
    try:
        samples = (
            outputs.detach().view(2, 1, 1, *outputs.shape[1:]),
            y.view(2, 1, 1, *y.shape[1:]),
        )
        with registry.errors_of(kind, name, ModelError):
            vmap(vmap(grad(function) if kind == "loss" else function))(*samples)
    except SkerryError as error:  # a user's function may fail in any way
        reason = one_line(error.__cause__ or error)
        raise ModelError(
            f"{kind} '{name}' cannot be computed for all devices at once ({reason}). "
            "Avoid .item() and branches on values."
        ) from error


def _one_of(names: tuple[str, ...]) -> str:
    return " or ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} or {names[-1]}"
