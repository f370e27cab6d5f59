"""Certified bounds: the full recursion, minimised over what it leaves free.

Every entry of the recursion is a posynomial in stepsize, alpha and rho, so the logarithm of the
bound is convex in their logarithms (a geometric program) and a log grid that zooms in finds the
minimum. Any alpha and rho give a valid bound, so a coarse search costs tightness, never truth.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from skerry.config import labels
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.theory.bounds import ONE_SAMPLED, UNIFORMLY, assumed, coefficients
from skerry.theory.full_recursion import FullRecursion
from skerry.theory.operators import Array, delta
from skerry.theory.parameters import Parameters
from skerry.theory.stepsize import best_stepsize

Point: TypeAlias = tuple[float, ...]

# Half-widths of successive grids, in decades: from anywhere plausible to two digits.
WIDE = (4.0, 1.5, 0.5, 0.2, 0.07, 0.025, 0.01)
NEAR = (0.5, 0.2, 0.07, 0.025, 0.01)
POINTS = 9

SAMPLED = {
    "uniform": UNIFORMLY[0],
    "per_component": "every island is sampled in proportion to its size, as nearly as whole "
    "numbers allow, every device with chance K/n, independently of everything else (per_component)",
    "one_each": "equally many devices of every island are sampled, independently of everything "
    "else, and S2A weighs islands by their size (one_each)",
    "bernoulli": "every device is sampled with chance K/n, independently of everything else "
    "(bernoulli): messages count K, the mean of how many come",
}

NO_STEADY_STATE = (
    "The certified recursion has no steady state at any stepsize that the search tried. Sample "
    "more devices or shorten the period."
)


@dataclass(frozen=True)
class Certificate:
    """After `rounds` rounds with this stepsize, the average is at most `average`."""

    rounds: float
    stepsize: float
    average: float
    beta: float
    """Where on the dial: 0 is S2S, 1 is S2A."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """What each source adds to `average`."""
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    """Why `rounds` is infinite, where it is."""

    def __repr__(self) -> str:
        rounds = np.max(self.rounds)
        enough = f"{rounds:,.0f} rounds" if np.isfinite(rounds) else "no number of rounds"
        return f"<Certificate: {enough}, beta {self.beta:g}>"

    def _repr_html_(self) -> str:
        return str(registry.view("bound")(self))


def certified_average(
    parameters: Parameters,
    primitive: str,
    *,
    beta: float = 0.5,
    stepsize: float,
    rounds: int,
    convex: bool,
) -> float:
    """A bound on the average over t = 0..rounds-1 of E f(xbar^t) - f* (convex) or of
    E ||grad f(xbar^t)||^2 (non-convex); infinite for stepsizes above 1/(4L).

    beta is that of a blend; s2s and s2a do not read it.
    """
    if rounds < 1 or not stepsize > 0:
        raise SkerryError(
            f"rounds must be at least 1 and stepsize above 0 (got {rounds} and {stepsize:g}). "
            "Raise them."
        )
    recursion = FullRecursion(parameters, _on_the_dial(primitive, beta), convex)
    if stepsize > recursion.largest_stepsize:
        return np.inf
    eta = np.asarray(stepsize, float)
    return _minimise(
        lambda alpha, rho: recursion.average(eta, alpha, rho, rounds),
        _start(parameters, recursion)[1:],
        WIDE,
    )[0]


def certified_rounds(
    parameters: Parameters, primitive: str, *, beta: float = 0.5, convex: bool
) -> Certificate:
    """The fewest rounds, over constant stepsizes, after which the average is at most epsilon.

    Stepsize, alpha and rho first minimise the rounds that are enough in the steady state, in
    closed form. Then, in turns, they minimise the exact bound for that many rounds, and the
    rounds are lowered by bisection as long as the bound holds. Within a period the result need
    not be the very first round that qualifies.
    """
    recursion = FullRecursion(parameters, _on_the_dial(primitive, beta), convex)
    enough, point = _fewest_when_steady(recursion, _start(parameters, recursion))
    assumptions = assumed(
        "s2s" if recursion.beta == 0 else "s2a", "certified", convex, _sampling(parameters)
    )
    if np.isinf(enough):
        # By coins there are several devices now and then, even if it is one on average.
        alone = recursion.beta == 0 and parameters.sampled == 1
        alone = alone and parameters.selection != "bernoulli"
        reason = ONE_SAMPLED if alone else NO_STEADY_STATE
        return Certificate(np.inf, np.nan, np.inf, recursion.beta, {}, assumptions, reason)
    rounds = max(1, int(np.ceil(enough * (1 + 1e-9))))  # room for rounding, taken back below
    for _ in range(3):
        point = _best_point(recursion, point, rounds)
        rounds = _fewest(recursion, point, rounds)
    eta, alpha, rho = (np.asarray(number) for number in point)
    return Certificate(
        rounds=float(rounds),
        stepsize=point[0],
        average=_average(recursion, point, rounds),
        beta=recursion.beta,
        terms=recursion.terms(eta, alpha, rho, rounds),
        assumptions=assumptions,
    )


def best_blend(parameters: Parameters, *, convex: bool) -> Certificate:
    """The blend with the fewest certified rounds, S2S (beta = 0) and S2A (beta = 1) included.

    beta is searched by tenths, then finer around the best, by the rounds that are enough in the
    steady state.
    """

    def enough(beta: float) -> float:
        recursion = FullRecursion(parameters, beta, convex)
        return _fewest_when_steady(recursion, _start(parameters, recursion))[0]

    beta = min(np.linspace(0, 1, 11), key=enough)
    for width in (0.1, 0.03):
        beta = min(np.clip(beta + width * np.linspace(-1, 1, 7), 0, 1), key=enough)
    return min(
        (
            certified_rounds(parameters, "blend", beta=float(b), convex=convex)
            for b in (0.0, 1.0, beta)
        ),
        key=lambda certificate: certificate.rounds,
    )


def _fewest_when_steady(recursion: FullRecursion, start: Point) -> tuple[float, Point]:
    return _minimise(recursion.enough_rounds, start, WIDE, recursion.largest_stepsize)


def _best_point(recursion: FullRecursion, start: Point, rounds: int) -> Point:
    """The stepsize, alpha and rho with the lowest bound after this many rounds."""
    return _minimise(
        lambda eta, alpha, rho: recursion.average(eta, alpha, rho, rounds),
        start,
        NEAR,
        recursion.largest_stepsize,
    )[1]


def _average(recursion: FullRecursion, point: Point, rounds: int) -> float:
    eta, alpha, rho = (np.asarray(number) for number in point)
    return float(recursion.average(eta, alpha, rho, rounds))


def _minimise(
    objective: Callable[..., Array], centre: Point, widths: tuple[float, ...], cap: float = np.inf
) -> tuple[float, Point]:
    """The smallest value on ever finer log grids, each around the best point of the last; the
    first coordinate stays at or below `cap`."""
    best = np.inf
    for width in widths:
        factors = 10 ** np.linspace(-width, width, POINTS)
        axes = [coordinate * factors for coordinate in centre]
        axes[0] = np.minimum(axes[0], cap)
        values = objective(*np.meshgrid(*axes, indexing="ij", sparse=True))
        where = np.unravel_index(np.argmin(values), values.shape)
        best = float(values[where])
        centre = tuple(float(axis[i]) for axis, i in zip(axes, where, strict=True))
    return best, centre


def _fewest(recursion: FullRecursion, point: Point, enough: int) -> int:
    """Rounds that reach epsilon while one round less does not, by bisection."""
    too_few = 0
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _average(recursion, point, middle) <= recursion.epsilon:
            enough = middle
        else:
            too_few = middle
    return enough


def _start(parameters: Parameters, recursion: FullRecursion) -> Point:
    """The proofs' stepsize, alpha and rho, which are those of uniform sampling: the right order of
    magnitude to search around."""
    alike = replace(parameters, selection="uniform", weights="equal")
    psi = coefficients(alike, "s2a", "repaired", recursion.convex)
    stepsize = best_stepsize(psi.c, psi.e, psi.d, np.asarray(parameters.epsilon, float))
    forgotten = 1 - (1 - recursion.beta) ** 2 * float(delta(parameters.devices, parameters.sampled))
    rho = max(forgotten, 1 / float(parameters.devices)) / (2 * recursion.H)
    return float(stepsize), recursion.p / 2, rho


def _sampling(parameters: Parameters) -> tuple[str, ...]:
    """What is assumed of the server, and what of the paper's picture does not hold under it."""
    if parameters.is_as_in_the_paper:
        return UNIFORMLY
    words = [SAMPLED[parameters.selection]]
    stratified = parameters.weights == "stratified"
    if stratified and parameters.selection != "one_each":
        words.append("S2A weighs islands by their size wherever every one of them is sampled")
    if stratified or parameters.selection != "bernoulli":
        words.append(
            "delta and kappa hold for uniform sampling alone: here what S2S leaves and what S2A "
            "turns into bias depends on how much disagreement is inside islands, how much between"
        )
        if len(set(parameters.sizes)) > 1:
            words.append("islands differ in size: the rule's share of each is an upper bound")
    return tuple(words)


def _on_the_dial(primitive: str, beta: float) -> float:
    labels.check_dial(primitive)
    place = labels.dial_position(primitive, beta)
    assert place is not None
    return place
