"""A user's own measures: functions `(models_nd, context) -> number`, called for each lane."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.config.measures import own_name
from skerry.engine.rehearsal import scattered_state, small
from skerry.engine.server_schedule import past_server_rounds
from skerry.engine.simulate import Moment
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.plugins.calls import lend, recording, same
from skerry.plugins.context import Context

KIND = "measure"


@dataclass(frozen=True)
class MeasureContext(Context):
    """The context of a measure: the run (`round` counts the rounds done) and the test set."""

    world: World = field(kw_only=True, repr=False)

    @property
    def x_test(self) -> Tensor:
        """The inputs of the test set, as the model takes them."""
        return self.world.x_test

    @property
    def y_test(self) -> Tensor:
        return self.world.y_test

    def outputs(self, models_md: Tensor, x: Tensor | None = None) -> Tensor:
        """The outputs of m models for inputs, by default the test set's: [m, inputs, ...]."""
        return self.world.learner.scores(models_md, self.x_test if x is None else x)

    def losses(self, models_md: Tensor) -> Tensor:
        """The loss of each of m models on the test set: [m]."""
        return self.world.learner.test_loss(models_md, self.x_test, self.y_test)


class CustomMeasures:
    """The measures that an experiment names as `package.module:function`."""

    def __init__(self, world: World):
        self._world = world
        self._functions: dict[str, Callable[..., Any]] = {
            name: registry.resolve(KIND, name) for name in world.experiment.evaluate.own
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
        world, experiment = self._world, moment.stack.experiments[lane]
        number, _ = past_server_rounds(experiment, moment.state.memory, lane, moment.round)
        facts = (world.seed, moment.round, world.rounds, number, world.sizes, world.fleet.labels)
        context = MeasureContext(*facts, world=world)
        models, x, y = moment.state.X_nld[:, lane], world.x_test, world.y_test
        with lend(KIND, name, models=models, x_test=x, y_test=y), torch.no_grad():
            found = self._functions[name](models, context)
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
