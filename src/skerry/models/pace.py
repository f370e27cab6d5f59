"""How much longer models take that go one after the other, measured beside batched ones."""

import math
import re
import time
from collections.abc import Callable

import torch
from torch import nn

from skerry.models.learner import Batch, Learner, Problem, goes_one_by_one
from skerry.models.module import ModuleLearner

DEVICES, TRIES = 8, 3


def remark(learner: Learner, batch: int) -> str | None:
    """What to tell a user once, if the learner's models go one after the other."""
    if not isinstance(learner, ModuleLearner) or not goes_one_by_one(learner):
        return None
    return (
        "The models go one after the other, because torch cannot batch them "
        f"({_plainly(learner.why_one_by_one)}). A step takes {_ratio(learner, batch):.3g} times "
        "as long as one of batched dense layers with as many parameters."
    )


def _plainly(why: str) -> str:
    if "data-dependent" in why:
        return "they look at values, with .item() or a branch"
    found = re.search(r"[Bb]atching rule not implemented for (\S+?)[.;,]? ", why)
    return f"it has no rule for {found[1]}" if found else f"{why:.120}"


def _ratio(learner: ModuleLearner, batch: int) -> float:
    """Of the time of a step of a few devices, to that of dense layers of the same size."""
    problem = learner.problem
    width = max(2, math.isqrt(learner.parameters))
    like = Problem((width,), width, problem.seed)
    dense = ModuleLearner(nn.Sequential(nn.Linear(width, width), nn.Tanh()), like)
    dense.to(learner.device, learner.dtype)
    return _seconds(learner, problem, batch) / _seconds(dense, like, batch)


def _seconds(learner: ModuleLearner, problem: Problem, size: int) -> float:
    """The shortest of a few."""
    x, y = (part.to(learner.device) for part in problem.example())
    x, y = (part.repeat(-(-size // 2), *[1] * (part.ndim - 1))[:size] for part in (x, y))
    dtype = learner.dtype
    x, y = (part.to(dtype) if part.is_floating_point() else part for part in (x, y))
    X = learner.initial().to(learner.device, dtype).expand(DEVICES, 1, -1).clone()
    noise = torch.zeros(DEVICES, dtype=torch.int64, device=learner.device)
    x = learner.prepare(x)
    many = Batch(x.expand(DEVICES, *x.shape), y.expand(DEVICES, *y.shape), noise)
    return min(_timed(lambda: learner.step(X, many, X.new_zeros(1))) for _ in range(TRIES))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return max(time.perf_counter() - began, 1e-9)
