"""Objects from Python (graphs, data, models) and graph files, as fields of an experiment.

A recorded experiment names such objects too: its fields say `given` in place of a name, and how
many devices and islands a graph has.
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
from skerry.models.weights import weights_from
from skerry.network.fleet import build_fleet
from skerry.network.graphs import as_graph
from skerry.plugins.registry import GIVEN
from skerry.runs.sweep import Sweep

if TYPE_CHECKING:
    import networkx as nx

    Given = nx.Graph[Any] | Sequence[nx.Graph[Any]] | Mapping[int, nx.Graph[Any]] | None


def with_materials(experiments: Iterable[Experiment], materials: Materials) -> list[Experiment]:
    """The experiments, with fields for the objects from Python and the sizes of their graphs."""
    return with_sizes(_with_fields(one, materials) for one in experiments)


def sweep_with_materials(sweep: Sweep, materials: Materials) -> Sweep:
    """`with_materials` for a sweep; fields of objects from Python cannot be axes."""
    table, by_section = dict(sweep.experiment), _material_fields(Experiment(), materials)
    for section, fields in by_section.items():
        for path in (f"{section}.{field}" for field in fields):
            if path in sweep.fields:
                raise ExperimentError(
                    f"{path} is an axis of the sweep, but given from Python too. Leave out one."
                )
        table[section] = {**table.get(section, {}), **fields}
    sweep = Sweep(**{**dict(sweep), "experiment": table}) if by_section else sweep
    return sweep_with_sizes(sweep)


def sweep_with_sizes(sweep: Sweep) -> Sweep:
    """`with_sizes` for the runs of a sweep."""
    sized = with_sizes(point.experiment for point in sweep.points)
    same = all(one is point.experiment for one, point in zip(sized, sweep.points, strict=True))
    return sweep if same else sweep.with_experiments(sized)


def _with_fields(experiment: Experiment, materials: Materials) -> Experiment:
    sections = {
        name: getattr(experiment, name).model_copy(update=fields)
        for name, fields in _material_fields(experiment, materials).items()
    }
    return experiment.model_copy(update=sections) if sections else experiment


def _material_fields(experiment: Experiment, materials: Materials) -> dict[str, dict[str, Any]]:
    """By section, the fields that stand for objects from Python."""
    fields: dict[str, dict[str, Any]] = {}
    if materials.dataset is not None:
        fields["data"] = {"dataset": GIVEN, "path": ""}
        if materials.dataset.holdings and "split" not in experiment.data.model_fields_set:
            fields["data"]["split"] = "given"
    if materials.graph is not None:
        sizes = build_fleet(experiment.network, experiment.seed, materials.graph).sizes
        fields["network"] = {"topology": GIVEN, "devices": sum(sizes), "components": sizes}
    elif materials.dataset is not None and not experiment.network.is_file:
        data = experiment.data.model_copy(update=fields["data"])
        if data.split == "given":
            network, _ = layout_of(materials.dataset, experiment.network, data)
            fields["network"] = {"devices": network.devices, "components": network.components}
    if materials.model is not None:
        fields["model"] = {"name": GIVEN}
    if materials.weights is not None:
        fields.setdefault("model", {})["weights"] = materials.weights.path or GIVEN
    return fields


def with_sizes(experiments: Iterable[Experiment]) -> list[Experiment]:
    """The experiments with the numbers of devices and islands that graph files and data by device
    determine. Keys do not depend on these numbers. Files that cannot be read, or contradict the
    experiment, raise an error when the world is built."""

    @cache
    def sized(network: Network, data: Data, seed: int) -> Network:
        try:
            if not network.is_file:
                return layout_of(load_dataset(data, seed), network, data)[0]
            sizes = build_fleet(network, seed=0).sizes
        except (NetworkError, DataError):
            return network
        return network.model_copy(update={"devices": sum(sizes), "components": sizes})

    # `with_materials` has the sizes of data from Python.
    return [
        one.model_copy(update={"network": sized(one.network, one.data, one.seed)})
        if one.network.is_file or (one.data.split == "given" and one.data.dataset != GIVEN)
        else one
        for one in experiments
    ]


def collect_materials(
    graph: "Given",
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None",
    model: Callable[..., Any] | None,
    weights: Any = None,
) -> Materials:
    """Check and collect the objects from Python that replace parts of an experiment."""
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
    initial = None if weights is None else weights_from(weights)
    return Materials(as_graph(graph), dataset, model, initial).with_fingerprint()
