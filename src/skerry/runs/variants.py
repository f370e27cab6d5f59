"""What to run: one experiment under several primitives and seeds."""

from collections.abc import Sequence

from skerry import labels
from skerry.errors import ExperimentError, SkerryError, argument
from skerry.experiment import Experiment

MOST = 50_000
"""Runs in one go, as in a sweep."""


def expand(experiment: Experiment, compare: Sequence[str] = (), seeds: int = 1) -> list[Experiment]:
    """The experiment under each named primitive (`s2s`, `s2a`, `blend:0.25`) and for `seeds`
    seeds, counted on from its own. Two names for the same run give it once."""
    variants = _variants(experiment, compare) if compare else [experiment]
    if seeds * len(variants) > MOST:
        raise ExperimentError(
            f"{argument('seeds')} must give at most {MOST:,} runs (got {seeds:,} seeds of "
            f"{len(variants)}). Take fewer seeds."
        )
    runs = [
        variant.model_copy(update={"seed": experiment.seed + offset})
        for offset in range(seeds)
        for variant in variants
    ]
    return list({run.key(): run for run in runs}.values())


def _variants(experiment: Experiment, names: Sequence[str]) -> list[Experiment]:
    variants, faults = [], []
    for name in names:
        try:
            primitive, beta = labels.read(name)
            settings = [f"server.primitive={primitive}"]
            settings += [f"server.beta={beta!r}"] if beta is not None else []
            variants.append(experiment.with_settings(*settings))
        except SkerryError as error:
            faults += error.faults
    if faults:
        raise ExperimentError(*dict.fromkeys(faults))
    return variants
