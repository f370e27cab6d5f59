"""Tables of the packages datasets and flwr-datasets as data by device, where they are installed."""

import numpy as np
import pytest

import fleet_data
import skerry
from skerry.errors import DataError

datasets = pytest.importorskip("datasets", reason="needs the package datasets")


def as_table(rows):
    x, y, device = rows["x"], rows["y"], rows["device"]
    columns = {name: x[:, i] for i, name in enumerate("abcd")}
    return datasets.Dataset.from_dict({**columns, "label": y, "device": device})


def test_a_table_with_a_column_of_devices(tmp_path):
    """From a local file, as from Python."""
    rows = fleet_data.table(split=False)
    as_table(rows).to_parquet(tmp_path / "fleet.parquet")
    table = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "fleet.parquet"), cache_dir=str(tmp_path / "cache")
    )
    found = skerry.from_huggingface(table)
    given = skerry.from_devices(fleet_data.devices())
    sizes = dict(zip(found.holdings.devices, found.holdings.train.sizes, strict=True))
    assert sizes == dict(zip(given.holdings.devices, given.holdings.train.sizes, strict=True))
    assert found.x_train.shape[1] == 4


def test_a_table_for_each_device():
    tables = {
        name: datasets.Dataset.from_dict({"x": x.tolist(), "y": y})
        for name, (x, y) in fleet_data.devices().items()
    }
    found, given = skerry.from_devices(tables), skerry.from_devices(fleet_data.devices())
    assert found.fingerprint() == given.fingerprint()


def test_columns_that_are_not_there_are_told():
    table = as_table(fleet_data.table(split=False))
    with pytest.raises(DataError, match=r"has no column 'owner' \(it has a, b, c, d"):
        skerry.from_huggingface(table, device="owner")


def test_partitions_of_flower():
    partitioners = pytest.importorskip("flwr_datasets.partitioner", reason="needs flwr-datasets")
    rows = fleet_data.table(split=False)
    partitioner = partitioners.NaturalIdPartitioner(partition_by="device")
    partitioner.dataset = as_table(rows)
    found = skerry.from_flower(partitioner, features=list("abcd"))
    assert len(found.holdings.devices) == len(fleet_data.SIZES)
    held = sorted(found.holdings.train.sizes + found.holdings.tests.sizes)
    assert held == sorted(np.unique(rows["device"], return_counts=True)[1])
