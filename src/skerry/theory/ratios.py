"""What a server round leaves of the disagreement, and turns into bias, on average: where one number
says it, whatever the models are."""

from typing import NamedTuple

import numpy as np

from skerry.experiment import Experiment
from skerry.theory.counts import binomial
from skerry.theory.operators import delta, kappa


class Ratios(NamedTuple):
    disagreement_ratio: float | None
    bias_ratio: float | None


def expected_ratios(experiment: Experiment) -> Ratios:
    """None where there is no such number: under most rules of selection it depends on how much of
    the disagreement is inside islands and how much between."""
    server, beta = experiment.server, experiment.server.dial
    if beta is None or server.optimizer != "fedavg" or not _everybody_counts_alike(experiment):
        return Ratios(None, None)
    left, turned = _of_the_ends(experiment)
    if server.weights in ("stratified", "data_sampled"):
        turned = None  # S2S delivers the plain mean even so
    # S2A leaves nothing and S2S moves nothing, whoever is sampled.
    return Ratios(
        0.0 if beta == 1 else _times((1 - beta) ** 2, left),
        0.0 if beta == 0 else _times(beta**2, turned),
    )


def samples_as_in_the_paper(experiment: Experiment) -> bool:
    """Whether delta and kappa hold: devices are sampled uniformly and weigh alike."""
    server = experiment.server
    plain = server.selection == "uniform" and server.weights in ("equal", "data_step")
    return plain and _everybody_counts_alike(experiment)


def _everybody_counts_alike(experiment: Experiment) -> bool:
    """Nobody sleeps, and averages are those of all devices."""
    fleet = experiment.fleet
    return fleet.awake == 1 and fleet.on is None and experiment.server.weights != "data_average"


def _of_the_ends(experiment: Experiment) -> tuple[float | None, float | None]:
    """What S2S leaves and what S2A turns into bias, if all sampled devices weigh alike."""
    server, n = experiment.server, experiment.network.devices
    if server.selection == "bernoulli":
        K, chances = np.arange(1, n + 1), binomial(n, server.sample_prob)[1:]
        chances /= chances.sum()  # with nobody there is no server round
        return float(chances @ delta(n, K)), float(chances @ kappa(n, K))
    island_by_island = server.selection in ("per_component", "one_each")
    if server.selection == "uniform" or (island_by_island and experiment.network.components == 1):
        return float(delta(n, server.sampled)), float(kappa(n, server.sampled))
    return None, None


def _times(share: float, value: float | None) -> float | None:
    return None if value is None else share * value
