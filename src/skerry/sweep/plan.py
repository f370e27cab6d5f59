"""Which runs go together: experiments that share a world become lanes of one stack."""

from collections.abc import Iterable

from skerry.experiment import Experiment


def stacks(experiments: Iterable[Experiment]) -> list[list[Experiment]]:
    """Groups in the order of their first member."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        groups.setdefault(experiment.world_key(), []).append(experiment)
    return list(groups.values())
