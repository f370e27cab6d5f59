"""Data by device from Python: arrays, torch data sets, and tables of Hugging Face and Flower.

Hugging Face and Flower data sets are recognized by their methods, so that neither of the packages
`datasets` and `flwr-datasets` needs to be installed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from skerry.data.by_device.grouping import DeviceRows, dataset_from_rows
from skerry.data.dataset import Array, Dataset
from skerry.data.holdings import quote_names
from skerry.data.sources.arrays import stack_torch
from skerry.data.sources.formats import decoding
from skerry.errors import DataError

LABELS = ("label", "labels", "y", "target")
BATCH = 2**14


def from_devices(
    devices: Mapping[Any, Any] | Sequence[Any],
    test: Any = None,
    own_test: Mapping[Any, Any] | None = None,
    islands: Mapping[Any, Any] | None = None,
    name: str = "devices",
) -> Dataset:
    """A data set from the samples of each device, by its name: a pair (x, y) of arrays, a map-style
    torch data set of such pairs, or one of Hugging Face's. A list names its devices 0, 1, 2 and so
    on.

    `test` holds the samples that all devices are scored on, `own_test` those of single devices, by
    name. Without `test`, all devices are scored on all own test samples together; without either,
    every fifth sample of each device is held out as its own. `islands` names the island of every
    device; leave it out if a graph defines the islands.
    """
    by_name, own = _by_name("devices", devices), _by_name("own_test", own_test or {})
    island_of = None if islands is None else _by_name("islands", islands)
    for device in own:
        if device not in by_name:
            raise DataError(
                f"own_test names device '{device}', which is not among devices. Name one that is."
            )
    _check_islands(by_name, island_of)

    def blocks() -> Iterator[DeviceRows]:
        for device, samples in by_name.items():
            island = None if island_of is None else island_of[device]
            for x, y in _arrays(samples, f"device '{device}'"):
                yield DeviceRows(x, y, device, island=island)
        for device, samples in own.items():
            for x, y in _arrays(samples, f"own_test of device '{device}'"):
                yield DeviceRows(x, y, device, "own_test", is_test=True)
        for x, y in _arrays(test, "test") if test is not None else ():
            yield DeviceRows(x, y, None, is_test=True)

    return dataset_from_rows(blocks(), name)


def from_huggingface(
    dataset: Any,
    device: str = "device",
    label: str | None = None,
    features: Sequence[str] | None = None,
    island: str | None = None,
    name: str = "huggingface",
) -> Dataset:
    """A data set by device from a `datasets.Dataset`, or from a dictionary of them with the parts
    train and test: `device` is the column that names the device, `label` that of the labels (the
    first of label, labels, y, target), `features` all others, `island` one that names islands."""
    parts = dataset if isinstance(dataset, Mapping) else {"train": dataset}
    if "train" not in parts:
        raise DataError(f"a data set by parts must have a part train (got {', '.join(parts)}).")

    def blocks() -> Iterator[DeviceRows]:
        extra = [device, *([island] if island is not None else [])]
        for part in ("train", "test"):
            if part not in parts or not len(parts[part]):
                continue
            where = f"the {part} part"
            for x, y, batch in _batches(parts[part], where, label, features, extra):
                islands = np.asarray(batch[island]) if island is not None else None
                owners = np.asarray(batch[device])
                yield DeviceRows(x, y, owners, where, is_test=part == "test", island=islands)

    return dataset_from_rows(blocks(), name)


def from_flower(
    partitioned: Any, label: str | None = None, features: Sequence[str] | None = None
) -> Dataset:
    """A data set by device from a partitioner of flwr-datasets, or from its FederatedDataset, whose
    part test is then what all devices are scored on. Devices are called by the partition's
    number."""
    partitioner = _partitioner(partitioned)

    def blocks() -> Iterator[DeviceRows]:
        for number in range(partitioner.num_partitions):
            held = partitioner.load_partition(number)
            for x, y, _ in _batches(held, f"partition {number}", label, features):
                yield DeviceRows(x, y, number)
        if hasattr(partitioned, "load_split"):
            try:
                test = partitioned.load_split("test")
            except Exception:  # there is no such part, which it reports in many ways
                return
            for x, y, _ in _batches(test, "the test part", label, features):
                yield DeviceRows(x, y, None, is_test=True)

    return dataset_from_rows(blocks(), "flower")


def _by_name(argument: str, values: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(values, Sequence) and not isinstance(values, str):
        values = dict(enumerate(values))
    if not isinstance(values, Mapping):
        raise DataError(
            f"{argument} must map names of devices to what they hold (got {type(values).__name__})."
        )
    by_name: dict[str, Any] = {}
    for device, value in values.items():
        if str(device) in by_name:
            raise DataError(f"{argument} names device '{device}' twice. Give each its own name.")
        by_name[str(device)] = value
    return by_name


def _check_islands(devices: dict[str, Any], islands: dict[str, Any] | None) -> None:
    """Raise DataError unless every device has an island, or none has."""
    if islands is None:
        return
    for problem, missing in (
        ("islands of devices without data", [one for one in islands if one not in devices]),
        ("no island for", [one for one in devices if one not in islands]),
    ):
        if missing:
            raise DataError(
                f"islands must name the devices of the data ({problem}: {quote_names(missing)}). "
                "Name every device once."
            )


def _arrays(samples: Any, source: str) -> Iterator[tuple[Array, Array]]:
    """x and y of a pair of arrays, of a torch data set, or of a Hugging Face table by batch."""
    if isinstance(samples, tuple | list):
        if len(samples) != 2:
            raise DataError(f"{source} must be a pair (x, y) (got {len(samples)} parts).")
        yield samples[0], samples[1]
    elif hasattr(samples, "column_names") and hasattr(samples, "with_format"):
        yield from ((x, y) for x, y, _ in _batches(samples, source))
    elif hasattr(samples, "__getitem__") and not isinstance(samples, Mapping | str):
        yield stack_torch(f"data set of {source}", samples)
    else:
        raise DataError(
            f"{source} must be a pair (x, y) or a data set (got {type(samples).__name__})."
        )


def _partitioner(partitioned: Any) -> Any:
    if hasattr(partitioned, "load_partition") and hasattr(partitioned, "num_partitions"):
        return partitioned
    partitioners = getattr(partitioned, "partitioners", None)
    if isinstance(partitioners, Mapping) and "train" in partitioners:
        partitioned.load_partition(0, "train")  # it gives the partitioner its data
        return partitioners["train"]
    raise DataError(
        "from_flower takes a partitioner, or a FederatedDataset with one for its part train (got "
        f"{type(partitioned).__name__})."
    )


def _batches(
    dataset: Any,
    source: str,
    label: str | None = None,
    features: Sequence[str] | None = None,
    extra: Sequence[str] = (),
) -> Iterator[tuple[Array, Array, Mapping[str, Any]]]:
    """x, y and all columns of a Hugging Face table, batch by batch, because the whole may lie on
    disk. `extra` are columns that are no features."""
    there = list(dataset.column_names)
    labels = [label] if label is not None else [name for name in LABELS if name in there][:1]
    used = [*labels, *extra, *(features or ())]
    missing = [name for name in used if name not in there]
    if missing or not labels:
        what = f"no column '{missing[0]}'" if missing else "no labels"
        raise DataError(f"{source} has {what} (it has {', '.join(there)}). Name the columns.")
    columns = list(features or [name for name in there if name not in used])
    batch = None
    with decoding(f"{source} cannot be read"):  # a column may hold anything
        for batch in dataset.with_format("numpy").iter(batch_size=BATCH):
            yield _feature_matrix(batch, columns, source), np.asarray(batch[labels[0]]), batch
    if batch is None:
        raise DataError(f"{source} has no samples. Leave out devices without data.")


def _feature_matrix(batch: Mapping[str, Any], features: list[str], source: str) -> Array:
    columns = [np.asarray(batch[name]) for name in features]
    if len(columns) == 1:
        return columns[0] if columns[0].ndim > 1 else columns[0][:, np.newaxis]
    uneven = [name for name, one in zip(features, columns, strict=True) if one.ndim != 1]
    if uneven or not columns:
        raise DataError(
            f"{source} has several columns of features, of which '{(uneven or ['none'])[0]}' holds "
            "no single numbers. Name the ones to use: features=[...]"
        )
    return np.stack(columns, axis=1)
