"""Theorems 1 and 2: rounds that S2S and S2A need for a given accuracy, in three modes.

order     the sums of the theorems with all hidden constants one; for comparisons (Figures 1 and 6)
printed   the explicit constants of the paper's appendix
repaired  constants and stepsize caps corrected where the printed ones do not hold

The modes printed and repaired bound the average over N >= H rounds, for a stepsize eta up to 1/d,
by Psi(eta) = r0/(eta N) + c eta + e eta^2. `bound` uses the best constant stepsize.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from skerry.errors import SkerryError, unknown
from skerry.plugins import registry
from skerry.theory import operators
from skerry.theory.operators import Array, Numbers
from skerry.theory.parameters import Parameters

Primitive: TypeAlias = Literal["s2s", "s2a"]
Mode: TypeAlias = Literal["order", "printed", "repaired"]

# Non-convex stepsize cap c0 (1-delta)/(H L). With two islands the repaired disagreement dominated
# the certified recursion wherever it was tried; with many islands of fewer than about five devices
# it need not (n = C = 21, K = 3, H = 20: the recursion diverges).
CAP = 0.4

UNIFORM_SAMPLING = (
    "devices are sampled uniformly without replacement, independently of everything else",
)

ONE_SAMPLED = (
    "S2S with one sampled device leaves every model as it was, so no number of rounds is enough. "
    "Sample at least 2 devices."
)


@dataclass(frozen=True)
class Bound:
    """A number of sufficient rounds, its terms, and the assumptions behind it."""

    rounds: Numbers
    """The sum of the terms (order), or N_c at the best constant stepsize (printed, repaired)."""
    terms: Mapping[str, Numbers]
    """Terms in rounds that add up to `rounds` (order), or terms of the average at `stepsize` that
    add up to epsilon (printed, repaired)."""
    mode: Mode
    primitive: Primitive
    convex: bool
    assumptions: tuple[str, ...]
    reason: str = ""
    """Why `rounds` is infinite; empty if it is finite."""
    stepsize: Numbers | None = None
    """Constant stepsize that reaches epsilon in the fewest rounds (printed, repaired)."""
    horizon: Numbers | None = None
    """Number of the last round, T = max(ceil(rounds), H) - 1 (printed, repaired)."""
    N_b1: Numbers | None = None
    """Rounds by the tuning lemma, with each of its three terms at most epsilon/3."""
    N_b2: Numbers | None = None
    """Rounds by the tuning lemma, inverted exactly."""

    def __repr__(self) -> str:
        rounds = np.max(self.rounds)
        enough = f"{rounds:,.0f} rounds" if np.isfinite(rounds) else "no number of rounds"
        return f"<Bound: {enough}, {self.primitive}, {self.mode}>"

    def _repr_html_(self) -> str:
        return str(registry.view("html_of_bound")(self))


class Coefficients(NamedTuple):
    """Coefficients of Psi(eta) = r0/(eta N) + c eta + e eta^2, for eta up to 1/d."""

    r0: Array
    c_parts: Mapping[str, Array]
    e_parts: Mapping[str, Array]
    d: Array

    @property
    def c(self) -> Array:
        return np.asarray(sum(self.c_parts.values()))

    @property
    def e(self) -> Array:
        return np.asarray(sum(self.e_parts.values()))


def bound(parameters: Parameters, primitive: Primitive, mode: Mode, convex: bool) -> Bound:
    """Rounds after which the average error is at most epsilon.

    The error of round t is E f(xbar^t) - f* if convex, else E ||grad f(xbar^t)||^2.
    """
    _check(primitive, mode)
    assumptions = assumptions_of(primitive, mode, convex)
    x = _Symbols.of(parameters, primitive)
    reason = ONE_SAMPLED if x.one_sampled.any() else ""
    if mode == "order":
        terms = order_terms(parameters, primitive, convex)
        return Bound(sum(terms.values()), terms, mode, primitive, convex, assumptions, reason)
    psi = coefficients(parameters, primitive, mode, convex)
    r0, c, e, d = psi.r0, psi.c, psi.e, psi.d
    eta = best_stepsize(c, e, d, x.eps)
    rounds = x.unless_one_sampled(best_rounds(r0, c, e, d, x.eps))
    terms = {
        "initial": x.eps - c * eta - e * eta**2,
        **{name: part * eta for name, part in psi.c_parts.items()},
        **{name: part * eta**2 for name, part in psi.e_parts.items()},
    }
    return Bound(
        rounds,
        {name: x.unless_one_sampled(term, np.nan) for name, term in terms.items()},
        mode,
        primitive,
        convex,
        assumptions,
        reason,
        stepsize=x.unless_one_sampled(eta, np.nan),
        horizon=np.maximum(np.ceil(rounds), x.H) - 1,
        N_b1=x.unless_one_sampled(sufficient_rounds(r0, c, e, d, x.eps)),
        N_b2=x.unless_one_sampled(lemma_rounds(r0, c, e, d, x.eps)),
    )


def guaranteed_average(
    parameters: Parameters,
    primitive: Primitive,
    mode: Literal["printed", "repaired"],
    convex: bool,
    *,
    stepsize: npt.ArrayLike,
    rounds: npt.ArrayLike,
) -> Numbers:
    """Psi(stepsize) after `rounds` rounds; infinite where the theorem does not apply. It does not
    apply to stepsizes above 1/d, fewer rounds than a period, and S2S with K = 1."""
    x = _Symbols.of(parameters, primitive)
    psi = coefficients(parameters, primitive, mode, convex)
    eta, N = np.asarray(stepsize, float), np.asarray(rounds, float)
    average = psi.r0 / (eta * N) + psi.c * eta + psi.e * eta**2
    covered = (eta * psi.d <= 1) & (N >= x.H)
    return x.unless_one_sampled(np.where(covered, average, np.inf))


def order_terms(parameters: Parameters, primitive: Primitive, convex: bool) -> dict[str, Numbers]:
    """Terms of the theorems in rounds, with all hidden constants one."""
    x = _Symbols.of(parameters, primitive)
    scale, root, linear = (x.start, np.sqrt(x.L), x.L) if convex else (x.L * x.start, 1.0, 1.0)
    terms: dict[str, Numbers] = {"noise": x.s2 / (x.n * x.eps**2)}
    if primitive == "s2a":
        terms["sampling_intra"] = x.kappa * x.zi**2 / (x.H * x.p**2 * x.eps**2)
        terms["sampling_inter"] = x.kappa * x.H * x.ze**2 / x.eps**2
    terms["intra"] = np.sqrt(x.q) * root * x.zi / (x.p * x.eps**1.5)
    terms["inter"] = x.q * root * x.H * x.ze / x.eps**1.5
    terms["initial"] = linear / (x.p * x.eps)
    return {name: x.unless_one_sampled(scale * term) for name, term in terms.items()}


def coefficients(
    parameters: Parameters,
    primitive: Primitive,
    mode: Literal["printed", "repaired"],
    convex: bool,
) -> Coefficients:
    """Coefficients of Psi with the constants of the appendix (printed) or their repaired values.
    Both proofs bound the mean disagreement by eta^2 (48 q zi^2/p^2 + inter), with q = 1 for S2A.
    For S2S with K = 1, where q is infinite, q = 1 is used: callers must override the result."""
    _check(primitive, mode)
    x = _Symbols.of(parameters, primitive)
    printed, broadcast = mode == "printed", primitive == "s2a"
    intra = 48 * x.q * x.zi**2 / x.p**2
    inter = 8 * x.q**2 * x.H**2 * x.ze**2
    if printed and not broadcast:
        inter = 140 * x.q**2 * x.H * (x.H - 1) * x.ze**2
    # Factors of disagreement, and of noise and bias, in the descent lemmas. The printed convex
    # proof for S2A rounds 3L/2 up to 2L.
    per_disagreement = (2 if printed and broadcast else 1.5) * x.L if convex else 4 * x.L**2
    per_square = np.ones(()) if convex else 2 * x.L
    c = {"noise": per_square * x.s2 / x.n}
    if broadcast:
        by_intra, by_inter = (54, 26) if printed else (48, 2)
        c["sampling_intra"] = per_square * x.kappa * by_intra * x.zi**2 / (x.H * x.p**2)
        c["sampling_inter"] = per_square * x.kappa * by_inter * x.H * x.ze**2
    e = {"intra": per_disagreement * intra, "inter": per_disagreement * inter}
    d = 8 * x.L / x.p
    if not (convex or printed):
        d = np.maximum(d, x.H * x.L * x.q / CAP)
    return Coefficients(x.start if convex else 4 * x.start, c, e, d)


def assumptions_of(
    primitive: Primitive,
    mode: Mode | Literal["certified"],
    convex: bool,
    sampling: Sequence[str] = UNIFORM_SAMPLING,
) -> tuple[str, ...]:
    """Assumptions of a bound in plain words; `sampling` is the part about the server."""
    words = [
        "all devices start from the same point",
        "every device's gradient is L-Lipschitz, for every minibatch",
        "sigma2, zeta_intra and zeta_inter hold at every point visited",
        "p holds for every X: the smallest over islands, not their mean",
        *sampling,
    ]
    if convex:
        words.append("every device's loss is convex")
    if mode == "order":
        words.append("all hidden constants are one: compare with it, do not take it as a guarantee")
    elif mode == "certified":
        words.append(
            "nothing is left out: gradient drift and the exchange between intra and inter count; "
            "the free parameters are searched numerically, and any choice of them is valid"
        )
    else:
        words.append(
            "the paper's disagreement recursion, which leaves out gradient drift and the exchange "
            "between intra and inter under S2S; certified bounds include both"
        )
    if mode == "printed" and not convex:
        words.append("as printed; false for long periods, since the stepsize cap lacks H")
    if mode == "printed" and primitive == "s2s":
        words.append("as printed; the inter constant fails at H = 1 and near K = n")
    if mode == "repaired" and not convex:
        words.append(
            f"stepsize cap with H and constant {CAP}: not proved, checked numerically for a few "
            "large islands; for many small ones use certified bounds"
        )
    return tuple(words)


class _Symbols(NamedTuple):
    """The parameters under the paper's symbols, as arrays; q = 1 for S2A and for S2S with K = 1."""

    one_sampled: npt.NDArray[np.bool_]  # S2S with K = 1 < n, which never converges
    n: Array
    H: Array
    p: Array
    zi: Array
    ze: Array
    s2: Array
    L: Array
    start: Array  # the initial error, f0 or R0^2
    eps: Array
    kappa: Array
    q: Array

    @classmethod
    def of(cls, x: Parameters, primitive: Primitive) -> "_Symbols":
        if not x.is_as_in_the_paper:
            raise SkerryError(
                "the paper's theorems assume that devices are sampled uniformly and weigh alike "
                f"(got selection '{x.selection}', weights '{x.weights}'). Ask for certified "
                "bounds: they follow the rule."
            )
        q = np.asarray(operators.q(x.devices, x.sampled) if primitive == "s2s" else 1.0)
        kappa, one_sampled = operators.kappa(x.devices, x.sampled), np.isinf(q)
        values = (
            x.devices, x.period, x.p, x.zeta_intra, x.zeta_inter, x.sigma2, x.smoothness,
            x.initial_error, x.epsilon, kappa, np.where(one_sampled, 1.0, q),
        )  # fmt: skip
        return cls(one_sampled, *(np.asarray(value, float) for value in values))

    def unless_one_sampled(self, value: Numbers, otherwise: float = np.inf) -> Numbers:
        return np.where(self.one_sampled, otherwise, value)[()]


def _check(primitive: str, mode: str) -> None:
    if primitive not in get_args(Primitive):
        raise SkerryError(unknown("primitive", primitive, get_args(Primitive)))
    if mode not in get_args(Mode):
        raise SkerryError(unknown("mode", mode, get_args(Mode)))


def best_stepsize(c: Array, e: Array, d: Array, eps: Array) -> Array:
    """The eta up to 1/d with the fewest rounds: it maximises eps eta - c eta^2 - e eta^3 = r0/N."""
    with np.errstate(divide="ignore"):
        return np.minimum(1 / d, eps / (c + np.sqrt(c**2 + 3 * e * eps)))


def best_rounds(r0: Array, c: Array, e: Array, d: Array, eps: Array) -> Array:
    """N at the best constant stepsize: the least N with Psi(eta) <= eps for some eta up to 1/d."""
    eta = best_stepsize(c, e, d, eps)
    return r0 / (eps * eta - c * eta**2 - e * eta**3)


def lemma_rounds(r0: Array, c: Array, e: Array, d: Array, eps: Array) -> Array:
    """N by the tuning lemma (Koloskova et al. 2020, Lemma 17), inverted by bisection in log y:
    N = r0/y where 2 sqrt(c y) + 2 e^(1/3) y^(2/3) + d y = eps."""
    # The root lies where the largest term alone is between eps/3 and eps.
    low, high = (np.log(_largest_term_at(x, c, e, d)) for x in (eps / 3, eps))
    for _ in range(60):
        middle = (low + high) / 2
        y = np.exp(middle)
        below = 2 * np.sqrt(c * y) + 2 * np.cbrt(e * y**2) + d * y < eps
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return r0 / np.exp((low + high) / 2)


def sufficient_rounds(r0: Array, c: Array, e: Array, d: Array, eps: Array) -> Array:
    """N by the tuning lemma with each of its three terms at most eps/3, in closed form."""
    return 36 * c * r0 / eps**2 + 6**1.5 * np.sqrt(e) * r0 / eps**1.5 + 3 * d * r0 / eps


def _largest_term_at(level: Array, c: Array, e: Array, d: Array) -> Array:
    """The y at which the largest of 2 sqrt(c y), 2 e^(1/3) y^(2/3) and d y equals `level`."""
    with np.errstate(divide="ignore"):
        by_c, by_e = np.divide((level / 2) ** 2, c), np.divide((level / 2) ** 1.5, np.sqrt(e))
    return np.minimum(np.minimum(by_c, by_e), level / d)
