"""Networks and data of recorded runs, built anew; what cannot be built says why."""

from typing import TYPE_CHECKING

from skerry.errors import DataError, NetworkError

if TYPE_CHECKING:
    from skerry.data.dataset import Dataset
    from skerry.network.fleet import Fleet
    from skerry.records.store import Run


def fleet_of(run: "Run") -> "Fleet":
    from skerry.network.fleet import build_fleet, fingerprint

    network, recorded = run.experiment.network, run.materials.get("graph")
    if recorded and not network.is_file:
        raise NetworkError(
            "the graph of these runs was given from Python, so it is not in the store. Draw it "
            "there: skerry.report.figures.network(build_fleet(network, seed, graph), axis)"
        )
    if network.is_file:
        # Read as it is now: whether it has changed is told below.
        asked = network.model_fields_set - {"devices", "components"}
        network = type(network).model_construct(_fields_set=asked, **dict(network))
    fleet = build_fleet(network, run.experiment.seed)
    if recorded and fingerprint(fleet.graph(0)) != recorded:
        raise NetworkError(
            f"{network.topology} has changed since the runs were recorded. Bring the old file back."
        )
    return fleet


def dataset_of(run: "Run") -> "Dataset":
    from skerry.data.catalog import load_dataset
    from skerry.data.fetch import cached
    from skerry.data.published import PUBLISHED

    data, recorded = run.experiment.data, run.materials.get("dataset")
    named = data.path or ":" in data.dataset
    if recorded and not named:
        raise DataError(
            "the data of these runs were given from Python, so they are not in the store. Draw "
            "them there: skerry.report.figures.labels(partition, sizes, axis)"
        )
    if data.dataset in PUBLISHED and not data.path and not cached(data.dataset):
        raise DataError(
            f"{data.dataset} is not on this machine, and a figure fetches nothing. Fetch it first: "
            f"skerry data fetch {data.dataset}"
        )
    dataset = load_dataset(data, run.experiment.seed)
    if recorded and dataset.fingerprint() != recorded:
        raise DataError(
            f"the data of {data.path or data.dataset} have changed since the runs were recorded. "
            "Bring the old ones back."
        )
    return dataset
