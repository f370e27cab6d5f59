"""Fleets and splits of recorded runs. For a page nothing is fetched and no module of a user is
imported; what cannot be built says why."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from skerry import registry
from skerry.errors import SkerryError
from skerry.records.store import Run
from skerry.report.figures import rebuilt

if TYPE_CHECKING:
    from skerry.data.shares import Ints
    from skerry.network.fleet import Fleet

MOST_DEVICES = 3_000

_FLEET = (("topology", "network", "topology"), ("mixing", "network", "mixing"))
_SPLIT = (
    ("dataset", "data", "dataset"),
    ("inter partition", "data", "inter"),
    ("intra partition", "data", "intra"),
)


def fleet_of(run: Run) -> "Fleet":
    """The network that a run ran on; SkerryError where it is not to be had."""
    network = run.experiment.network
    if not network.is_file:
        _check_built_in(run, _FLEET)
    if network.devices > MOST_DEVICES:
        raise SkerryError(f"{network.devices:,} devices are too many to draw.")
    return _fleet(_Same(run))


def label_counts(run: Run, sizes: tuple[int, ...]) -> "Ints":
    """Training samples by device and class; SkerryError where the data are not at hand."""
    from skerry.data.partition import split

    _check_built_in(run, _SPLIT)
    dataset = rebuilt.dataset_of(run)
    labels = np.asarray(dataset.y_train, dtype=np.int64)
    data, seed = run.experiment.data, run.experiment.seed
    return split(labels, dataset.classes, sizes, data, seed).label_counts


def _check_built_in(run: Run, parts: tuple[tuple[str, str, str], ...]) -> None:
    for kind, section, field in parts:
        name = getattr(getattr(run.experiment, section), field)
        if not registry.is_builtin(kind, name):
            raise SkerryError(f"The {kind} {name} is your own; a report does not run it.")


class _Same:
    """A run, equal to others on the same network."""

    def __init__(self, run: Run):
        self.run = run
        self.network = run.experiment.network, run.experiment.seed, run.materials.get("graph")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.network == other.network

    def __hash__(self) -> int:
        return hash(self.network)


@lru_cache(maxsize=32)
def _fleet(same: _Same) -> "Fleet":
    return rebuilt.fleet_of(same.run)
