"""How many rounds and messages a primitive needs, and why: one question, put to any mode."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from skerry.config import labels
from skerry.errors import SkerryError, unknown
from skerry.theory import bounds
from skerry.theory.certified import best_blend, certified_rounds
from skerry.theory.communication import ONE_EACH, Prices, communication_cost
from skerry.theory.operators import Numbers
from skerry.theory.parameters import Parameters

Mode: TypeAlias = bounds.Mode | Literal["certified"]
MODES = (*get_args(bounds.Mode), "certified")


@dataclass(frozen=True)
class Answer:
    """What one primitive needs in one setting."""

    parameters: Parameters
    primitive: str
    mode: Mode
    convex: bool
    rounds: float
    messages: float
    stepsize: float | None
    """The best constant one; with all constants one (order) there is none."""
    terms: Mapping[str, float]
    assumptions: tuple[str, ...]
    reason: str
    """Why rounds and messages are infinite, where they are."""
    beta: float | None = None
    """Of a blend."""
    N_b1: float | None = None
    N_b2: float | None = None

    @property
    def label(self) -> str:
        return labels.write_label(self.primitive, self.beta and float(f"{self.beta:.3g}"))

    def to_json(self) -> dict[str, Any]:
        """Infinite and undefined numbers become null: `reason` says why."""
        always = ("primitive", "mode", "convex", "rounds", "stepsize", "messages")
        row = {name: _finite(getattr(self, name)) for name in always}
        row["terms"] = {name: _finite(term) for name, term in self.terms.items()}
        for name in ("beta", "N_b1", "N_b2"):
            if getattr(self, name) is not None:
                row[name] = _finite(getattr(self, name))
        if self.reason:
            row["reason"] = self.reason
        setting = asdict(self.parameters)
        for name, usual in (("selection", "uniform"), ("weights", "equal")):
            if setting[name] == usual:
                del setting[name]
        # In JSON the initial error has the name that it had first: scripts read it.
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
    """The answer for one setting; `beta` is a blend's, or "best" for the best one."""
    if mode not in MODES:
        raise SkerryError(unknown("mode", mode, MODES))
    labels.check_dial(primitive)
    if mode == "certified":
        return _certified(parameters, primitive, convex, beta, prices)
    if primitive == labels.BLEND:
        raise SkerryError(
            f"blend has certified bounds only (got mode '{mode}'): the paper's proofs do not "
            "cover it. Use mode certified."
        )
    return _from_theorem(
        parameters, cast(bounds.Primitive, primitive), cast(bounds.Mode, mode), convex, prices
    )


def _from_theorem(
    parameters: Parameters,
    primitive: bounds.Primitive,
    mode: bounds.Mode,
    convex: bool,
    prices: Prices,
) -> Answer:
    found = bounds.bound(parameters, primitive, mode, convex)
    # With all constants one there is no last round to count to: T/H server rounds, as in
    # Figure 6.
    smooth = found.horizon is None
    rounds = found.rounds if found.horizon is None else found.horizon
    return Answer(
        parameters=parameters,
        primitive=primitive,
        mode=mode,
        convex=convex,
        rounds=float(found.rounds),
        messages=_messages(parameters, primitive, float(rounds), prices, smooth),
        stepsize=_number(found.stepsize),
        terms={name: float(term) for name, term in found.terms.items()},
        assumptions=found.assumptions,
        reason=found.reason,
        N_b1=_number(found.N_b1),
        N_b2=_number(found.N_b2),
    )


def _certified(
    parameters: Parameters,
    primitive: str,
    convex: bool,
    beta: float | Literal["best"],
    prices: Prices,
) -> Answer:
    if primitive == labels.BLEND and beta == "best":
        found = best_blend(parameters, convex=convex)
    else:
        one = 0.5 if beta == "best" else beta  # s2s and s2a do not read it
        found = certified_rounds(parameters, primitive, beta=one, convex=convex)
    # A blend that moves nobody sends what S2S sends.
    sends = "s2s" if found.beta == 0 else primitive
    return Answer(
        parameters=parameters,
        primitive=primitive,
        mode="certified",
        convex=convex,
        rounds=found.rounds,
        messages=_messages(parameters, sends, found.rounds - 1, prices, smooth=False),
        stepsize=found.stepsize,
        terms=found.terms,
        assumptions=found.assumptions,
        reason=found.reason,
        beta=found.beta if primitive == labels.BLEND else None,
    )


def _messages(
    parameters: Parameters, primitive: str, last_round: float, prices: Prices, smooth: bool
) -> float:
    return float(
        communication_cost(
            primitive,
            rounds=last_round,
            devices=parameters.devices,
            sampled=parameters.sampled,
            period=parameters.period,
            prices=prices,
            smooth=smooth,
        )
    )


def _number(value: Numbers | None) -> float | None:
    return None if value is None else float(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
