"""What to run: one experiment under several primitives and seeds."""

from collections.abc import Sequence

from skerry import registry
from skerry.errors import ExperimentError
from skerry.experiment import Experiment


def expand(experiment: Experiment, compare: Sequence[str] = (), seeds: int = 1) -> list[Experiment]:
    """The experiment under each named primitive (`s2s`, `s2a`, `blend:0.25`) and for `seeds`
    seeds, counted on from its own. Two names for the same run give it once."""
    variants = _variants(experiment, compare) if compare else [experiment]
    runs = [
        variant.with_settings(f"seed={experiment.seed + offset}")
        for offset in range(seeds)
        for variant in variants
    ]
    return list({run.key(): run for run in runs}.values())


def _variants(experiment: Experiment, names: Sequence[str]) -> list[Experiment]:
    variants, faults = [], []
    for name in names:
        try:
            variants.append(experiment.with_settings(*_primitive_settings(name.strip())))
        except ExperimentError as error:
            faults += error.faults
    if faults:
        raise ExperimentError(*dict.fromkeys(faults))
    return variants


def _primitive_settings(name: str) -> list[str]:
    primitive, colon, beta = name.partition(":")
    if primitive in registry.PRIMITIVES and colon:
        if primitive != "blend":
            raise ExperimentError(f"only blend takes a beta (got '{name}'). Example: blend:0.25")
        return ["server.primitive=blend", f"server.beta={beta}"]
    return [f"server.primitive={name}"]  # one of ours, or a user's own package.module:function


def label(experiment: Experiment) -> str:
    """How a run is called beside others: its primitive, with the dial's position."""
    server = experiment.server
    return f"blend({server.beta:g})" if server.primitive == "blend" else server.primitive
