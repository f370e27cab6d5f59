"""What to run: one experiment under several primitives and seeds."""

from collections.abc import Sequence

from skerry import registry
from skerry.errors import ExperimentError, unknown
from skerry.experiment import Experiment


def expand(experiment: Experiment, compare: Sequence[str] = (), seeds: int = 1) -> list[Experiment]:
    """The experiment under each named primitive (`s2s`, `s2a`, `blend:0.25`) and for `seeds`
    seeds, counted on from its own. Two names for the same run give it once."""
    settings = [_primitive_settings(name) for name in compare] or [[]]
    variants = [experiment.with_settings(*each) for each in settings]
    runs = [
        variant.with_settings(f"seed={experiment.seed + offset}")
        for offset in range(seeds)
        for variant in variants
    ]
    return list({run.key(): run for run in runs}.values())


def _primitive_settings(name: str) -> list[str]:
    primitive, colon, beta = name.strip().partition(":")
    if primitive not in registry.PRIMITIVES:
        if ":" in name:  # a user's own package.module:function
            return [f"server.primitive={name}"]
        raise ExperimentError([unknown("primitive", primitive, registry.PRIMITIVES)])
    if not colon:
        return [f"server.primitive={primitive}"]
    if primitive != "blend":
        raise ExperimentError([f"only blend takes a beta (got '{name}'). Example: blend:0.25"])
    return ["server.primitive=blend", f"server.beta={beta}"]


def label(experiment: Experiment) -> str:
    """How a run is called beside others: its primitive, with the dial's position."""
    server = experiment.server
    return f"blend({server.beta:g})" if server.primitive == "blend" else server.primitive
