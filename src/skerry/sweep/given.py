"""What an experiment's text cannot hold: graphs, data and models given from Python, graph files.

The experiment that is recorded with a run tells it all the same: `given` in the place of a name,
and the devices and components that a graph has.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.errors import NetworkError, SkerryError
from skerry.experiment import Experiment, Network
from skerry.registry import GIVEN

if TYPE_CHECKING:
    import networkx as nx

    from skerry.data.catalog import Dataset
    from skerry.engine.world import Materials


def given_experiments(
    experiment: Experiment | str | Path | Sequence[Experiment], materials: "Materials"
) -> list[Experiment]:
    """The experiments, each telling what is given from Python, and the sizes of its graph."""
    if isinstance(experiment, str | Path):
        experiments = [Experiment.load(experiment)]
    else:
        experiments = [experiment] if isinstance(experiment, Experiment) else list(experiment)
    return with_sizes_of_files(_telling(one, materials) for one in experiments)


def _telling(experiment: Experiment, materials: "Materials") -> Experiment:
    from skerry.network.fleet import build_fleet

    sections: dict[str, Any] = {}
    if materials.graph is not None:
        sizes = build_fleet(experiment.network, experiment.seed, materials.graph).sizes
        told = {"topology": GIVEN, "devices": sum(sizes), "components": sizes}
        sections["network"] = experiment.network.model_copy(update=told)
    if materials.dataset is not None:
        told = {"dataset": GIVEN, "path": ""}
        sections["data"] = experiment.data.model_copy(update=told)
    if materials.model is not None:
        sections["model"] = experiment.model.model_copy(update={"name": GIVEN})
    return experiment.model_copy(update=sections) if sections else experiment


def with_sizes_of_files(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Those on a graph file tell how many devices and components it has. Their keys stay what they
    are: the file's content decides there. A file that cannot be read, or that contradicts the
    experiment, is told of when the world is built."""
    from skerry.network.fleet import build_fleet

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
    graph: "nx.Graph[Any] | None",
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None",
    model: Callable[..., Any] | None,
) -> "Materials":
    """What a caller gives that an experiment's text cannot hold."""
    import torch

    from skerry.data.catalog import Dataset, from_arrays
    from skerry.engine.world import Materials

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
    return Materials(graph, dataset, model)
