"""The mixing parameter p of islands and of a fleet: exact, by formula, or estimated from draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from skerry.config.experiment import Network
from skerry.errors import NetworkError
from skerry.network.islands import surviving, weigh
from skerry.network.links import Links
from skerry.network.mixing import as_csr, smallest_eigenpair
from skerry.network.topologies import DETERMINISTIC
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.seeds import stream

Derivation = Literal["exact", "closed form", "estimated"]

WEIGHTS_BY_DEGREE = frozenset({"lazy", "max_degree", "metropolis"})
"""Weights that depend on degrees alone."""


@dataclass(frozen=True)
class MixingParameters:
    """The mixing parameter p of every island and of the whole fleet."""

    per_island: tuple[float, ...]
    minimum: float
    """p_min, which bounds use: it holds for every X."""
    average: float
    """The paper's weighted average; equal to the minimum where all islands are alike."""
    frobenius: float
    method: Derivation
    standard_error: float
    """Of the minimum; 0 unless it was estimated."""


@dataclass(frozen=True)
class Contraction:
    """The mixing parameter p of one island."""

    p: float
    frobenius: float
    method: Derivation = "exact"
    standard_error: float = 0.0


def sequence_contraction(
    graphs: Sequence[Links],
    network: Network,
    seed: int,
    draws: int,
    context: Callable[[int], Context],
) -> Contraction:
    """p of an island with a given sequence of graphs, each of which counts alike."""
    size = graphs[0].size
    if network.link_failure:
        return random_contraction(
            size, lambda k, rng: graphs[k % len(graphs)], network, seed, draws, context
        )
    if size == 1:
        return Contraction(1.0, 1.0)
    matrices = [weigh(links, network, context(k)) for k, links in enumerate(graphs)]
    frobenius = [p_frobenius(W) for W in matrices]
    return Contraction(expected_p(matrices), float(np.mean(frobenius)))


def random_contraction(
    size: int,
    links_of: Callable[[int, np.random.Generator], Links],
    network: Network,
    seed: int,
    draws: int,
    context: Callable[[int], Context],
) -> Contraction:
    """p of an island whose links fail at random or are drawn anew every round; `links_of(k, rng)`
    gives the links of draw k before any of them fails, and `context(k)` what plug-ins receive."""
    if size == 1:
        return Contraction(1.0, 1.0)
    frobenius: list[float] = []

    def draw(k: int) -> sparse.csr_array:
        rng = stream(seed, "mixing", size, k)
        W = weigh(surviving(links_of(k, rng), network.link_failure, rng), network, context(k))
        frobenius.append(p_frobenius(W))
        return W

    if not network.dynamic or not registry.is_builtin("mixing", network.mixing):
        p, error = estimate_expected_p(draw, draws)
        return Contraction(p, float(np.mean(frobenius)), "estimated", error)
    # A dynamic network permutes the devices at random, so E[W W^T] = a I + b 11^T: every direction
    # shrinks alike, and p is the mean of p_frobenius.
    by_degree = network.topology == "regular" and network.mixing in WEIGHTS_BY_DEGREE
    if not network.link_failure and (network.topology in DETERMINISTIC or by_degree):
        draw(0)  # all draws have the same norm
        return Contraction(frobenius[0], frobenius[0], "closed form")
    check_draws(draws)
    for k in range(draws):
        draw(k)
    p = float(np.mean(frobenius))
    return Contraction(p, p, "estimated", float(np.std(frobenius, ddof=1) / np.sqrt(draws)))


def fleet_parameters(islands: list[Contraction], sizes: tuple[int, ...]) -> MixingParameters:
    """The mixing parameters of a fleet from those of its islands."""
    ps = tuple(island.p for island in islands)
    minimum = p_min(ps, sizes)
    slowest = next(island for island in islands if island.p == minimum)
    return MixingParameters(
        per_island=ps,
        minimum=minimum,
        average=p_average(ps, sizes),
        frobenius=p_average([island.frobenius for island in islands], sizes),
        method=slowest.method,
        standard_error=slowest.standard_error,
    )


def mixing_parameter(W: Any) -> float:
    """p = 1 - ||W - Pi||_2^2 of one island: a round of mixing keeps at most 1 - p of the squared
    disagreement. A single device has no disagreement, so its p is 1."""
    size = W.shape[0]
    if size == 1:
        return 1.0
    # Assembled only where it must be: W^T W of a star is dense.
    loss = LinearOperator(
        (size, size),
        matvec=lambda v: v - W.T @ (W @ v),
        matmat=lambda V: V - W.T @ (W @ V),
        dtype=np.dtype(np.float64),
    )
    p, _ = smallest_eigenpair(loss, lambda: sparse.eye_array(size) - as_csr(W.T @ W))
    return min(max(p, 0.0), 1.0)


def p_min(ps: Sequence[float], sizes: Sequence[int]) -> float:
    """The p that holds for every X: the smallest over the islands of two or more devices."""
    return min((p for p, m in zip(ps, sizes, strict=True) if m >= 2), default=1.0)


def p_average(ps: Sequence[float], sizes: Sequence[int]) -> float:
    """The paper's average of p over islands, weighted by n_c - 1. It holds for X = I only: where
    islands differ, use `p_min` in bounds."""
    directions = [m - 1 for m in sizes]
    return 1.0 if not any(directions) else float(np.average(ps, weights=directions))


def p_frobenius(W: Any, islands: int = 1) -> float:
    """1 - (||W||_F^2 - C) / (n - C): the mean loss over all directions. It is never below
    `p_average` and holds for X = I only."""
    size = W.shape[0]
    if size == islands:
        return 1.0
    norm_squared = float(np.square(as_csr(W).data).sum())
    return 1 - (norm_squared - islands) / (int(size) - islands)


def expected_p(equally_likely: Sequence[Any]) -> float:
    """p = 1 - lambda_max(E[W W^T] - Pi) of a random W that is one of these matrices."""
    moment: Any = sum(as_csr(W) @ as_csr(W).T for W in equally_likely) / len(equally_likely)
    loss = sparse.csr_array(sparse.eye_array(moment.shape[0]) - moment)
    return max(0.0, smallest_eigenpair(loss, lambda: loss)[0])


def estimate_expected_p(draw: Callable[[int], Any], draws: int = 400) -> tuple[float, float]:
    """p = 1 - lambda_max(E[W W^T] - Pi) of a random W, and its standard error.

    The top eigenvalue of an average exceeds that of the expectation, because its direction fits
    the noise. So the direction v comes from the first half of the draws, and the mean of
    ||W^T v||^2 from the second.
    """
    check_draws(draws)
    half = draws // 2
    first_half = (as_csr(draw(k)) for k in range(half))
    moment: Any = sum(W @ W.T for W in first_half) / half
    size = moment.shape[0]
    if size == 1:
        return 1.0, 0.0
    loss = sparse.csr_array(sparse.eye_array(size) - moment)
    _, v = smallest_eigenpair(loss, lambda: loss)
    losses = [1 - float(np.sum((draw(k).T @ v) ** 2)) for k in range(half, draws)]
    return float(np.mean(losses)), float(np.std(losses, ddof=1) / np.sqrt(len(losses)))


def check_draws(draws: int) -> None:
    """Raise NetworkError if `draws` are too few for an estimate of p."""
    if draws < 4:
        raise NetworkError(f"an estimate of p needs at least 4 draws (got {draws}). Raise draws.")
