"""The answer in a few lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from skerry.advice.decision import Decision
from skerry.advice.prediction import regime

if TYPE_CHECKING:
    from skerry.advice.advice import Advice
    from skerry.advice.contenders import Contender

GOALS = {
    "global": "accuracy of the average model",
    "own": "accuracy of devices on their own labels",
    "both": "mean of global and own accuracy",
}


def lines(advice: "Advice") -> list[str]:
    """The recommendation, what it gains, the runner-up, the other goals, and the theory."""
    return [*headline(advice), *_goals(advice), *_theory(advice)]


def headline(advice: "Advice") -> Iterator[str]:
    best, decision = advice.best, advice.decision
    contender = best.contender
    setting = (
        f"{contender.label}, K = {contender.sampled}, H = {contender.period}, "
        f"stepsize {best.stepsize:.3g}"
    )
    if advice.equal:
        yield f"All primitives do the same: {advice.equal}. Take {setting}."
        return
    if decision.verdict == "unclear":
        yield f"No clear winner. Best so far: {setting}."
    else:
        yield f"Recommendation: {setting}."
    yield gain(advice, decision)
    yield from _doubt(advice, decision)
    yield _cost(advice)


def gain(advice: "Advice", decision: Decision) -> str:
    """`Mean of global and own accuracy 94.8 %: 0.52 ± 0.21 points above s2a (confidence 99 %).`"""
    words = goal_in_words(advice, decision.goal)
    score = score_in_words(advice, decision.score.mean)
    text = f"{words[0].upper()}{words[1:]} {score}"
    rival = decision.runner_up
    if rival is None:
        return f"{text}; nothing else was compared."
    lead = f"{gap_in_words(advice, decision)} {rival.lane.contender.told(_among(advice))}"
    return f"{text}: {lead}, the runner-up (seeds: {decision.score.count}{_sure(decision)})."


def _sure(decision: Decision) -> str:
    """Never 100 %: a test leaves some doubt."""
    sure = decision.confidence
    if sure is None:
        return ""
    return ", confidence above 99%" if sure > 0.99 else f", confidence {sure:.0%}"


def goal_in_words(advice: "Advice", goal: str) -> str:
    return "loss of the average model" if advice.pilot.readings.loss else GOALS[goal]


def score_in_words(advice: "Advice", score: float) -> str:
    return f"{-score:.4g}" if advice.pilot.readings.loss else f"{score:.2f} %"


def gap_in_words(advice: "Advice", decision: Decision) -> str:
    """`0.52 ± 0.21 points above`, or for losses `0.012 ± 0.004 below`."""
    rival = decision.runner_up
    assert rival is not None
    loss = advice.pilot.readings.loss
    number = "{:.3g}" if loss else "{:.2f}"
    text = number.format(rival.gap.mean)
    if rival.gap.count > 1:
        text += f" ± {number.format(rival.gap.half_width)}"
    return f"{text} below" if loss else f"{text} points above"


def _doubt(advice: "Advice", decision: Decision) -> Iterator[str]:
    """Where it is not clear: what would settle it, and what is cheaper meanwhile."""
    if decision.verdict != "unclear":
        return
    needed, rival = decision.seeds_to_settle(), decision.runner_up
    assert rival is not None
    if rival.gap.count < 2:
        yield "One seed says nothing about chance: give more seeds or minutes."
        return
    unit = "" if advice.pilot.readings.loss else " points"
    most = f"The two differ by at most {max(-rival.gap.low, rival.gap.high):.2g}{unit} (95 %)"
    if needed is None:
        yield f"{most}; no reasonable number of seeds would tell them apart."
    else:
        more = needed - decision.score.count
        minutes = more * advice.pilot.seconds_per_seed / 60
        yield (
            f"{most}. To settle it: --seeds {needed}, about {max(0.1, minutes):.1f} minutes more "
            "here."
        )
    best = advice.cost(advice.best.contender)
    level = [rival.lane.contender for rival in decision.rivals if not rival.is_clear]
    cheaper = min(level, key=advice.cost, default=None)
    if cheaper and advice.cost(cheaper) < best:
        label = cheaper.told(_among(advice))
        yield f"Level with it and cheaper: {label}, {_spent(advice.cost(cheaper))}."


def _cost(advice: "Advice") -> str:
    contender, purse = advice.best.contender, advice.pilot.purse
    rounds = purse.reach(contender)
    text = f"Cost over {rounds} rounds: {_spent(advice.cost(contender))}"
    text += f", {advice.bytes(contender) / 1e6:,.3g} MB"
    rival = advice.decision.runner_up
    if rival is not None:
        other = rival.lane.contender
        told = other.told(_among(advice))
        text += f"; {told} {_spent(advice.cost(other))}"
        if purse.reach(other) != rounds:
            text += f" over {purse.reach(other)} rounds"
    return f"{text}."


def _spent(cost: float) -> str:
    return f"{cost:,.0f} messages" if cost == int(cost) else f"{cost:,.1f} messages' worth"


def _goals(advice: "Advice") -> Iterator[str]:
    """The goals that did not decide."""
    for goal, decision in advice.decisions.items():
        if goal == advice.goal or advice.equal or advice.pilot.readings.loss:
            continue
        best = decision.best.contender.told(_among(advice))
        rival = decision.runner_up
        if rival is None:
            continue
        clear = "" if decision.verdict == "clear" else " (not a clear lead)"
        other = rival.lane.contender.told(_among(advice))
        yield (
            f"For the {goal_in_words(advice, goal)} alone: {best}, "
            f"{gap_in_words(advice, decision)} {other}{clear}."
        )


def _theory(advice: "Advice") -> Iterator[str]:
    if advice.constants is not None:
        yield f"Your problem: {regime(advice.constants)}."
    if advice.prediction is None or advice.equal:
        return
    favoured = advice.prediction.favours()
    if favoured is None:
        yield "Theory: the bounds of S2S and S2A are too close to prefer either."
        return
    times = _times(advice.prediction.rounds("order"), favoured)
    agree = {
        True: "; the pilot agrees",
        False: "; the pilot disagrees, and it ran your problem: trust it",
        None: "",
    }[advice.agreement]
    yield f"Theory: for the average model the bounds favour {favoured} ({times}){agree}."


def _times(rounds: dict[str, float], favoured: str) -> str:
    other = "s2a" if favoured == "s2s" else "s2s"
    ratio = rounds[other] / rounds[favoured]
    many = "without end" if ratio == float("inf") else f"{ratio:.3g} times as many rounds"
    return f"{other} needs {many}"


def _among(advice: "Advice") -> "list[Contender]":
    return [lane.contender for lane in advice.pilot.lanes]
