"""Rounds and messages that primitives need by any of the bounds, in one setting or in many."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np

from skerry.config import labels
from skerry.errors import SkerryError, unknown
from skerry.theory import bounds
from skerry.theory.certified import Certificate, best_blend, certified_rounds
from skerry.theory.communication import ONE_EACH, Prices, setting_cost
from skerry.theory.crossings import Stretch, cheapest, stretches
from skerry.theory.operators import Array, Numbers
from skerry.theory.parameters import WHOLE_NUMBERS, Parameters
from skerry.theory.regimes import Measure

Mode: TypeAlias = bounds.Mode | Literal["certified"]
MODES = (*get_args(bounds.Mode), "certified")


@dataclass(frozen=True)
class Answer:
    """Rounds and messages that one primitive needs in one setting, by one of the bounds."""

    parameters: Parameters
    primitive: str
    mode: Mode
    convex: bool
    rounds: float
    messages: float
    stepsize: float | None  # the best constant stepsize; None in mode order
    terms: Mapping[str, float]
    assumptions: tuple[str, ...]
    reason: str  # why rounds and messages are infinite; empty if they are finite
    beta: float | None = None  # beta of a blend; None for other primitives
    N_b1: float | None = None
    N_b2: float | None = None

    @property
    def label(self) -> str:
        return labels.write_label(self.primitive, self.beta and float(f"{self.beta:.3g}"))

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON; infinite and undefined numbers become null."""
        always = ("primitive", "mode", "convex", "rounds", "stepsize", "messages")
        row = {name: _or_null(getattr(self, name)) for name in always}
        row["terms"] = {name: _or_null(term) for name, term in self.terms.items()}
        for name in ("beta", "N_b1", "N_b2"):
            if getattr(self, name) is not None:
                row[name] = _or_null(getattr(self, name))
        if self.reason:
            row["reason"] = self.reason
        setting = asdict(self.parameters)
        for name, usual in (("selection", "uniform"), ("weights", "equal")):
            if setting[name] == usual:
                del setting[name]
        # The JSON key of the initial error is "gap", which scripts rely on.
        row |= {("gap" if name == "initial_error" else name): setting[name] for name in setting}
        return row | {"assumptions": list(self.assumptions)}


def ask(
    parameters: Parameters,
    primitive: str,
    mode: str,
    convex: bool,
    *,
    beta: float | Literal["best"] = 0.5,
    prices: Prices = ONE_EACH,
) -> Answer:
    """Rounds and messages of a primitive; `beta` is that of a blend, or "best" to search for it."""
    if mode not in MODES:
        raise SkerryError(unknown("mode", mode, MODES))
    labels.check_dial(primitive)
    found: bounds.Bound | Certificate
    if mode == "certified":
        if primitive == labels.BLEND and beta == "best":
            found = best_blend(parameters, convex=convex)
        else:
            number = 0.5 if beta == "best" else beta  # not used by s2s and s2a
            found = certified_rounds(parameters, primitive, beta=number, convex=convex)
        last_round: Numbers = found.rounds - 1
        # A blend with beta = 0 sends the messages of S2S.
        sent_as, smooth = "s2s" if found.beta == 0 else primitive, False
    elif primitive == labels.BLEND:
        raise SkerryError(
            f"blend has certified bounds only (got mode '{mode}'): the paper's proofs do not "
            "cover it. Use mode certified."
        )
    else:
        found = bounds.bound(
            parameters, cast(bounds.Primitive, primitive), cast(bounds.Mode, mode), convex
        )
        # Mode order has no last round, so that server rounds are T/H, as in Figure 6.
        sent_as, smooth = primitive, found.horizon is None
        last_round = found.rounds if found.horizon is None else found.horizon
    return Answer(
        parameters=parameters,
        primitive=primitive,
        mode=cast(Mode, mode),
        convex=convex,
        rounds=float(found.rounds),
        messages=float(setting_cost(parameters, sent_as, last_round, prices, smooth=smooth)),
        stepsize=_to_float(found.stepsize),
        terms={name: float(term) for name, term in found.terms.items()},
        assumptions=found.assumptions,
        reason=found.reason,
        beta=getattr(found, "beta", None) if primitive == labels.BLEND else None,
        N_b1=_to_float(getattr(found, "N_b1", None)),
        N_b2=_to_float(getattr(found, "N_b2", None)),
    )


def _to_float(value: Numbers | None) -> float | None:
    return None if value is None else float(value)


def _or_null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class BoundCandidate(NamedTuple):
    """A primitive with its beta and selection rule."""

    primitive: str
    beta: float | Literal["best"] = 0.5
    selection: str = "uniform"

    @property
    def label(self) -> str:
        return labels.write_label(self.primitive, self.beta)


class BoundGrid:
    """Bounds of several candidates on a grid of parameters: all answers, winners and crossings."""

    def __init__(
        self,
        values: Mapping[str, Sequence[Any]],
        candidates: Sequence[BoundCandidate],
        mode: str = "order",
        convex: bool = False,
        prices: Prices = ONE_EACH,
        weights: str = "equal",
    ):
        """`values` has the values of every parameter; the grid has all combinations."""
        self.values, self.candidates = values, candidates
        self.mode, self.convex, self.prices = mode, convex, prices
        self.weights = weights
        self.several_rules = len({candidate.selection for candidate in candidates}) > 1
        self.varied = [field for field, options in values.items() if len(options) > 1]
        self._ask = cache(self._ask_uncached)

    @cached_property
    def answers(self) -> list[list[Answer]]:
        """For each combination of parameters, the answer of each candidate."""
        return [
            [self._ask(candidate, *setting) for candidate in self.candidates]
            for setting in product(*self.values.values())
        ]

    def label(self, candidate: BoundCandidate) -> str:
        """Label of a candidate, with its selection rule if the grid has several."""
        return f"{candidate.label} {candidate.selection}" if self.several_rules else candidate.label

    def winners(self, measure: Measure) -> Counter[str]:
        """Number of combinations in which each candidate needs the fewest rounds or messages."""
        names = [self.label(candidate) for candidate in self.candidates]
        costs = ([getattr(answer, measure) for answer in answers] for answers in self.answers)
        return Counter(cheapest(dict(zip(names, cost, strict=True))) for cost in costs)

    def stretches(self, measure: Measure) -> tuple[Stretch, ...]:
        """Winners along the one parameter that varies."""
        (axis,) = self.varied

        def costs(values: Array) -> dict[str, Array]:
            fixed = {field: options[0] for field, options in self.values.items()}
            settings = [tuple({**fixed, axis: value}.values()) for value in values.tolist()]
            return {
                self.label(candidate): np.array(
                    [getattr(self._ask(candidate, *setting), measure) for setting in settings]
                )
                for candidate in self.candidates
            }

        return stretches(np.array(self.values[axis]), costs, continuous=axis not in WHOLE_NUMBERS)

    def _ask_uncached(self, candidate: BoundCandidate, *setting: Any) -> Answer:
        primitive, beta, selection = candidate
        fields = dict(zip(self.values, setting, strict=True))
        parameters = Parameters(**fields, selection=selection, weights=self.weights)
        return ask(parameters, primitive, self.mode, self.convex, beta=beta, prices=self.prices)
