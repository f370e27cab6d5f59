"""A user's own measures: functions `(models_nd) -> number`, called for each lane."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.config.measures import own_name
from skerry.data.holdings import Ints
from skerry.engine.facts import RunFacts, run_context
from skerry.engine.rehearsal import scattered_state, small
from skerry.engine.server_schedule import past_server_rounds
from skerry.engine.simulate import Moment
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.plugins.calls import lend, recording, same
from skerry.plugins.context import Context, awake_order
from skerry.plugins.options import bind

KIND = "measure"


class MeasureFacts(RunFacts):
    """The facts of a measure: those of the last round done, and the test set."""

    def time(self, context: Context) -> int:
        return max(0, context.round - 1)

    def order(self, context: Context) -> Ints:
        found: Ints = awake_order(context, self.time(context))
        return found

    def x_test(self, context: Context) -> Tensor:
        return self.world.x_test

    def y_test(self, context: Context) -> Tensor:
        return self.world.y_test

    def outputs(self, models_md: Tensor, x: Tensor) -> Tensor:
        return self.world.learner.scores(self._padded(models_md), x)

    def losses(self, models_md: Tensor) -> Tensor:
        world = self.world
        return world.learner.test_loss(self._padded(models_md), world.x_test, world.y_test)

    def _padded(self, models_md: Tensor) -> Tensor:
        padding = self.world.padding
        padded: Tensor = models_md if padding is None else padding.add(models_md)
        return padded


def measure_context(moment: Moment, lane: int) -> Context:
    """The context of what looks at a lane after a round: a measure, a stop rule."""
    world, experiment = moment.stack.world, moment.stack.experiments[lane]
    past = past_server_rounds(experiment, moment.state.memory, lane, moment.round)
    return run_context(world, experiment, moment.round, past, MeasureFacts(world, experiment))


class CustomMeasures:
    """The measures that an experiment names as `package.module:function`."""

    def __init__(self, world: World):
        self._world = world
        self._functions: dict[str, Callable[..., Any]] = {
            name: bind(KIND, registry.resolve(KIND, name)) for name in world.experiment.evaluate.own
        }

    def measure(self, moment: Moment) -> dict[str, Tensor]:
        """A number for every lane, [L], by the name of the measure."""
        X_nld = moment.state.X_nld
        return {
            own_name(name): X_nld.new_tensor(
                [self._measure_lane(name, moment, lane) for lane in range(len(moment.stack))]
            )
            for name in self._functions
        }

    def _measure_lane(self, name: str, moment: Moment, lane: int) -> float:
        world, context = self._world, measure_context(moment, lane)
        models, x, y = moment.state.X_nld[:, lane], world.x_test, world.y_test
        if world.padding is not None:
            models = world.padding.remove(models)
        with lend(KIND, name, models=models, x_test=x, y_test=y), torch.no_grad():
            found = self._functions[name](models, context=context)
        return _number(name, found)


def _number(name: str, found: Any) -> float:
    """The result of a measure, or a SkerryError if it is not one number."""
    with suppress(TypeError, ValueError, RuntimeError, OverflowError):
        if not isinstance(found, str | bytes):
            return float(found)
    shape = f" of shape {tuple(found.shape)}" if isinstance(found, Tensor) else ""
    raise SkerryError(
        f"measure '{name}' must give one number for the models of all devices (got "
        f"{type(found).__name__}{shape}). Take a mean or a maximum."
    )


def rehearse_measures(world: World, experiment: Experiment) -> None:
    """Raise SkerryError if a measure of a user's own breaks its contract."""
    if not experiment.evaluate.own:
        return
    part, one = small(world, experiment)
    stack = build_stack(part, [one])
    measures, moment = CustomMeasures(part), Moment("start", stack, scattered_state(stack, [0]), 0)
    with recording():
        first, again = measures.measure(moment), measures.measure(moment)
    for name in experiment.evaluate.own:
        if not same(first[own_name(name)], again[own_name(name)]):
            raise SkerryError(
                f"measure '{name}' gives different results for the same models: it must keep "
                "nothing from earlier calls. Use context.random() for draws."
            )
