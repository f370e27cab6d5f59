"""Checks that a user's module can be trained as one of many models, before training starts."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from skerry.config.experiment import Experiment
from skerry.data.dataset import Dataset
from skerry.errors import ModelError, one_line, warn_once
from skerry.models.learner import Problem
from skerry.plugins import registry

_OUTPUTS = {
    "classification": "one score per class",
    "regression": "one number for each of a target's",
    "tokens": "one score per token at every place",
}


def example_outputs(module: nn.Module, problem: Problem) -> Any:
    """The outputs of the module for two example samples; ModelError if their shape is wrong."""
    x = problem.example()[0]
    given = x.clone()
    try:
        with torch.no_grad():
            found = module(x)
    except Exception as error:  # a user's module may fail in any way
        _check_embeddings(module, problem)
        what = "tokens 0 to" if problem.task.name == "tokens" else "whole numbers 0 to"
        inputs = "" if problem.tokens is None else f" with {what} {problem.tokens - 1}"
        raise ModelError(
            f"the model fails on inputs of shape {problem.input_shape}{inputs} "
            f"({one_line(error)}). Make it accept a batch of that shape."
        ) from error
    if not torch.equal(x, given):
        raise ModelError(
            "the model changes the inputs that it is given, which all models share. Work on a "
            "copy: x = x.clone(), or no inplace=True in its first layer."
        )
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    wanted = (2, *problem.output_shape)
    if got != wanted:
        raise ModelError(
            f"the model must give {_OUTPUTS[problem.task.name]}, shape {wanted} for two samples "
            f"(got {got}). Change its last layer."
        )
    if found.dtype != torch.float32:
        raise ModelError(
            f"the model must give float32 for inputs of float32 (got {found.dtype}). End it with "
            ".float()."
        )
    return found


def _check_embeddings(module: nn.Module, problem: Problem) -> None:
    """Raise ModelError if an embedding gets an index that it has no row for. The error of torch
    does not name the layer."""

    def check(name: str, embedding: nn.Embedding, x: Tensor) -> None:
        if x.is_floating_point():
            raise ModelError(
                f"embedding '{name}' takes whole numbers (got {x.dtype}). Give the data whole "
                'inputs and set data.scaling = "raw", which leaves them whole.'
            )
        lowest, highest = int(x.min()), int(x.max())
        if lowest < 0 and problem.tokens is None:
            raise ModelError(
                f"embedding '{name}' has rows 0 to {embedding.num_embeddings - 1}, but is given "
                f"{lowest} to {highest}: the model gets scaled inputs, which are no whole numbers. "
                'Give the data whole inputs and set data.scaling = "raw", which leaves them whole.'
            )
        if lowest < 0 or highest >= embedding.num_embeddings:
            rows = "problem.tokens" if highest + 1 == problem.tokens else str(highest + 1)
            raise ModelError(
                f"embedding '{name}' has {embedding.num_embeddings} rows, 0 to "
                f"{embedding.num_embeddings - 1}, but is given {lowest} to {highest} on inputs of "
                f"shape {problem.input_shape}. Make it nn.Embedding({rows}, ...)."
            )

    hooks = [
        child.register_forward_pre_hook(
            lambda one, given, name=name or "Embedding": check(name, one, given[0])
        )
        for name, child in module.named_modules()
        if isinstance(child, nn.Embedding)
    ]
    try:
        with torch.no_grad():
            module(problem.example()[0])
    except ModelError:
        raise
    except Exception:  # reported by the caller
        return
    finally:
        for hook in hooks:
            hook.remove()


def refuse_batch_statistics(module: nn.Module) -> None:
    """Raise ModelError if a layer keeps batch statistics."""
    for name, child in module.named_modules():
        if isinstance(child, nn.modules.batchnorm._NormBase) and (
            isinstance(child, nn.modules.batchnorm._BatchNorm) or child.track_running_stats
        ):
            raise ModelError(
                f"layer '{name or type(child).__name__}' ({type(child).__name__}) keeps batch "
                "statistics, which devices cannot average or mix as parameters. Use "
                "torch.nn.GroupNorm instead."
            )


def check_training(module: nn.Module, problem: Problem) -> None:
    """Raise ModelError unless a training step depends only on parameters, data and dropout keys,
    and changes only parameters."""
    tried = copy.deepcopy(module).train()
    before = {name: buffer.clone() for name, buffer in tried.named_buffers()}
    with torch.random.fork_rng(devices=[]):
        first, second = example_outputs(tried, problem), example_outputs(tried, problem)
    changed = [
        name for name, buffer in tried.named_buffers() if not torch.equal(before[name], buffer)
    ]
    if changed:
        raise ModelError(
            f"the model changes its buffer {', '.join(map(repr, changed))} while it trains, which "
            "devices cannot average or mix as parameters. Keep such numbers outside of the module."
        )
    if not torch.equal(first, second):
        _refuse_inner_dropouts(module)
        raise ModelError(
            "the model draws random numbers of its own while it trains, as functional dropout "
            "does. Use nn.Dropout layers, which follow the seed."
        )


def _refuse_inner_dropouts(module: nn.Module) -> None:
    """Raise ModelError if a layer has a built-in dropout of torch."""
    found = {
        name: child
        for name, child in module.named_modules()
        if isinstance(child, nn.MultiheadAttention | nn.RNNBase) and child.dropout > 0
    }
    if found:
        layers = ", ".join(f"'{name}' ({type(child).__name__})" for name, child in found.items())
        settings = "; ".join(f"model.{name}.dropout = 0.0" for name in found).replace("..", ".")
        raise ModelError(
            "the model draws random numbers of its own while it trains: the dropout inside "
            f"{layers} does not follow the seed. Switch it off once the model is built, {settings};"
            " nn.Dropout layers beside it stay, and follow the seed."
        )


def warn_of_scaled_tokens(
    experiment: Experiment, dataset: Dataset, has_own_model: bool = False
) -> None:
    """Warn if a user's own model gets whole-number inputs standardised.

    Whole numbers may be tokens or amounts. Built-in models declare which they take; a user's model
    that rounds standardised tokens back would learn next to nothing, without any error.
    """
    data = experiment.data
    own = has_own_model or not registry.is_builtin("model", experiment.model.name)
    could_be_tokens = dataset.tokens("raw") is not None and dataset.tokens(data.scaling) is None
    if own and could_be_tokens and "scaling" not in data.model_fields_set:
        warn_once(
            f"the inputs of {dataset.name} are whole numbers, and your model gets them "
            'standardised. If they are tokens, set data.scaling = "raw", which leaves them whole; '
            'if they are amounts, set data.scaling = "standard" to silence this warning.'
        )
