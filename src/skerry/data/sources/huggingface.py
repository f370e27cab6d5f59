"""Data sets of the packages datasets and flwr-datasets, which need not be installed.

They are known by their methods, so that neither package is imported here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from skerry.data.by_device.gathering import Gathering
from skerry.data.dataset import Dataset
from skerry.data.sources.formats import Array
from skerry.errors import DataError, one_line

LABELS = ("label", "labels", "y", "target")
BATCH = 2**14


def is_huggingface(value: Any) -> bool:
    """Whether it is a table of the package datasets."""
    return hasattr(value, "column_names") and hasattr(value, "with_format")


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
    gathering = Gathering()
    about = [device, *([island] if island is not None else [])]
    for part in ("train", "test"):
        if part not in parts:
            continue
        where = f"the {part} part"
        columns = _columns(parts[part], label, features, about, where)
        for batch in _batches(parts[part], where):
            x, y = _samples(batch, *columns, where)
            islands = np.asarray(batch[island]) if island is not None else None
            is_test = np.full(len(y), part == "test")
            devices = np.asarray(batch[device])
            gathering.add_rows(devices, x, y, where=where, is_test=is_test, islands=islands)
    return gathering.dataset(name)


def from_flower(
    partitioned: Any, label: str | None = None, features: Sequence[str] | None = None
) -> Dataset:
    """A data set by device from a partitioner of flwr-datasets, or from its FederatedDataset, whose
    part test is then what all devices are measured on. Devices are called by the partition's
    number."""
    gathering = Gathering()
    partitioner = _partitioner(partitioned)
    for number in range(partitioner.num_partitions):
        held = partitioner.load_partition(number)
        gathering.add(number, *pair(held, f"partition {number}", label, features))
    if hasattr(partitioned, "load_split"):
        try:
            test = partitioned.load_split("test")
        except Exception:  # it has no such part, and says so in many ways
            test = None
        if test is not None:
            gathering.add_common(*pair(test, "the test part", label, features))
    return gathering.dataset("flower")


def pair(
    dataset: Any, who: str, label: str | None = None, features: Sequence[str] | None = None
) -> tuple[Array, Array]:
    """Samples and labels of one table."""
    columns = _columns(dataset, label, features, (), who)
    found = [_samples(batch, *columns, who) for batch in _batches(dataset, who)]
    if not found:
        raise DataError(f"{who} has no samples. Leave out devices without data.")
    return np.concatenate([x for x, _ in found]), np.concatenate([y for _, y in found])


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


def _columns(
    dataset: Any,
    label: str | None,
    features: Sequence[str] | None,
    about: Sequence[str],
    who: str,
) -> tuple[str, list[str]]:
    """The columns of the labels and of the features."""
    there = list(dataset.column_names)
    labels = [label] if label is not None else [name for name in LABELS if name in there][:1]
    found = [*labels, *about, *(features or ())]
    missing = [name for name in found if name not in there]
    if missing or not labels:
        what = f"no column '{missing[0]}'" if missing else "no labels"
        raise DataError(f"{who} has {what} (it has {', '.join(there)}). Name the columns.")
    return labels[0], list(features or [name for name in there if name not in found])


def _batches(dataset: Any, who: str) -> Iterator[Mapping[str, Any]]:
    """A stretch at a time: the whole may lie on disk."""
    try:
        yield from dataset.with_format("numpy").iter(batch_size=BATCH)
    except DataError:
        raise
    except Exception as error:  # a column may hold anything
        raise DataError(f"{who} cannot be read ({one_line(error)}).") from None


def _samples(
    batch: Mapping[str, Any], label: str, features: list[str], who: str
) -> tuple[Array, Array]:
    columns = [np.asarray(batch[name]) for name in features]
    if len(columns) == 1:
        x = columns[0]
        return (x if x.ndim > 1 else x[:, np.newaxis]), np.asarray(batch[label])
    uneven = [name for name, one in zip(features, columns, strict=True) if one.ndim != 1]
    if uneven or not columns:
        raise DataError(
            f"{who} has several columns of features, of which '{(uneven or ['none'])[0]}' holds no "
            "single numbers. Name the ones to use: features=[...]"
        )
    return np.stack(columns, axis=1), np.asarray(batch[label])
