"""What an experiment's text cannot hold: graphs, data and models given from Python, graph files.

The experiment that is recorded with a run tells it all the same: `given` in the place of a name,
and the devices and components that a graph has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from skerry.data.catalog import Dataset, from_arrays
from skerry.engine.world import Materials
from skerry.errors import ExperimentError, NetworkError, SkerryError
from skerry.experiment import Experiment, Network
from skerry.network.fleet import build_fleet
from skerry.network.sequence import as_graph
from skerry.registry import GIVEN
from skerry.runs.sweep import Sweep

if TYPE_CHECKING:
    import networkx as nx

    Given = nx.Graph[Any] | Sequence[nx.Graph[Any]] | Mapping[int, nx.Graph[Any]] | None


def given_experiments(experiments: Iterable[Experiment], materials: Materials) -> list[Experiment]:
    """The experiments, each telling what is given from Python, and the sizes of its graph."""
    return with_sizes_of_files(_telling(one, materials) for one in experiments)


def given_sweep(sweep: Sweep, materials: Materials) -> Sweep:
    """The same for the experiment that all runs of a sweep share. What is given is no axis."""
    told = {
        f"{section}.{field}": value
        for section, fields in _told(Experiment(), materials).items()
        for field, value in fields.items()
    }
    if not told:
        return sweep
    for field in sweep.fields:
        if field in told:
            raise ExperimentError(
                f"{field} is an axis of the sweep, but given from Python too. Leave out one."
            )
    table = dict(sweep.experiment)
    for path, value in told.items():
        section, _, field = path.partition(".")
        table[section] = {**table.get(section, {}), field: value}
    return Sweep(**{**dict(sweep), "experiment": table})


def _telling(experiment: Experiment, materials: Materials) -> Experiment:
    told = _told(experiment, materials)
    sections = {
        name: getattr(experiment, name).model_copy(update=fields) for name, fields in told.items()
    }
    return experiment.model_copy(update=sections) if sections else experiment


def _told(experiment: Experiment, materials: Materials) -> dict[str, dict[str, Any]]:
    """By section, what an experiment says of what is given."""
    told: dict[str, dict[str, Any]] = {}
    if materials.graph is not None:
        sizes = build_fleet(experiment.network, experiment.seed, materials.graph).sizes
        told["network"] = {"topology": GIVEN, "devices": sum(sizes), "components": sizes}
    if materials.dataset is not None:
        told["data"] = {"dataset": GIVEN, "path": ""}
    if materials.model is not None:
        told["model"] = {"name": GIVEN}
    return told


def with_sizes_of_files(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Those on a graph file tell how many devices and components it has. Their keys stay what they
    are: the file's content decides there. A file that cannot be read, or that contradicts the
    experiment, is told of when the world is built."""

    @cache
    def sized(network: Network) -> Network:
        try:
            sizes = build_fleet(network, seed=0).sizes
        except NetworkError:
            return network
        return network.model_copy(update={"devices": sum(sizes), "components": sizes})

    return [
        one.model_copy(update={"network": sized(one.network)}) if one.network.is_file else one
        for one in experiments
    ]


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
                "skerry.from_torch gives. A data set by name goes into the experiment: "
                'skerry.Data(dataset="mnist").'
            )
        dataset = from_arrays(*dataset)
    if model is not None and (isinstance(model, torch.nn.Module) or not callable(model)):
        raise SkerryError(
            "model takes a function that returns a new nn.Module, so that every seed has its own "
            f"start (got {type(model).__name__}). Give model=lambda: MyNet(), or the class itself."
        )
    return Materials(as_graph(graph), dataset, model)
