"""Figures of what runs stood on: their networks and the labels on their devices, rebuilt from the
experiments in the store."""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skerry.errors import SkerryError
from skerry.report.figures.label_maps import labels
from skerry.report.figures.networks import aspect, network
from skerry.report.figures.panels import Panel, in_a_row
from skerry.report.figures.rebuilt import dataset_of, fleet_of
from skerry.report.figures.request import Composed, Request, composed
from skerry.report.figures.titles import lines_of
from skerry.report.words import fleet_in_words
from skerry.seeds import stream

if TYPE_CHECKING:
    from skerry.network.fleet import Fleet
    from skerry.records.store import Run

WIDE, TALLEST = 2.2, 4.5
"""Inches that a network needs, and may take."""


def network_of(request: Request) -> Composed:
    """A panel for each network in the store."""
    runs = _first_of_each(request, _network_key)
    panels, shapes = [], []
    for run in runs:
        fleet = fleet_of(run)
        shapes.append(aspect(fleet))
        t = _round(request, run)
        sampled = _sampled(run, fleet, t)
        alone = "" if sampled else ", no server round"
        title = f"{fleet_in_words(run.experiment, fleet.sizes)}; round {t + 1}{alone}"
        panels.append(Panel(lines_of(title), partial(network, fleet, t=t, sampled=sampled)))
    columns = in_a_row(len(panels), request.width, WIDE)
    height = min(TALLEST, request.width / columns * max(shapes)) + 0.2
    return composed(request, panels, [_seed_note(runs)], columns=columns, height=height)


def labels_of(request: Request) -> Composed:
    """A panel for each split of the data in the store."""
    from skerry.data.partition import split

    runs = _first_of_each(request, _data_key)
    panels = []
    for run in runs:
        experiment, dataset = run.experiment, dataset_of(run)
        data, sizes = experiment.data, experiment.network.sizes
        y = np.asarray(dataset.y_train, dtype=np.int64)
        partition = split(y, dataset.classes, sizes, data, experiment.seed)
        title = f"{data.dataset}, {data.inter} across islands, {data.intra} within"
        panels.append(Panel(lines_of(title), partial(labels, partition, sizes)))
    return composed(request, panels, [_seed_note(runs)], columns=1, height=1.7)


def _first_of_each(request: Request, key: Callable[["Run"], str]) -> list["Run"]:
    """One run for each network or split; of those that share it, the lowest seed, with a server
    where one has it."""
    chosen = request.recorded.all.where(request.where, request.compare)
    runs = sorted(
        chosen.runs, key=lambda run: (run.experiment.seed, not run.experiment.server.is_there)
    )
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(key(run), run)
    return list(first.values())


def _network_key(run: "Run") -> str:
    table = run.experiment.deciding()["network"] | {"graph": run.materials.get("graph")}
    return json.dumps(table, sort_keys=True)


def _data_key(run: "Run") -> str:
    table, sizes = run.experiment.deciding(), run.experiment.network.sizes
    return json.dumps([sizes, table["data"], run.materials.get("dataset")], sort_keys=True)


def _round(request: Request, run: "Run") -> int:
    """Asked for as people count, from 1; else the first server round."""
    rounds, server = run.experiment.rounds, run.experiment.server
    if request.round is None:
        return min(server.offset, rounds - 1) if server.is_there else 0
    if not 1 <= request.round <= rounds:
        raise SkerryError(
            f"--round must be between 1 and {rounds}, the rounds of the run (got {request.round}). "
            "Choose another round."
        )
    return request.round - 1


def _sampled(run: "Run", fleet: "Fleet", t: int) -> list[int]:
    """Whom the server meets in round t, as `World.server_order` draws them."""
    server = run.experiment.server
    if not server.meets(t):
        return []
    order = stream(run.experiment.seed, "sampled", t).permutation(fleet.devices)
    return [int(device) for device in order[: server.sampled]]


def _seed_note(runs: list["Run"]) -> str:
    seeds = sorted({run.experiment.seed for run in runs})
    return f"Drawn for seed {', '.join(map(str, seeds))}; others: --where seed=..."
