"""The facts of a run behind a plug-in's Context, each computed when it is first read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skerry.config.experiment import Experiment
from skerry.data.holdings import Ints
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.network.links import Graph
from skerry.plugins.context import Context

if TYPE_CHECKING:
    from skerry.engine.server_schedule import PastServerRounds


class RunFacts:
    """The facts of an experiment in its world."""

    def __init__(self, world: World, experiment: Experiment):
        self.world, self.experiment = world, experiment

    def time(self, context: Context) -> int:
        """The round whose network is meant."""
        return context.round

    def graph(self, context: Context) -> Graph:
        return self.world.fleet_of(self.experiment).frozen_graph(self.time(context))

    def W(self, context: Context) -> sparse.csr_array:
        return self.world.fleet_of(self.experiment).frozen_matrix(self.time(context))

    def awake(self, context: Context) -> NDArray[np.bool_]:
        awake = self.world.awake(self.experiment)
        return np.ones(self.world.n, dtype=bool) if awake is None else awake(self.time(context))

    def samples(self, context: Context) -> Ints:
        return self.world.partition.sizes

    def parameters(self, context: Context) -> Sequence[Any]:
        return self.world.layout

    def sampled(self, context: Context) -> int:
        server, rounds = self.experiment.server, self.world.rounds
        if not server.is_there:
            raise SkerryError("context.sampled needs a server (got server.primitive = none).")
        if server.is_adaptive("sampled"):
            raise SkerryError(
                "context.sampled follows the models and is known in server rounds only (got "
                f"server.sampled_schedule = '{server.sampled_schedule}')."
            )
        return server.at(self.time(context), rounds).sampled


def run_context(
    world: World,
    experiment: Experiment,
    t: int,
    past: "PastServerRounds | None" = None,
    source: RunFacts | None = None,
    **facts: Any,
) -> Context:
    """The context of a plug-in in round t, after the server rounds of `past`."""
    if past is not None:
        facts |= {"number": past.number, "period": past.period}
    return Context(
        "a round is computed",
        source or RunFacts(world, experiment),
        seed=world.seed,
        round=t,
        rounds=world.rounds,
        devices=world.fleet.labels,
        sizes=world.sizes,
        **facts,
    )
