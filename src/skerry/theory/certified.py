"""Certified bounds: the full recursion, minimised over stepsize, alpha and rho.

Every entry of the recursion is a posynomial in stepsize, alpha and rho. The logarithm of the bound
is then convex in their logarithms (a geometric program), and successively finer log grids find the
minimum. Any alpha and rho give a valid bound, so a coarse search loses tightness, not validity.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from skerry.config import labels
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.theory import bounds
from skerry.theory.bounds import ONE_SAMPLED, UNIFORM_SAMPLING, assumptions_of
from skerry.theory.full_recursion import FullRecursion
from skerry.theory.operators import Array, delta
from skerry.theory.parameters import Parameters

Point: TypeAlias = tuple[float, ...]

# Half-widths of successive grids in decades; the last ones give two digits.
GLOBAL_GRIDS = (4.0, 1.5, 0.5, 0.2, 0.07, 0.025, 0.01)
LOCAL_GRIDS = (0.5, 0.2, 0.07, 0.025, 0.01)
GRID_POINTS = 9

SAMPLING_ASSUMPTIONS = {
    "uniform": UNIFORM_SAMPLING[0],
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
    """A certified bound: after `rounds` rounds with this stepsize, at most `average`."""

    rounds: float
    stepsize: float
    average: float
    beta: float
    """0 for S2S, 1 for S2A, else that of the blend."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """Contribution of each source to `average`."""
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    """Why `rounds` is infinite; empty if it is finite."""

    def __repr__(self) -> str:
        rounds = np.max(self.rounds)
        enough = f"{rounds:,.0f} rounds" if np.isfinite(rounds) else "no number of rounds"
        return f"<Certificate: {enough}, beta {self.beta:g}>"

    def _repr_html_(self) -> str:
        return str(registry.view("html_of_bound")(self))


def certified_average(
    parameters: Parameters,
    primitive: str,
    *,
    beta: float = 0.5,
    stepsize: float,
    rounds: int,
    convex: bool,
) -> float:
    """Bound on the average error over rounds 0..rounds-1; infinite for stepsizes above 1/(4L).

    The error of round t is E f(xbar^t) - f* if convex, else E ||grad f(xbar^t)||^2. `beta` is that
    of a blend; s2s and s2a ignore it.
    """
    if rounds < 1 or not stepsize > 0:
        raise SkerryError(
            f"rounds must be at least 1 and stepsize above 0 (got {rounds} and {stepsize:g}). "
            "Raise them."
        )
    recursion = FullRecursion(parameters, _beta_of(primitive, beta), convex)
    if stepsize > recursion.largest_stepsize:
        return np.inf
    return _minimise(
        partial(recursion.average, stepsize, rounds=rounds),
        _starting_point(parameters, recursion)[1:],
        GLOBAL_GRIDS,
    )[0]


def certified_rounds(
    parameters: Parameters, primitive: str, *, beta: float = 0.5, convex: bool
) -> Certificate:
    """The fewest rounds, over constant stepsizes, after which the average is at most epsilon.

    Stepsize, alpha and rho first minimise the sufficient rounds in the steady state, in closed
    form. Then they minimise the exact bound for that many rounds, and bisection lowers the rounds
    as long as the bound holds; this repeats. Within a period the result need not be the very first
    round that qualifies.
    """
    recursion = FullRecursion(parameters, _beta_of(primitive, beta), convex)
    cap = recursion.largest_stepsize
    enough, point = _fewest_steady_rounds(parameters, recursion)
    named: bounds.Primitive = "s2s" if recursion.beta == 0 else "s2a"
    assumptions = assumptions_of(named, "certified", convex, _sampling_assumptions(parameters))
    if np.isinf(enough):
        # Bernoulli sampling sometimes samples several devices, even with a mean of one.
        alone = recursion.beta == 0 and parameters.sampled == 1
        alone = alone and parameters.selection != "bernoulli"
        reason = ONE_SAMPLED if alone else NO_STEADY_STATE
        return Certificate(np.inf, np.nan, np.inf, recursion.beta, {}, assumptions, reason)
    rounds = max(1, int(np.ceil(enough * (1 + 1e-9))))  # a margin for rounding, removed below
    for _ in range(3):
        average = partial(recursion.average, rounds=rounds)
        _, point = _minimise(average, point, LOCAL_GRIDS, cap)
        rounds = _fewest_rounds(recursion, point, rounds)
    return Certificate(
        rounds=float(rounds),
        stepsize=point[0],
        average=float(recursion.average(*point, rounds=rounds)),
        beta=recursion.beta,
        terms=recursion.terms(*point, rounds=rounds),
        assumptions=assumptions,
    )


def best_blend(parameters: Parameters, *, convex: bool) -> Certificate:
    """The blend with the fewest certified rounds, including S2S (beta = 0) and S2A (beta = 1). beta
    is searched in steps of 0.1 and then finer around the best, by the sufficient rounds in the
    steady state."""

    def enough(beta: float) -> float:
        return _fewest_steady_rounds(parameters, FullRecursion(parameters, beta, convex))[0]

    beta = min(np.linspace(0, 1, 11), key=enough)
    for width in (0.1, 0.03):
        beta = min(np.clip(beta + width * np.linspace(-1, 1, 7), 0, 1), key=enough)
    betas = (0.0, 1.0, float(beta))
    found = (certified_rounds(parameters, "blend", beta=b, convex=convex) for b in betas)
    return min(found, key=lambda certificate: certificate.rounds)


def _fewest_steady_rounds(parameters: Parameters, recursion: FullRecursion) -> tuple[float, Point]:
    """Fewest sufficient rounds in the steady state, and the stepsize, alpha and rho for them."""
    start = _starting_point(parameters, recursion)
    return _minimise(recursion.sufficient_rounds, start, GLOBAL_GRIDS, recursion.largest_stepsize)


def _minimise(
    objective: Callable[..., Array], centre: Point, widths: tuple[float, ...], cap: float = np.inf
) -> tuple[float, Point]:
    """Minimum and its place on ever finer log grids; the first coordinate is at most `cap`."""
    best = np.inf
    for width in widths:
        factors = 10 ** np.linspace(-width, width, GRID_POINTS)
        axes = [coordinate * factors for coordinate in centre]
        axes[0] = np.minimum(axes[0], cap)
        values = objective(*np.meshgrid(*axes, indexing="ij", sparse=True))
        where = np.unravel_index(np.argmin(values), values.shape)
        best = float(values[where])
        centre = tuple(float(axis[i]) for axis, i in zip(axes, where, strict=True))
    return best, centre


def _fewest_rounds(recursion: FullRecursion, point: Point, enough: int) -> int:
    """By bisection, a number of rounds that reaches epsilon while one round less does not."""
    too_few = 0
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if recursion.average(*point, rounds=middle) <= recursion.epsilon:
            enough = middle
        else:
            too_few = middle
    return enough


def _starting_point(parameters: Parameters, recursion: FullRecursion) -> Point:
    """Stepsize, alpha and rho of the paper's proofs (uniform sampling), to search around."""
    uniform = replace(parameters, selection="uniform", weights="equal")
    psi = bounds.coefficients(uniform, "s2a", "repaired", recursion.convex)
    stepsize = bounds.best_stepsize(psi.c, psi.e, psi.d, np.asarray(parameters.epsilon, float))
    removed = 1 - (1 - recursion.beta) ** 2 * float(delta(parameters.devices, parameters.sampled))
    rho = max(removed, 1 / float(parameters.devices)) / (2 * recursion.H)
    return float(stepsize), recursion.p / 2, rho


def _sampling_assumptions(parameters: Parameters) -> tuple[str, ...]:
    """Assumptions about the server, and where they differ from the paper's."""
    if parameters.is_as_in_the_paper:
        return UNIFORM_SAMPLING
    words = [SAMPLING_ASSUMPTIONS[parameters.selection]]
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


def _beta_of(primitive: str, beta: float) -> float:
    """0 for s2s, 1 for s2a, `beta` for blend."""
    labels.check_dial(primitive)
    position = labels.dial_position(primitive, beta)
    assert position is not None
    return position
