"""The kinds of figure that show what runs stood on: their networks, and the labels on their
devices."""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from skerry.errors import SkerryError, argument
from skerry.report.figures.captions import lines_of
from skerry.report.figures.from_store import Asked, Drawn, drawn
from skerry.report.figures.islands import KINDS, aspect, labels, network
from skerry.report.figures.panels import Panel, in_a_row
from skerry.report.rebuild import dataset_of, first_server_round, fleet_of, partition_of, sampled_in
from skerry.report.words import fleet_in_words, split_in_words

if TYPE_CHECKING:
    from skerry.records.store import Run

WIDE, TALLEST = 2.2, 4.5
"""Inches that a network needs, and may take."""


def network_of(asked: Asked) -> Drawn:
    """A panel for each network in the store."""
    runs = _first_of_each(asked, _network_key)
    panels, shapes = [], []
    for run in runs:
        fleet = fleet_of(run)
        shapes.append(aspect(fleet))
        t = _round(asked, run)
        sampled = sampled_in(run.experiment, fleet, t)
        alone = "" if sampled else ", no server round" if sampled == [] else ", samples not known"
        title = f"{fleet_in_words(run.experiment, fleet.sizes)}; round {t + 1}{alone}"
        panels.append(Panel(lines_of(title), partial(network, fleet, t=t, sampled=sampled or ())))
    columns = in_a_row(len(panels), asked.width, WIDE)
    height = min(TALLEST, asked.width / columns * max(shapes)) + 0.2
    return drawn(asked, panels, [_seed_note(runs)], columns=columns, height=height)


def labels_of(asked: Asked) -> Drawn:
    """A panel for each split of the data in the store."""
    runs = _first_of_each(asked, _data_key)
    panels = []
    for run in runs:
        experiment, dataset = run.experiment, dataset_of(run)
        data, sizes = experiment.data, experiment.network.sizes
        partition = partition_of(run, dataset)
        title = f"{data.dataset}, {split_in_words(data)}"
        panels.append(
            Panel(lines_of(title), partial(labels, partition, sizes, kind=KINDS[dataset.targets]))
        )
    return drawn(asked, panels, [_seed_note(runs)], columns=1, height=1.7)


def _first_of_each(asked: Asked, key: Callable[["Run"], str]) -> list["Run"]:
    """One run for each network or split; of those that have it in common, the lowest seed, with a
    server where one has it."""
    chosen = asked.recorded.all.where(asked.where, asked.compare)
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


def _round(asked: Asked, run: "Run") -> int:
    """Asked for as people count, from 1; else the first server round."""
    rounds = run.experiment.rounds
    if asked.round is None:
        return first_server_round(run.experiment)
    if not 1 <= asked.round <= rounds:
        raise SkerryError(
            f"{argument('round')} must be between 1 and {rounds}, the rounds of the run (got "
            f"{asked.round}). Choose another round."
        )
    return asked.round - 1


def _seed_note(runs: list["Run"]) -> str:
    seeds = sorted({run.experiment.seed for run in runs})
    return f"Drawn for seed {', '.join(map(str, seeds))}; others: {argument('where')} seed=..."
