"""What a caller gives: an experiment or its file, and what a file cannot hold."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.engine.world import Materials
from skerry.errors import SkerryError
from skerry.experiment import Experiment

if TYPE_CHECKING:
    import networkx as nx

    from skerry.data.catalog import Dataset


def given_experiment(
    experiment: Experiment | str | Path | None, graph: "nx.Graph[Any] | None"
) -> Experiment:
    """The experiment; with a graph, it says how many devices and components that has."""
    if experiment is None:
        experiment = Experiment()
    elif not isinstance(experiment, Experiment):
        experiment = Experiment.load(experiment)
    if graph is None:
        return experiment
    from skerry.network.fleet import build_fleet

    sizes = build_fleet(experiment.network, experiment.seed, graph).sizes
    update = {"devices": sum(sizes), "components": sizes}
    return experiment.model_copy(update={"network": experiment.network.model_copy(update=update)})


def given_materials(
    graph: "nx.Graph[Any] | None",
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None",
    model: Callable[..., Any] | None,
) -> Materials:
    import torch

    from skerry.data.catalog import from_arrays

    if isinstance(dataset, tuple):
        if len(dataset) != 4:
            raise SkerryError(
                "dataset takes four arrays (x_train, y_train, x_test, y_test) "
                f"(got {len(dataset)})."
            )
        dataset = from_arrays(*dataset)
    if model is not None and (isinstance(model, torch.nn.Module) or not callable(model)):
        raise SkerryError(
            "model takes a function that returns a new nn.Module, so that every seed has its own "
            f"start (got {type(model).__name__}). Give model=lambda: MyNet(), or the class itself."
        )
    return Materials(graph, dataset, model)
