"""Whether a user's module can be trained as one of many, told before the work starts."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from skerry.errors import ModelError, one_line
from skerry.models.learner import Problem

WANTED = {
    "classification": "one score per class",
    "regression": "one number for each of a target's",
    "tokens": "one score per token at every place",
}


def outputs(module: nn.Module, problem: Problem) -> Any:
    """What the module makes of two samples."""
    try:
        with torch.no_grad():
            return module(problem.example()[0])
    except Exception as error:  # a user's module may fail in any way
        _blame_an_embedding(module, problem)
        what = "tokens 0 to" if problem.task.name == "tokens" else "whole numbers 0 to"
        told = "" if problem.tokens is None else f" with {what} {problem.tokens - 1}"
        raise ModelError(
            f"the model fails on inputs of shape {problem.input_shape}{told} ({one_line(error)}). "
            "Make it accept a batch of that shape."
        ) from error


def _blame_an_embedding(module: nn.Module, problem: Problem) -> None:
    """Raise ModelError where an embedding is given what it has no row for: torch says only that an
    index is out of range, and not whose."""

    def look(name: str, embedding: nn.Embedding, x: Tensor) -> None:
        if x.is_floating_point():
            raise ModelError(
                f"embedding '{name}' takes whole numbers (got {x.dtype}). Give the data whole "
                'inputs and set data.scaling = "raw", which leaves them whole.'
            )
        lowest, highest = int(x.min()), int(x.max())
        if lowest < 0 or highest >= embedding.num_embeddings:
            rows = "problem.tokens" if highest + 1 == problem.tokens else str(highest + 1)
            raise ModelError(
                f"embedding '{name}' has {embedding.num_embeddings} rows, 0 to "
                f"{embedding.num_embeddings - 1}, but is given {lowest} to {highest} on inputs of "
                f"shape {problem.input_shape}. Make it nn.Embedding({rows}, ...)."
            )

    hooks = [
        child.register_forward_pre_hook(
            lambda one, given, name=name or "Embedding": look(name, one, given[0])
        )
        for name, child in module.named_modules()
        if isinstance(child, nn.Embedding)
    ]
    try:
        with torch.no_grad():
            module(problem.example()[0])
    except ModelError:
        raise
    except Exception:  # told by whoever asks
        return
    finally:
        for hook in hooks:
            hook.remove()


def settle_lazy_layers(module: nn.Module, problem: Problem) -> None:
    """Layers such as nn.LazyLinear have no parameters until they have seen an input."""
    if any(map(nn.parameter.is_lazy, module.parameters())):
        outputs(module, problem)


def refuse_batch_statistics(module: nn.Module) -> None:
    for name, child in module.named_modules():
        if isinstance(child, nn.modules.batchnorm._NormBase) and (
            isinstance(child, nn.modules.batchnorm._BatchNorm) or child.track_running_stats
        ):
            raise ModelError(
                f"layer '{name or type(child).__name__}' ({type(child).__name__}) keeps batch "
                "statistics, which devices cannot average or mix as parameters. Use "
                "torch.nn.GroupNorm instead."
            )


def check_outputs(found: Any, problem: Problem) -> None:
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    wanted = (2, *problem.output_shape)
    if got != wanted:
        raise ModelError(
            f"the model must give {WANTED[problem.task.name]}, shape {wanted} for two samples "
            f"(got {got}). Change its last layer."
        )


def check_training(module: nn.Module, problem: Problem) -> None:
    """A step must follow from parameters, data and the keys of dropouts alone, and change nothing
    but parameters."""
    tried = copy.deepcopy(module).train()
    before = {name: buffer.clone() for name, buffer in tried.named_buffers()}
    with torch.random.fork_rng(devices=[]):
        first, second = outputs(tried, problem), outputs(tried, problem)
    check_outputs(first, problem)
    changed = [
        name for name, buffer in tried.named_buffers() if not torch.equal(before[name], buffer)
    ]
    if changed:
        raise ModelError(
            f"the model changes its buffer {', '.join(map(repr, changed))} while it trains, which "
            "devices cannot average or mix as parameters. Keep such numbers outside of the module."
        )
    if not torch.equal(first, second):
        if told := _dropouts_inside(module):
            raise ModelError(told)
        raise ModelError(
            "the model draws random numbers of its own while it trains, as functional dropout "
            "does. Use nn.Dropout layers, which follow the seed."
        )


def _dropouts_inside(module: nn.Module) -> str:
    """Which layers have a dropout of torch's own inside, and how to do without that one alone."""
    found = {
        name: child
        for name, child in module.named_modules()
        if isinstance(child, nn.MultiheadAttention | nn.RNNBase) and child.dropout > 0
    }
    if not found:
        return ""
    layers = ", ".join(f"'{name}' ({type(child).__name__})" for name, child in found.items())
    settings = "; ".join(f"model.{name}.dropout = 0.0" for name in found).replace("..", ".")
    return (
        f"the model draws random numbers of its own while it trains: the dropout inside {layers} "
        f"does not follow the seed. Switch it off once the model is built, {settings}; nn.Dropout "
        "layers beside it stay, and follow the seed."
    )
