"""The oracle: slow versions, device by device, of everything that the fast engine computes.

They extend the loop of `skerry.engine.reference`, and share none of the fast engine's arithmetic.
"""

from collections.abc import Iterator

from torch import Tensor

from oracle.extended import ExtendedReference
from oracle.methods import METHODS
from skerry.config.experiment import Experiment
from skerry.engine.reference import Reference
from skerry.engine.world import World
from skerry.errors import SkerryError


def trajectory(world: World, experiment: Experiment) -> Iterator[Tensor]:
    """Yield the models X[n, d] of one run after every round.

    Algorithm 1 itself is computed by the package's own reference.
    """
    try:
        loop = Reference(world, experiment)
    except SkerryError:
        loop = METHODS.get(experiment.method.name, ExtendedReference)(world, experiment)
    yield from loop.run()
