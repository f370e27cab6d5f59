"""Rebuild the networks, sampled devices and data of recorded runs from their experiments.

If something cannot be rebuilt, the error says why.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from skerry.config import schedules
from skerry.errors import DataError, NetworkError, skerry_command
from skerry.files import written
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import bind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skerry.config.experiment import Experiment
    from skerry.data.dataset import Dataset
    from skerry.data.partition import Partition
    from skerry.engine.participation.awake import Awake
    from skerry.network.fleet import Fleet
    from skerry.records.store import Run

BY_SEED_ONLY = ("uniform", "per_component", "one_each", "bernoulli", "round_robin")
"""Selection rules that depend only on the network and the seed."""


def rebuild_fleet(run: "Run") -> "Fleet":
    """The network of a recorded run; an error if it has changed since."""
    network, recorded = run.experiment.network, run.materials.get("graph")
    if recorded and not network.is_file:
        raise NetworkError(
            "the graph of these runs was given from Python, so it is not in the store. Draw it "
            "there: skerry.report.figures.network(build_fleet(network, seed, graph), axis)"
        )
    fleet = build_named_fleet(run.experiment)
    if recorded and fleet.fingerprint() != recorded:
        raise NetworkError(
            f"{written(network.topology)} has changed since the runs were recorded. Restore the "
            "old file."
        )
    return fleet


def build_named_fleet(experiment: "Experiment") -> "Fleet":
    """The network of an experiment. A graph file is read in its present state."""
    from skerry.network.fleet import build_fleet

    network = experiment.network
    if network.is_file:
        fields = network.model_fields_set - {"devices", "components"}
        network = type(network).model_construct(_fields_set=fields, **dict(network))
    return build_fleet(network, experiment.seed, rounds=experiment.rounds)


def device_names(run: "Run", fleet: "Fleet") -> "Sequence[str]":
    """The names of the devices of a recorded run: those in its data or in its graph file."""
    experiment = run.experiment
    if experiment.data.split != "given" or experiment.network.is_file:
        return fleet.labels
    from skerry.data.split import layout_of

    names = layout_of(rebuild_dataset(run), experiment.network, experiment.data)[1]
    return names or fleet.labels


def first_server_round(experiment: "Experiment") -> int:
    """The first server round, from 0; at most the last round, and 0 without a server."""
    server = experiment.server
    return min(server.offset, experiment.rounds - 1) if server.is_there else 0


def sampled_devices(experiment: "Experiment", fleet: "Fleet", t: int) -> list[int] | None:
    """The devices sampled in round t; None if they depend on more than network and seed."""
    from skerry.engine.participation.awake import Awake

    server, rounds = experiment.server, experiment.rounds
    if server.is_timed:
        return None
    names = (server.sampled_schedule, server.period_schedule)
    if any(":" in name or name == schedules.ADAPTIVE for name in names):
        return None
    if t not in server.server_rounds(rounds):
        return []
    if server.selection not in BY_SEED_ONLY:
        return None
    awake = Awake(experiment.availability, experiment.seed, fleet.island_of, fleet.labels)
    return draw_sample(experiment, fleet, t, awake)


def draw_sample(
    experiment: "Experiment", fleet: "Fleet", t: int, awake: "Awake | None"
) -> list[int]:
    """The devices sampled in round t, a server round whose selection is in `BY_SEED_ONLY`."""
    server, rounds = experiment.server, experiment.rounds
    context = Context(
        "a recorded sample is drawn again",
        seed=experiment.seed,
        round=t,
        rounds=rounds,
        number=bisect_left(server.server_rounds(rounds), t),
        sampled=server.at(t, rounds).sampled,
        sizes=fleet.sizes,
        devices=fleet.labels,
        awake=np.ones(fleet.devices, dtype=bool) if awake is None else awake(t),
    )
    rule = registry.resolve("selection", server.selection)
    found = bind("selection", rule, server.options_for("selection"))(context=context)
    devices = found[0] if isinstance(found, tuple) else found
    return [int(device) for device in devices]


def rebuild_dataset(run: "Run") -> "Dataset":
    """The data of a recorded run; an error if they have changed or would have to be downloaded."""
    from skerry.data.sources.catalog import load_dataset
    from skerry.data.sources.fetch import is_cached
    from skerry.data.sources.published import PUBLISHED

    data, recorded = run.experiment.data, run.materials.get("dataset")
    named = data.path or ":" in data.dataset
    if recorded and not named:
        raise DataError(
            "the data of these runs were given from Python, so they are not in the store. Draw "
            "them there: skerry.report.figures.labels(partition, sizes, axis)"
        )
    if data.dataset in PUBLISHED and not data.path and not is_cached(data.dataset):
        raise DataError(
            f"{data.dataset} is not on this machine, and figures download nothing. Fetch it first: "
            f"{skerry_command('data', 'fetch', data.dataset)}"
        )
    dataset = load_dataset(data, run.experiment.seed)
    if recorded and dataset.fingerprint() != recorded:
        raise DataError(
            f"the data of {written(data.path) or data.dataset} have changed since the runs were "
            "recorded. Restore the old ones."
        )
    return dataset


def rebuild_partition(run: "Run", dataset: "Dataset") -> "Partition":
    """The assignment of samples to devices in a recorded run."""
    from skerry.data import split

    data, network = run.experiment.data, run.experiment.network
    names: tuple[str, ...] | None = ()
    if data.split == "given" and network.is_file:
        names = rebuild_fleet(run).labels
    elif data.split == "given":
        names = split.layout_of(dataset, network, data)[1]
    return split.build_partition(dataset, network.sizes, names or (), data, run.experiment.seed)
