"""Rounds that S2S and S2A need for a given accuracy (Theorems 1 and 2), in three modes.

order     the theorems' sums with every hidden constant one: for comparing, as Figures 1 and 6 do
printed   the explicit constants of the paper's appendix
repaired  constants and stepsize caps that survive checking

Printed and repaired say: for a stepsize eta up to 1/d, the average over N >= H rounds is at most
Psi(eta) = r0/(eta N) + c eta + e eta^2. `bound` takes the best constant stepsize.
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
from skerry.theory.stepsize import best_rounds, best_stepsize, lemma_rounds, sufficient_rounds

Primitive: TypeAlias = Literal["s2s", "s2a"]
Mode: TypeAlias = Literal["order", "printed", "repaired"]

# Non-convex stepsize cap c0 (1-delta)/(H L). With two components the repaired disagreement
# dominated the certified recursion wherever it was tried; with many components of fewer than
# about five devices it need not (n = C = 21, K = 3, H = 20: the recursion diverges).
CAP = 0.4

UNIFORMLY = ("devices are sampled uniformly without replacement, independently of everything else",)

ONE_SAMPLED = (
    "S2S with one sampled device leaves every model as it was, so no number of rounds is enough. "
    "Sample at least 2 devices."
)


@dataclass(frozen=True)
class Bound:
    """How many rounds are enough, and under which assumptions."""

    rounds: Numbers
    """The sum of the terms (order), or N_c, at the best constant stepsize (printed, repaired)."""
    terms: Mapping[str, Numbers]
    """In rounds, adding up to `rounds` (order); or what each adds to the average at `stepsize`,
    adding up to epsilon (printed, repaired)."""
    mode: Mode
    primitive: Primitive
    convex: bool
    assumptions: tuple[str, ...]
    reason: str = ""
    """Why `rounds` is infinite, where it is."""
    stepsize: Numbers | None = None
    """The constant stepsize that reaches epsilon first (printed, repaired)."""
    horizon: Numbers | None = None
    """T, the last round: max(ceil(rounds), H) - 1 (printed, repaired)."""
    N_b1: Numbers | None = None
    """Rounds by the tuning lemma, each of its three terms at most epsilon/3."""
    N_b2: Numbers | None = None
    """Rounds by the tuning lemma, inverted exactly."""

    def __repr__(self) -> str:
        rounds = np.max(self.rounds)
        enough = f"{rounds:,.0f} rounds" if np.isfinite(rounds) else "no number of rounds"
        return f"<Bound: {enough}, {self.primitive}, {self.mode}>"

    def _repr_html_(self) -> str:
        return str(registry.view("bound")(self))


class Coefficients(NamedTuple):
    """Psi(eta) = r0/(eta N) + c eta + e eta^2 for eta up to 1/d; c and e by their parts."""

    r0: Array
    c_parts: Mapping[str, Array]
    e_parts: Mapping[str, Array]
    d: Array

    @property
    def c(self) -> Array:
        return _total(self.c_parts)

    @property
    def e(self) -> Array:
        return _total(self.e_parts)


def bound(parameters: Parameters, primitive: Primitive, mode: Mode, convex: bool) -> Bound:
    """Rounds until the average of E f(xbar^t) - f* (convex) or of E ||grad f(xbar^t)||^2
    (non-convex) is at most epsilon."""
    _check(primitive, mode)
    assumptions = assumed(primitive, mode, convex)
    x = _Symbols.of(parameters, primitive)
    reason = ONE_SAMPLED if x.hopeless.any() else ""
    if mode == "order":
        terms = order_terms(parameters, primitive, convex)
        return Bound(sum(terms.values()), terms, mode, primitive, convex, assumptions, reason)
    psi = coefficients(parameters, primitive, mode, convex)
    r0, c, e, d = psi.r0, psi.c, psi.e, psi.d
    eta = best_stepsize(c, e, d, x.eps)
    rounds = x.unless_hopeless(best_rounds(r0, c, e, d, x.eps))
    terms = {
        "initial": x.eps - c * eta - e * eta**2,
        **{name: part * eta for name, part in psi.c_parts.items()},
        **{name: part * eta**2 for name, part in psi.e_parts.items()},
    }
    return Bound(
        rounds,
        {name: x.unless_hopeless(term, np.nan) for name, term in terms.items()},
        mode,
        primitive,
        convex,
        assumptions,
        reason,
        stepsize=x.unless_hopeless(eta, np.nan),
        horizon=np.maximum(np.ceil(rounds), x.H) - 1,
        N_b1=x.unless_hopeless(sufficient_rounds(r0, c, e, d, x.eps)),
        N_b2=x.unless_hopeless(lemma_rounds(r0, c, e, d, x.eps)),
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
    """Psi(stepsize) after `rounds` rounds; infinite where the theorem says nothing: stepsizes
    above 1/d, fewer rounds than a period, or S2S with one sampled device."""
    x = _Symbols.of(parameters, primitive)
    psi = coefficients(parameters, primitive, mode, convex)
    eta, N = np.asarray(stepsize, float), np.asarray(rounds, float)
    average = psi.r0 / (eta * N) + psi.c * eta + psi.e * eta**2
    covered = (eta * psi.d <= 1) & (N >= x.H)
    return x.unless_hopeless(np.where(covered, average, np.inf))


def order_terms(parameters: Parameters, primitive: Primitive, convex: bool) -> dict[str, Numbers]:
    """The terms of the two theorems in rounds, hidden constants one."""
    x = _Symbols.of(parameters, primitive)
    scale, root, linear = (x.start, np.sqrt(x.L), x.L) if convex else (x.L * x.start, 1.0, 1.0)
    terms: dict[str, Numbers] = {"noise": x.s2 / (x.n * x.eps**2)}
    if primitive == "s2a":
        terms["sampling_intra"] = x.kappa * x.zi**2 / (x.H * x.p**2 * x.eps**2)
        terms["sampling_inter"] = x.kappa * x.H * x.ze**2 / x.eps**2
    terms["intra"] = np.sqrt(x.q) * root * x.zi / (x.p * x.eps**1.5)
    terms["inter"] = x.q * root * x.H * x.ze / x.eps**1.5
    terms["initial"] = linear / (x.p * x.eps)
    return {name: x.unless_hopeless(scale * term) for name, term in terms.items()}


def coefficients(
    parameters: Parameters,
    primitive: Primitive,
    mode: Literal["printed", "repaired"],
    convex: bool,
) -> Coefficients:
    """The explicit constants of the appendix, or their repaired values.

    Both proofs bound the mean disagreement by eta^2 (48 q zi^2/p^2 + inter), with q = 1 for S2A.
    Where S2S is hopeless q counts as one, to be overruled.
    """
    _check(primitive, mode)
    x = _Symbols.of(parameters, primitive)
    printed, broadcast = mode == "printed", primitive == "s2a"
    intra = 48 * x.q * x.zi**2 / x.p**2
    inter = 8 * x.q**2 * x.H**2 * x.ze**2
    if printed and not broadcast:
        inter = 140 * x.q**2 * x.H * (x.H - 1) * x.ze**2
    # What the descent lemmas charge for disagreement, and for noise and bias. The printed
    # convex proof for S2A rounds 3L/2 up to 2L.
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


def assumed(
    primitive: Primitive,
    mode: Mode | Literal["certified"],
    convex: bool,
    sampling: Sequence[str] = UNIFORMLY,
) -> tuple[str, ...]:
    """What has to hold for the bound to hold, in plain words; `sampling` tells of the server."""
    words = [
        "all devices start from the same point",
        "every device's gradient is L-Lipschitz, for every minibatch",
        "sigma2, zeta_intra and zeta_inter hold at every point visited",
        "p holds for every X: the smallest over components, not their mean",
        *sampling,
    ]
    if convex:
        words.append("every device's loss is convex")
    if mode == "order":
        words.append("all hidden constants are one: compare with it, do not take it as a guarantee")
        return tuple(words)
    if mode == "certified":
        words.append(
            "nothing is left out: gradient drift and the exchange between intra and inter count; "
            "the free parameters are searched numerically, and any choice of them is valid"
        )
        return tuple(words)
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
            "large components; for many small ones use certified bounds"
        )
    return tuple(words)


class _Symbols(NamedTuple):
    """The parameters under the paper's symbols, as arrays; q = 1 for S2A and where hopeless."""

    n: Array
    H: Array
    p: Array
    zi: Array
    ze: Array
    s2: Array
    L: Array
    start: Array
    """The initial error, f0 or R0^2."""
    eps: Array
    kappa: Array
    q: Array
    hopeless: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, x: Parameters, primitive: Primitive) -> "_Symbols":
        if not x.is_as_in_the_paper:
            raise SkerryError(
                "the paper's theorems assume that devices are sampled uniformly and weigh alike "
                f"(got selection '{x.selection}', weights '{x.weights}'). Ask for certified "
                "bounds: they follow the rule."
            )
        q = np.asarray(operators.q(x.devices, x.sampled) if primitive == "s2s" else 1.0)
        return cls(
            n=np.asarray(x.devices, float),
            H=np.asarray(x.period, float),
            p=np.asarray(x.p, float),
            zi=np.asarray(x.zeta_intra, float),
            ze=np.asarray(x.zeta_inter, float),
            s2=np.asarray(x.sigma2, float),
            L=np.asarray(x.smoothness, float),
            start=np.asarray(x.initial_error, float),
            eps=np.asarray(x.epsilon, float),
            kappa=np.asarray(operators.kappa(x.devices, x.sampled)),
            q=np.where(np.isinf(q), 1.0, q),
            hopeless=np.isinf(q),
        )

    def unless_hopeless(self, value: Numbers, otherwise: float = np.inf) -> Numbers:
        return np.where(self.hopeless, otherwise, value)[()]


def _total(parts: Mapping[str, Array]) -> Array:
    return np.asarray(sum(parts.values()))


def _check(primitive: str, mode: str) -> None:
    if primitive not in get_args(Primitive):
        raise SkerryError(unknown("primitive", primitive, get_args(Primitive)))
    if mode not in get_args(Mode):
        raise SkerryError(unknown("mode", mode, get_args(Mode)))
