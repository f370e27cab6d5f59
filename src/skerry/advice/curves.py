"""Contenders evaluated from their first rounds on: what they would reach if they had to end early.

The pilot looks at the last rounds only. These runs are not kept: beside the pilot's they would
look like another study.
"""

from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TypeAlias

from skerry.advice.contenders import Lane, stride
from skerry.advice.ground import Ground
from skerry.advice.pilot import OutOfTimeError, Pilot, run_lanes
from skerry.advice.question import Goal
from skerry.advice.readings import WINDOW, Readings
from skerry.advice.timing import Timer, Watch
from skerry.experiment import Experiment
from skerry.records.parts import History
from skerry.records.store import Store

Curves: TypeAlias = dict[tuple[Lane, int], History | None]
"""By lane and seed; None where it diverged."""

MOST_SEEDS = 4
LOOKS = 2
"""Evaluations in a fifth of the rounds."""


def trace(pilot: Pilot, ground: Ground, goal: Goal, timer: Timer, watch: Watch) -> Curves:
    """Every contender that is left, at its best stepsize, on as many seeds as time allows."""
    contenders = dict.fromkeys(lane.contender for lane in pilot.lanes)
    tuned = (pilot.readings.tuned(contender, goal) for contender in contenders)
    lanes = [lane for lane in tuned if lane is not None]
    base, curves = _throughout(pilot), Curves()
    tracing = replace(pilot, base=base, readings=Readings(pilot.readings.measures))
    watch.doing(f"curves over all rounds: lanes {len(lanes)}")
    with TemporaryDirectory(prefix="skerry-") as folder, Store.open(folder) as store:
        aside = ground.aside(store)
        for seed in pilot.seeds[:MOST_SEEDS]:
            if pilot.seconds_per_seed > timer.left:
                break
            try:
                run_lanes(tracing, lanes, [seed], aside, timer, watch, may_stop=True)
            except OutOfTimeError:
                break
            curves |= {(lane, seed): aside.history(lane.run(base, seed)) for lane in lanes}
    return curves


def _throughout(pilot: Pilot) -> Experiment:
    every = stride(
        int(WINDOW * pilot.base.rounds), LOOKS, {lane.contender.period for lane in pilot.lanes}
    )
    evaluate = pilot.base.evaluate.model_copy(update={"every": every, "after": 0})
    return pilot.base.model_copy(update={"evaluate": evaluate})
