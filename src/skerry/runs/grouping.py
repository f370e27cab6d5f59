"""Which runs go together: experiments that share a world become lanes of one stack."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from skerry.config.experiment import Experiment

if TYPE_CHECKING:
    from skerry.runs.executors.executor import Executor
    from skerry.runs.executors.messages import Survey


def stacks(experiments: Iterable[Experiment]) -> list[list[Experiment]]:
    """Groups in the order of their first member."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        groups.setdefault(experiment.world_key(), []).append(experiment)
    return list(groups.values())


def cut(experiments: Sequence[Experiment], most: int) -> list[list[Experiment]]:
    """Stacks of at most so many lanes, all of about one size; lanes with the same network and
    the same server stay together, because they mix and meet the server as one."""
    from skerry.engine.stack import group_keys

    if len(experiments) <= most:
        return [list(experiments)] if experiments else []
    ordered = sorted(experiments, key=group_keys)
    count = -(-len(ordered) // most)
    edges = [len(ordered) * piece // count for piece in range(count + 1)]
    return [ordered[start:stop] for start, stop in pairwise(edges)]


def stack_size(waiting: int, worlds: int, survey: "Survey", executor: "Executor") -> int:
    """As many lanes as fit, or so few that every slot has work where there are few worlds."""
    fits = survey.footprint.lanes(executor.sharers(survey.footprint))
    pieces = -(-executor.slots // worlds)
    return max(1, min(fits, -(-waiting // pieces)))


def shape(experiment: Experiment) -> str:
    """Worlds of one shape differ in their seed and in how the data are split: they need the same
    memory, and what was learnt in one holds for the others."""
    data = experiment.data.model_copy(update={"inter": "iid", "intra": "iid"})
    return experiment.model_copy(update={"seed": 0, "data": data}).world_key()
