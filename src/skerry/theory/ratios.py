"""What a server round leaves of the disagreement and turns into bias, on average over who is
sampled, for the rule in use: the two ratios that are measured."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skerry.config.experiment import Experiment
from skerry.theory.counts import binomial
from skerry.theory.operators import Array, delta, kappa
from skerry.theory.participation import WEIGHTS, Exchange, exchange_under, has_bounds


class Shares(NamedTuple):
    """Of the disagreement inside islands, and of that between them."""

    intra: float
    inter: float
    exact: bool = True
    """Else at most so much: islands differ in size."""

    @property
    def is_one_number(self) -> bool:
        """Whether the ratio is the same whatever the models are."""
        return self.intra == self.inter

    def ratio(self, intra: npt.ArrayLike, inter: npt.ArrayLike) -> Array:
        """In a server round before which there is so much disagreement of both kinds; NaN if there
        is none."""
        intra, inter = np.asarray(intra, float), np.asarray(inter, float)
        with np.errstate(invalid="ignore"):
            return np.asarray((self.intra * intra + self.inter * inter) / (intra + inter))


class Ratios(NamedTuple):
    """The shares behind each measured ratio; None where the theory has no law."""

    disagreement_ratio: Shares | None
    bias_ratio: Shares | None


NOTHING = Shares(0.0, 0.0)
OTHER_RULES = (
    "Where the server does not sample uniformly, theory is what its rule leads to on average, "
    "given the disagreement inside and between islands before each server round."
)


def expected_ratios(experiment: Experiment) -> Ratios:
    server, beta = experiment.server, experiment.server.dial
    if beta is None or server.optimizer != "fedavg":
        return Ratios(None, None)
    left = None if beta == 1 else _left_by_s2s(experiment)
    turned = None if beta == 0 else _turned_by_s2a(experiment)
    # S2S never moves the average, whoever is sampled; after S2A all agree unless some sleep.
    return Ratios(
        NOTHING if beta == 1 and _all_are_awake(experiment) else _times((1 - beta) ** 2, left),
        NOTHING if beta == 0 else _times(beta**2, turned),
    )


def samples_as_in_the_paper(experiment: Experiment) -> bool:
    """Whether delta and kappa hold: devices are sampled uniformly, always as many, and weigh
    alike."""
    server = experiment.server
    plain = server.selection == "uniform" and server.weights == "equal"
    return plain and _all_are_awake(experiment) and not _K_changes(experiment)


def notes_on_rules(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    """What a reader must know of the lines where the server does not sample uniformly."""
    others = [one for one in experiments if not samples_as_in_the_paper(one)]
    shares = [share for one in others for share in expected_ratios(one)]
    notes = []
    if any(share is not None and not share.is_one_number for share in shares):
        notes.append(OTHER_RULES)
    if any(share is not None and not share.exact for share in shares):
        notes.append("Islands differ in size: there theory is an upper bound.")
    if None in shares:
        notes.append("No line: the theory has no law for how these runs sample.")
    return tuple(notes)


def _left_by_s2s(experiment: Experiment) -> Shares | None:
    """S2S delivers the plain mean, whatever the weights."""
    server, n = experiment.server, experiment.network.devices
    if not _all_are_awake(experiment) or _K_changes(experiment):
        return None
    if server.selection == "uniform":
        return _alike(delta(n, server.sampled))
    if server.selection == "bernoulli":
        return _alike(_given_that_somebody_comes(n, server.sample_prob) @ delta(n, _counts(n)))
    found = _exchange(experiment, "equal")
    return None if found is None else _by_island(experiment, *found.M.sum(axis=0).tolist())


def _turned_by_s2a(experiment: Experiment) -> Shares | None:
    server, n = experiment.server, experiment.network.devices
    if not _all_are_awake(experiment) or server.weights not in WEIGHTS or _K_changes(experiment):
        return None
    if server.selection == "bernoulli":
        if server.weights != "equal":
            return None
        return _alike(_given_that_somebody_comes(n, server.sample_prob) @ kappa(n, _counts(n)))
    if samples_as_in_the_paper(experiment):
        return _alike(kappa(n, server.sampled))
    found = _exchange(experiment, server.weights)
    if found is None:
        return None
    return _by_island(experiment, found.kappa_intra, found.kappa_inter)


def _exchange(experiment: Experiment, weights: str) -> Exchange | None:
    """None under a rule that has no law of counts, or one too long to write out."""
    server = experiment.server
    asked = server.selection, weights, experiment.network.sizes, server.sampled
    return exchange_under(*asked) if has_bounds(*asked) else None


def _all_are_awake(experiment: Experiment) -> bool:
    return experiment.availability.awake == 1 and experiment.availability.on is None


def _K_changes(experiment: Experiment) -> bool:
    return experiment.server.has_schedule("sampled")


def _by_island(experiment: Experiment, intra: float, inter: float) -> Shares:
    sizes = experiment.network.sizes
    if len(sizes) == 1:
        return _alike(intra)  # nothing is between
    if max(sizes) == 1:
        return _alike(inter)  # nothing is inside
    return Shares(intra, inter, exact=len(set(sizes)) == 1)


def _given_that_somebody_comes(n: int, q: float) -> Array:
    """The chances of 1, ..., n sampled devices: with nobody there is no server round."""
    chances = binomial(n, q)[1:]
    return np.asarray(chances / chances.sum())


def _counts(n: int) -> Array:
    return np.arange(1, n + 1, dtype=float)


def _alike(share: npt.ArrayLike) -> Shares:
    return Shares(float(np.asarray(share)), float(np.asarray(share)))


def _times(part: float, shares: Shares | None) -> Shares | None:
    if shares is None:
        return None
    return Shares(part * shares.intra, part * shares.inter, shares.exact)
