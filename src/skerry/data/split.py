"""How data come to devices: dealt by a rule, or given, where the data name their devices."""

import math
from collections.abc import Sequence

import numpy as np

from skerry.config.experiment import Data, Network
from skerry.data.dataset import Dataset
from skerry.data.holdings import DeviceHoldings, Ints, SamplesByDevice
from skerry.data.partition import Partition, check_supply, count_labels, split
from skerry.errors import DataError


def layout_of(
    dataset: Dataset, network: Network, data: Data
) -> tuple[Network, tuple[str, ...] | None]:
    """The network with the devices and islands of the data, and the names of its devices; for data
    that are dealt, the network as it is and None."""
    if data.split == "dealt":
        supply = math.floor(len(dataset.y_train) * data.sample_share)
        check_supply(supply, network.devices, data)
        return network, None
    sizes, names = _given_layout(_holdings(dataset), network)
    return network.model_copy(update={"devices": len(names), "components": sizes}), names


def build_partition(
    dataset: Dataset, sizes: tuple[int, ...], names: Sequence[str], data: Data, seed: int
) -> Partition:
    """The samples of each device, in a fleet whose islands have `sizes` and its devices `names`."""
    labels = np.asarray(dataset.strata("train"), dtype=np.int64)
    if data.split == "dealt":
        tests = dataset.strata("test") if data.own_tests == "dealt" else None
        return split(labels, dataset.strata_count, sizes, data, seed, names, tests)
    holdings = _holdings(dataset)
    devices = holdings.find(names)
    _check_islands(holdings, devices, sizes)
    train = holdings.train.select(devices)
    counts = count_labels(labels, dataset.strata_count, train)
    return Partition(train.order, train.offsets, counts, holdings.tests.select(devices))


def _holdings(dataset: Dataset) -> DeviceHoldings:
    if dataset.holdings is None:
        raise DataError(
            'data.split = "given" needs data that say which device holds which samples (got '
            f'{dataset.name}). Use data.dataset = "devices" with data.path, skerry.from_devices, '
            'or data.split = "dealt".'
        )
    return dataset.holdings


def _given_layout(
    holdings: DeviceHoldings, network: Network
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The sizes of the islands, and the names of the devices island by island.

    Islands are those of the data, in the order in which they are first named; if the data name
    none, the devices are divided, in order, into `network.components` islands.
    """
    devices, fields_set = len(holdings.devices), network.model_fields_set
    if "devices" in fields_set and network.devices != devices:
        raise DataError(
            f"network.devices must match the data (got {network.devices}, the data have {devices} "
            "devices). Leave network.devices out."
        )
    if holdings.islands is None:
        wanted = network.model_copy(update={"devices": devices})
        for _, fault in wanted.size_faults():
            raise DataError(fault)
        return wanted.sizes, holdings.devices
    number_of = {island: c for c, island in enumerate(dict.fromkeys(holdings.islands))}
    island_of = np.array([number_of[island] for island in holdings.islands])
    by_island = SamplesByDevice.from_owners(island_of, len(number_of))
    sizes = tuple(by_island.sizes.tolist())
    if "components" in fields_set and network.components not in (sizes, len(sizes)):
        raise DataError(
            f"network.components must match the islands of the data (got {network.components!s:.60}"
            f", the data have {len(sizes)} of sizes {list(sizes)!s:.60}). Leave network.components "
            "out."
        )
    return sizes, tuple(holdings.devices[i] for i in by_island.order)


def _check_islands(holdings: DeviceHoldings, devices: Ints, sizes: Sequence[int]) -> None:
    """Raise DataError if the data and the graph disagree about the islands of the devices."""
    if holdings.islands is None:
        return
    in_graph: dict[str, tuple[int, str]] = {}
    in_data: dict[int, tuple[str, str]] = {}
    for i, c in zip(
        devices.tolist(), np.repeat(np.arange(len(sizes)), sizes).tolist(), strict=True
    ):
        device, island = holdings.devices[i], holdings.islands[i]
        number, neighbour = in_graph.setdefault(island, (c, device))
        other, another = in_data.setdefault(c, (island, device))
        if other != island:
            raise DataError(
                f"the data put device '{device}' on island '{island}' and '{another}' on "
                f"'{other}', but the graph links them. Leave the islands out, or the link."
            )
        if number != c:
            raise DataError(
                f"the data put devices '{neighbour}' and '{device}' on island '{island}', but the "
                "graph has no path between them. Leave the islands out, or add a link."
            )
