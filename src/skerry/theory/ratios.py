"""Expected values of the two measured ratios: disagreement left by a server round, and bias."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skerry.config.experiment import Experiment
from skerry.theory.counts import binomial_probabilities
from skerry.theory.operators import Array, Numbers, delta, kappa
from skerry.theory.participation import ExchangeCoefficients, exchange_under, has_exchange


class ExpectedRatio(NamedTuple):
    """An expected ratio: its value for disagreement inside islands, and for that between them."""

    intra: float
    inter: float
    exact: bool = True  # whether they are exact; with unequal islands they are upper bounds

    @property
    def is_constant(self) -> bool:
        """Whether the ratio is the same for all models."""
        return self.intra == self.inter

    def ratio(self, intra: npt.ArrayLike, inter: npt.ArrayLike) -> Array:
        """The ratio by the disagreement of both kinds before the server round; NaN for none."""
        intra, inter = np.asarray(intra, float), np.asarray(inter, float)
        with np.errstate(invalid="ignore"):
            return np.asarray((self.intra * intra + self.inter * inter) / (intra + inter))


class Ratios(NamedTuple):
    """The expectation of each measured ratio, or None if the theory has no law for it."""

    disagreement_ratio: ExpectedRatio | None
    bias_ratio: ExpectedRatio | None


ZERO = ExpectedRatio(0.0, 0.0)
OTHER_RULES = (
    "Where the server does not sample uniformly, theory is what its rule leads to on average, "
    "given the disagreement inside and between islands before each server round."
)


def expected_ratios(experiment: Experiment) -> Ratios:
    """Expected ratios of the experiment's server rounds, over the random choice of devices."""
    server, beta = experiment.server, experiment.server.dial
    if beta is None or server.optimizer != "fedavg":
        return Ratios(None, None)
    known = _all_take_part(experiment) and not server.has_schedule("sampled")
    remaining = _disagreement_ratio(experiment) if known and beta != 1 else None
    bias = _bias_ratio(experiment) if known and beta != 0 else None
    # S2S never moves the average; after S2A all devices agree unless some are asleep, or a deadline
    # has made the round void.
    return Ratios(
        ZERO if beta == 1 and _all_take_part(experiment) else _scaled((1 - beta) ** 2, remaining),
        ZERO if beta == 0 else _scaled(beta**2, bias),
    )


def samples_as_in_the_paper(experiment: Experiment) -> bool:
    """Whether delta and kappa hold: K fixed, uniform sampling, equal weights, all awake."""
    server = experiment.server
    plain = server.selection == "uniform" and server.weights == "equal"
    return plain and _all_take_part(experiment) and not server.has_schedule("sampled")


def notes_on_rules(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    """Notes for readers on theory lines of runs that do not sample uniformly."""
    others = [one for one in experiments if not samples_as_in_the_paper(one)]
    shares = [share for one in others for share in expected_ratios(one)]
    notes = []
    if any(share is not None and not share.is_constant for share in shares):
        notes.append(OTHER_RULES)
    if any(share is not None and not share.exact for share in shares):
        notes.append("Islands differ in size: there theory is an upper bound.")
    if None in shares:
        notes.append("No line: the theory has no law for how these runs sample.")
    return tuple(notes)


def _disagreement_ratio(experiment: Experiment) -> ExpectedRatio | None:
    """The ratio after S2S, which delivers the plain mean for any weights."""
    server, n = experiment.server, experiment.network.devices
    if server.selection == "uniform":
        return _constant(delta(n, server.sampled))
    if server.selection == "bernoulli":
        return _bernoulli_mean(delta, n, server.sample_prob)
    return _by_kind(experiment, "equal", lambda found: found.M.sum(axis=0).tolist())


def _bias_ratio(experiment: Experiment) -> ExpectedRatio | None:
    server, n = experiment.server, experiment.network.devices
    if server.selection == "bernoulli":
        equal = server.weights == "equal"
        return _bernoulli_mean(kappa, n, server.sample_prob) if equal else None
    if samples_as_in_the_paper(experiment):
        return _constant(kappa(n, server.sampled))
    return _by_kind(experiment, server.weights, lambda one: (one.kappa_intra, one.kappa_inter))


def _all_take_part(experiment: Experiment) -> bool:
    """Whether nobody is ever asleep or late."""
    awake = experiment.availability.awake == 1 and experiment.availability.on is None
    return awake and not experiment.server.is_timed


def _by_kind(
    experiment: Experiment,
    weights: str,
    kinds: Callable[[ExchangeCoefficients], tuple[float, float]],
) -> ExpectedRatio | None:
    """Ratio by the coefficients of the rule; None if its law of counts cannot be enumerated."""
    server, sizes = experiment.server, experiment.network.sizes
    rule = server.selection, weights, sizes, server.sampled
    if not has_exchange(*rule):
        return None
    intra, inter = kinds(exchange_under(*rule))
    if len(sizes) == 1:
        return _constant(intra)  # one island
    if max(sizes) == 1:
        return _constant(inter)  # islands of one device
    return ExpectedRatio(intra, inter, exact=len(set(sizes)) == 1)


def _bernoulli_mean(share: Callable[..., Numbers], n: int, q: float) -> ExpectedRatio:
    """Mean of delta or kappa under Bernoulli sampling, given that some device is sampled."""
    probabilities = binomial_probabilities(n, q)[1:]
    counts = np.arange(1, n + 1, dtype=float)
    return _constant(probabilities / probabilities.sum() @ share(n, counts))


def _constant(share: npt.ArrayLike) -> ExpectedRatio:
    return ExpectedRatio(float(np.asarray(share)), float(np.asarray(share)))


def _scaled(factor: float, shares: ExpectedRatio | None) -> ExpectedRatio | None:
    return shares and ExpectedRatio(factor * shares.intra, factor * shares.inter, shares.exact)
