"""What an experiment's text cannot hold: graphs, data and models given from Python, graph files.

The experiment that is recorded with a run tells it all the same: `given` in the place of a name,
and the devices and components that a graph has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from skerry.config.experiment import Data, Experiment, Network
from skerry.data.sources.catalog import Dataset, from_arrays, load_dataset
from skerry.data.split import layout_of
from skerry.engine.world import Materials
from skerry.errors import DataError, ExperimentError, NetworkError, SkerryError
from skerry.network.fleet import build_fleet
from skerry.network.graphs import as_graph
from skerry.plugins.registry import GIVEN
from skerry.runs.sweep import Sweep

if TYPE_CHECKING:
    import networkx as nx

    Given = nx.Graph[Any] | Sequence[nx.Graph[Any]] | Mapping[int, nx.Graph[Any]] | None


def given_experiments(experiments: Iterable[Experiment], materials: Materials) -> list[Experiment]:
    """The experiments, each telling what is given from Python, and the sizes of its graph."""
    return with_sizes(_telling(one, materials) for one in experiments)


def given_sweep(sweep: Sweep, materials: Materials) -> Sweep:
    """The same for the experiment that all runs of a sweep share. What is given is no axis."""
    told = {
        f"{section}.{field}": value
        for section, fields in _told(Experiment(), materials).items()
        for field, value in fields.items()
    }
    if not told:
        return sized_sweep(sweep)
    for field in sweep.fields:
        if field in told:
            raise ExperimentError(
                f"{field} is an axis of the sweep, but given from Python too. Leave out one."
            )
    table = dict(sweep.experiment)
    for path, value in told.items():
        section, _, field = path.partition(".")
        table[section] = {**table.get(section, {}), field: value}
    return sized_sweep(Sweep(**{**dict(sweep), "experiment": table}))


def sized_sweep(sweep: Sweep) -> Sweep:
    """One whose runs tell how many devices there are, where files say it."""
    told = with_sizes(point.experiment for point in sweep.points)
    same = all(one is point.experiment for one, point in zip(told, sweep.points, strict=True))
    return sweep if same else sweep.with_experiments(told)


def _telling(experiment: Experiment, materials: Materials) -> Experiment:
    told = _told(experiment, materials)
    sections = {
        name: getattr(experiment, name).model_copy(update=fields) for name, fields in told.items()
    }
    return experiment.model_copy(update=sections) if sections else experiment


def _told(experiment: Experiment, materials: Materials) -> dict[str, dict[str, Any]]:
    """By section, what an experiment says of what is given."""
    told: dict[str, dict[str, Any]] = {}
    if materials.dataset is not None:
        told["data"] = {"dataset": GIVEN, "path": ""}
        if materials.dataset.holdings and "split" not in experiment.data.model_fields_set:
            told["data"]["split"] = "given"
    if materials.graph is not None:
        sizes = build_fleet(experiment.network, experiment.seed, materials.graph).sizes
        told["network"] = {"topology": GIVEN, "devices": sum(sizes), "components": sizes}
    elif materials.dataset is not None and not experiment.network.is_file:
        data = experiment.data.model_copy(update=told["data"])
        if data.split == "given":
            network, _ = layout_of(materials.dataset, experiment.network, data)
            told["network"] = {"devices": network.devices, "components": network.components}
    if materials.model is not None:
        told["model"] = {"name": GIVEN}
    return told


def with_sizes(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Those on a graph file, or with data that lie on devices, tell how many devices and components
    there are. Keys with a graph file stay what they are: the file's content decides there. What
    cannot be read, or contradicts the experiment, is told of when the world is built."""

    @cache
    def sized(network: Network, data: Data, seed: int) -> Network:
        try:
            if not network.is_file:
                return layout_of(load_dataset(data, seed), network, data)[0]
            sizes = build_fleet(network, seed=0).sizes
        except (NetworkError, DataError):
            return network
        return network.model_copy(update={"devices": sum(sizes), "components": sizes})

    return [
        one.model_copy(update={"network": sized(one.network, one.data, one.seed)})
        if _is_sized_outside(one)
        else one
        for one in experiments
    ]


def _is_sized_outside(experiment: Experiment) -> bool:
    """Data given from Python have been asked already."""
    data = experiment.data
    return experiment.network.is_file or (data.split == "given" and data.dataset != GIVEN)


def given_materials(
    graph: "Given",
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None",
    model: Callable[..., Any] | None,
) -> Materials:
    """What a caller gives that an experiment's text cannot hold."""
    if dataset is not None and not isinstance(dataset, Dataset):
        if not isinstance(dataset, tuple) or len(dataset) != 4:
            raise SkerryError(
                "dataset takes four arrays (x_train, y_train, x_test, y_test) or what "
                "skerry.from_torch or skerry.from_devices gives. A data set by name goes into the "
                "experiment: "
                'skerry.Data(dataset="mnist").'
            )
        dataset = from_arrays(*dataset)
    if model is not None and (isinstance(model, torch.nn.Module) or not callable(model)):
        raise SkerryError(
            "model takes a function that returns a new nn.Module, so that every seed has its own "
            f"start (got {type(model).__name__}). Give model=lambda: MyNet(), or the class itself."
        )
    return Materials(as_graph(graph), dataset, model)
