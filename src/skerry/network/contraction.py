"""How fast a fleet mixes inside its components: exactly, by formula, or by drawing rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from skerry.config.experiment import Network
from skerry.network import mixing
from skerry.network.components import draw_component, surviving, weigh
from skerry.network.links import Links
from skerry.plugins import registry
from skerry.seeds import stream

Method = Literal["exact", "closed form", "estimated"]

# Fresh graphs of these have the same ||W||_F whatever is drawn; of `regular` too, where the
# weights depend on degrees alone.
SHAPES = frozenset({"complete", "grid", "path", "ring", "star", "torus"})
WEIGHTS_BY_DEGREE = frozenset({"lazy", "max_degree", "metropolis"})


@dataclass(frozen=True)
class MixingParameters:
    """p of every component and of the whole fleet."""

    per_component: tuple[float, ...]
    minimum: float
    """p_min, which bounds use: it holds for every X."""
    average: float
    """The paper's weighted average; equal to the minimum where all components are alike."""
    frobenius: float
    method: Method
    standard_error: float
    """Of the minimum; 0 unless it was estimated."""


@dataclass(frozen=True)
class Contraction:
    """p of one component."""

    p: float
    frobenius: float
    method: Method = "exact"
    standard_error: float = 0.0


def of_fixed(W: mixing.Matrix) -> Contraction:
    return Contraction(mixing.mixing_parameter(W), mixing.p_frobenius(W))


def of_sequence(sequence: Sequence[Links], network: Network, seed: int, draws: int) -> Contraction:
    """p of a component whose links change as given, each of its graphs counted alike."""
    size = sequence[0].size
    if size == 1:
        return Contraction(1.0, 1.0)
    if network.link_failure:
        frobenius: list[float] = []

        def draw(k: int) -> sparse.csr_array:
            rng = stream(seed, "mixing", size, k)
            W = weigh(surviving(sequence[k % len(sequence)], network.link_failure, rng), network)
            frobenius.append(mixing.p_frobenius(W))
            return W

        p, error = mixing.estimate_expected_p(draw, draws)
        return Contraction(p, float(np.mean(frobenius)), "estimated", error)
    weighed = [weigh(links, network) for links in sequence]
    frobenius = [mixing.p_frobenius(W) for W in weighed]
    return Contraction(mixing.expected_p(weighed), float(np.mean(frobenius)))


def of_random(
    size: int, links: Links | None, network: Network, seed: int, draws: int
) -> Contraction:
    """p of a component whose `links` fail at random or, where None, are drawn every round."""
    if size == 1:
        return Contraction(1.0, 1.0)
    frobenius: list[float] = []

    def draw(k: int) -> sparse.csr_array:
        rng = stream(seed, "mixing", size, k)
        drawn = links or draw_component(size, network, rng, k)
        W = weigh(surviving(drawn, network.link_failure, rng), network)
        frobenius.append(mixing.p_frobenius(W))
        return W

    dealt = network.dynamic  # places at random
    if links or not dealt or network.mixing not in registry.MIXING:
        p, error = mixing.estimate_expected_p(draw, draws)
        return Contraction(p, float(np.mean(frobenius)), "estimated", error)
    # Places are dealt at random, so E[W W^T] = a I + b 11^T: every direction shrinks alike, and
    # p is the mean of p_frobenius.
    if _same_norm_always(network):
        draw(0)
        return Contraction(frobenius[0], frobenius[0], "closed form")
    mixing.check_draws(draws)
    for k in range(draws):
        draw(k)
    p = float(np.mean(frobenius))
    return Contraction(p, p, "estimated", float(np.std(frobenius, ddof=1) / np.sqrt(draws)))


def _same_norm_always(network: Network) -> bool:
    by_degree = network.topology == "regular" and network.mixing in WEIGHTS_BY_DEGREE
    return not network.link_failure and (network.topology in SHAPES or by_degree)


def of_fleet(components: list[Contraction], sizes: tuple[int, ...]) -> MixingParameters:
    ps = tuple(one.p for one in components)
    minimum = mixing.p_min(ps, sizes)
    slowest = next(one for one in components if one.p == minimum)
    return MixingParameters(
        per_component=ps,
        minimum=minimum,
        average=mixing.p_average(ps, sizes),
        frobenius=mixing.p_average([one.frobenius for one in components], sizes),
        method=slowest.method,
        standard_error=slowest.standard_error,
    )
