"""A remark on the slowdown of models that are stepped one after the other, by measurement."""

import math
import re
import timeit

import torch
from torch import nn

from skerry.models.learner import Batch, Learner, Problem, goes_one_by_one
from skerry.models.module import ModuleLearner

DEVICES, REPEATS = 8, 3


def slowdown_remark(learner: Learner, batch: int) -> str | None:
    """Remark for the user on why and by how much steps are slow; None if models are batched."""
    if not isinstance(learner, ModuleLearner) or not goes_one_by_one(learner):
        return None
    return (
        "The models go one after the other, because torch cannot batch them "
        f"({_explain(learner.why_one_by_one)}). A step takes {_slowdown(learner, batch):.3g} times "
        "as long as one of batched dense layers with as batch parameters."
    )


def _explain(why: str) -> str:
    """Torch's error message in plain words."""
    if "data-dependent" in why:
        return "they look at values, with .item() or a branch"
    rule = re.search(r"[Bb]atching rule not implemented for (\S+?)[.;,]? ", why)
    return f"it has no rule for {rule[1]}" if rule else f"{why:.120}"


def _slowdown(learner: ModuleLearner, batch: int) -> float:
    """Time of a step of a few devices over that of batched dense layers of the same size."""
    problem = learner.problem
    width = max(2, math.isqrt(learner.parameters))
    dense_problem = Problem((width,), width, problem.seed)
    dense = ModuleLearner(nn.Sequential(nn.Linear(width, width), nn.Tanh()), dense_problem)
    dense.to(learner.device, learner.dtype)
    return _seconds(learner, problem, batch) / _seconds(dense, dense_problem, batch)


def _seconds(learner: ModuleLearner, problem: Problem, size: int) -> float:
    """Shortest time of a few steps."""
    x, y = problem.example(learner.device, learner.dtype)
    x, y = (part.repeat(-(-size // 2), *[1] * (part.ndim - 1))[:size] for part in (x, y))
    X = learner.initial().to(learner.device, learner.dtype).expand(DEVICES, 1, -1).clone()
    noise = torch.zeros(DEVICES, dtype=torch.int64, device=learner.device)
    x = learner.prepare(x)
    batch = Batch(x.expand(DEVICES, *x.shape), y.expand(DEVICES, *y.shape), noise)

    def step() -> None:
        learner.step(X, batch, X.new_zeros(1))
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return max(min(timeit.repeat(step, number=1, repeat=REPEATS)), 1e-9)
