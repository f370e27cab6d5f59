"""Variants of an experiment: several primitives, presets and seeds."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from skerry.config import labels
from skerry.config.experiment import Experiment
from skerry.config.presets import PRESETS, with_preset
from skerry.errors import ExperimentError, SkerryError, argument, did_you_mean
from skerry.plugins import fingerprint, registry

Compared = str | Callable[..., Any]  # a primitive or preset by its name, or a primitive itself

MOST = 50_000  # the largest number of runs, as in a sweep


def expand(
    experiment: Experiment, compare: Sequence[Compared] = (), seeds: int = 1
) -> list[Experiment]:
    """The experiment with each primitive (`s2s`, `s2a`, `blend:0.25`, or a function) and preset
    (`tt_hf`), for `seeds` seeds counted from its own. Two names of one run give it once, under the
    first name."""
    variants = _variants(experiment, compare) if compare else [experiment]
    if seeds * len(variants) > MOST:
        raise ExperimentError(
            f"{argument('seeds')} must give at most {MOST:,} runs (got {seeds:,} seeds of "
            f"{len(variants)}). Take fewer seeds."
        )
    once: dict[str, Experiment] = {}
    for seed, each in product(range(experiment.seed, experiment.seed + seeds), variants):
        run = each.model_copy(update={"seed": seed})
        once.setdefault(run.key(), run)
    return list(once.values())


def _variants(experiment: Experiment, names: Sequence[Compared]) -> list[Experiment]:
    variants, faults = [], []
    for name in names:
        try:
            variants.append(variant(experiment, name))
        except SkerryError as error:
            faults += error.faults
    if faults:
        raise ExperimentError(*dict.fromkeys(faults))
    return variants


def variant(experiment: Experiment, compared: Compared) -> Experiment:
    name = str(fingerprint.as_text(compared)).strip()
    if name in PRESETS:
        return with_preset(experiment, name)
    primitive, beta = labels.read_label(name)
    if ":" not in primitive and primitive not in registry.PRIMITIVES:
        hint = did_you_mean(name, [*registry.PRIMITIVES, *PRESETS])
        raise SkerryError(
            f"unknown primitive '{name}'{hint} Available: "
            f"{', '.join(sorted(registry.PRIMITIVES))}. Presets: {', '.join(PRESETS)}."
        )
    settings = [f"server.primitive={primitive}", "server.name="]
    if experiment.server.name in PRESETS:  # its method is the preset's, not the experiment's own
        settings.append("method.name=sgd")
    settings += [f"server.beta={beta!r}"] if beta is not None else []
    return experiment.with_settings(*settings)
