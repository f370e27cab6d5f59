"""How data come to devices: dealt out by a rule, or given, as they lie there already."""

from collections.abc import Sequence

import numpy as np

from skerry.config.experiment import Data, Network
from skerry.data.by_device.holdings import Holdings, check_islands, fleet_layout
from skerry.data.dataset import Dataset
from skerry.data.partition import Partition, check_supply, count_labels, split
from skerry.errors import DataError


def layout_of(
    dataset: Dataset, network: Network, data: Data
) -> tuple[Network, tuple[str, ...] | None]:
    """The network that the data ask for, and the names of its devices, where no graph tells."""
    if data.split == "dealt":
        check_supply(len(dataset.y_train), network.devices, data)
        return network, None
    sizes, names = fleet_layout(_holdings(dataset), network)
    return network.model_copy(update={"devices": len(names), "components": sizes}), names


def partition_of(
    dataset: Dataset, sizes: tuple[int, ...], names: Sequence[str], data: Data, seed: int
) -> Partition:
    """Who holds what, in a fleet with islands of these sizes and devices of these names."""
    labels = np.asarray(dataset.strata("train"), dtype=np.int64)
    if data.split == "dealt":
        return split(labels, dataset.strata_count, sizes, data, seed)
    holdings = _holdings(dataset)
    places = holdings.places(names)
    check_islands(holdings, places, sizes)
    train = holdings.train.of(places)
    counts = count_labels(labels, dataset.strata_count, train)
    return Partition(train.order, train.offsets, counts, holdings.tests.of(places))


def _holdings(dataset: Dataset) -> Holdings:
    if dataset.holdings is None:
        raise DataError(
            'data.split = "given" needs data that say which device holds which samples (got '
            f'{dataset.name}). Use data.dataset = "devices" with data.path, skerry.from_devices, '
            'or data.split = "dealt".'
        )
    return dataset.holdings
