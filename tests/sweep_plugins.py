"""Plug-ins that sweeps are tested with, named as a user would name them."""

import os
from pathlib import Path

from skerry.engine.primitives import s2s
from skerry.models.linear import linear
from skerry.runs.executors.here import Here

ROOM = 3


def greedy(X_nld, sampled_k, delivered_ld):
    """S2S that needs so much memory that only a few lanes fit."""
    if X_nld.shape[1] > ROOM:
        raise MemoryError(f"{X_nld.shape[1]} lanes")
    return s2s(X_nld, sampled_k, delivered_ld)


def broken(X_nld, sampled_k, delivered_ld):
    raise ValueError("this primitive is broken")


def deadly(X_nld, sampled_k, delivered_ld):
    """Takes its process with it, as the system does when memory runs out."""
    os._exit(9)


def watched(problem, *, log):
    """The linear model; leaves the number of every process that builds it in a file."""
    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return linear(problem)


def no_model(problem):
    raise ValueError("there is no such model")


class Counting(Here):
    """An executor that counts the worlds it looks at."""

    surveys = 0

    def survey(self, experiment):
        Counting.surveys += 1
        return super().survey(experiment)
