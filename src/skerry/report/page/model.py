"""What all sections of the page share: the grid of runs, the measures, the numbers themselves."""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.cells import Cell, rank_of_cell
from skerry.analysis.compare import Comparison, Verdict, compare
from skerry.analysis.names import short_names, word
from skerry.config.experiment import Experiment
from skerry.config.measures import traits
from skerry.report.page.curves import quantiles
from skerry.report.page.packing import Array, packed
from skerry.report.page.shades import shades
from skerry.report.page.study import TUNED, Study
from skerry.report.style import ISLANDS, PRIMITIVES, Look, looks

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NO_VERDICT = 255
SYMBOLS = {
    "o": "circle", "s": "square", "X": "x", "P": "cross", "*": "star", "h": "hexagon",
    "^": "triangle-up", "v": "triangle-down", "<": "triangle-left", ">": "triangle-right",
    "D": "diamond", "d": "diamond-tall",
}  # fmt: skip
"""Plotly's names for matplotlib's markers: who cannot tell the colours has these."""
MOST_EXACT = 300_000
"""Last values that travel in full; of more, seven digits do."""


def model(study: Study, start: int = 0) -> dict[str, Any]:
    """The part of the page's data that is JSON; `start` is the cell that is looked at first."""
    grid = study.grid
    axes = [_axis(study, place, name) for place, name in enumerate(grid.axes)]
    return {
        "labels": [_label(name, look) for name, look in looks(grid.labels).items()],
        "primitives": {name: shades(colour) for name, colour in PRIMITIVES.items()},
        "islands": [shades(colour) for colour in ISLANDS],
        "measures": [_measure(study, name) for name in study.measures],
        "headline": study.measures.index(study.headline) if study.headline else 0,
        "axes": axes,
        "tuned": grid.axes.index(TUNED) if TUNED in grid.axes else -1,
        "cells": [_place(axes, cell) for cell in grid.cells],
        "start": start,
        "groups": _groups(study),
        "best": _best_groups(study),
        "seeds": grid.seeds,
        "quantiles": [None if np.isnan(one) else one for one in quantiles(len(grid.seeds))],
        "roundSets": [list(rounds) for rounds in study.curves.round_sets],
    }


def chunks(study: Study) -> Iterator[tuple[str, str]]:
    """The part that is arrays, by the name that the page asks for it: it is unpacked only when
    it is shown."""
    for number, name in enumerate(study.measures):
        yield f"curves-{number}", packed(study.curves.arrays(name))
        yield f"finals-{number}", packed(_finals(study, name))
    for name, values in study.mean_ratios.items():
        yield f"mean-{name}", packed({"values": _by_group(study, values)})


def _finals(study: Study, measure: str) -> dict[str, Any]:
    """A row per group, a column per seed; and how each group compares with its reference."""
    groups = study.grid.groups
    verdicts = np.full(len(groups), NO_VERDICT, dtype=np.uint8)
    p_values = np.full(len(groups), np.nan)
    if answers := study.answers.get(measure):
        cells, labels = study.grid.cells, study.grid.labels
        for place, group in enumerate(groups):
            found = answers.comparisons.get((cells[group.cell], labels[group.label]))
            if found is not None:
                verdicts[place] = VERDICTS.index(answers.verdict(found))
                p_values[place] = found.t_holm
    tuned = np.full(len(groups), NO_VERDICT, dtype=np.uint8)
    tuned_p = np.full(len(groups), np.nan)
    for place, found in _between_best(study, measure).items():
        tuned[place] = VERDICTS.index(found.verdict(traits(measure).lower_is_better))
        tuned_p[place] = found.t_holm
    values: NDArray[Any] = _by_group(study, study.finals[measure])
    if values.size * len(study.measures) > MOST_EXACT:
        values = values.astype(np.float32)
    return {
        "values": values,
        "p": p_values,
        "verdict": verdicts,
        "bestP": tuned_p,
        "bestVerdict": tuned,
    }


def _between_best(study: Study, measure: str) -> dict[int, Comparison]:
    """Where each label stands at its own best stepsize: how its group compares with that of the
    reference, in every cell that is left without the stepsize. They are one family, too."""
    answers = study.answers.get(measure)
    if answers is None or not study.choices:
        return {}
    at, grid = study.grid.axes.index(TUNED), study.grid
    chosen: dict[Cell, dict[str, int]] = {}
    for number in _best_groups(study):
        cell = grid.cells[grid.groups[number].cell]
        here = chosen.setdefault(cell[:at] + cell[at + 1 :], {})
        here[grid.labels[grid.groups[number].label]] = number
    pairs = [
        (number, here[answers.against])
        for here in chosen.values()
        for label, number in here.items()
        if label != answers.against and answers.against in here
    ]
    if not pairs:
        return {}
    rows = _by_group(study, study.finals[measure]).reshape(len(grid.groups), -1)
    ours, theirs = (rows[list(side)] for side in zip(*pairs, strict=True))
    return dict(zip([ours for ours, _ in pairs], compare(ours, theirs), strict=True))


def _by_group(study: Study, values: Array) -> Array:
    grid = study.grid
    column = {seed: place for place, seed in enumerate(grid.seeds)}
    table = np.full((len(grid.groups), len(column)), np.nan)
    for row, group in enumerate(grid.groups):
        for seed, place in group.runs.items():
            table[row, column[seed]] = values[place]
    return table.ravel()


def _label(name: str, look: Look) -> dict[str, Any]:
    return {"name": name, "symbol": SYMBOLS[look.marker], **shades(look.colour)}


def _measure(study: Study, name: str) -> dict[str, Any]:
    known, answers = traits(name), study.answers.get(name)
    return {
        "name": name,
        "title": known.title,
        "style": "percent" if known.is_percent else "count" if known.is_count else "number",
        "log": known.scale == "log",
        "range": [bound if np.isfinite(bound) else None for bound in known.range],
        "lowerIsBetter": known.lower_is_better,
        "ranked": answers is not None,
        "against": study.grid.labels.index(answers.against) if answers else -1,
    }


def _axis(study: Study, place: int, field: str) -> dict[str, Any]:
    values = sorted(
        {cell[place] for cell in study.grid.cells}, key=lambda one: rank_of_cell((one,))
    )
    return {
        "short": short_names(study.grid.axes)[field],
        "values": values,
        "words": [word(value) for value in values],
    }


def _place(axes: list[dict[str, Any]], cell: Cell) -> list[int]:
    return [axis["values"].index(value) for axis, value in zip(axes, cell, strict=True)]


def _groups(study: Study) -> dict[str, Any]:
    groups = study.grid.groups
    experiments = [study.experiment(group) for group in groups]
    statuses = [{study.runs[place].status for place in group.runs.values()} for group in groups]
    return {
        "cell": [group.cell for group in groups],
        "label": [group.label for group in groups],
        "curve": study.curve_of,
        "unfinished": ["finished" not in found for found in statuses],
        "rounds": [one.rounds for one in experiments],
        "sampled": [one.server.sampled for one in experiments],
        "serverRounds": [_server_rounds(one) for one in experiments],
    }


def _server_rounds(experiment: Experiment) -> tuple[int, int, int] | list[list[int]]:
    """The first, the step to the next, and how many there are; where the period changes, a list of
    all. Counted when done, as in records: round t of the run is t + 1."""
    found = experiment.server.known_rounds(experiment.rounds)
    if isinstance(found, range):
        return found.start + 1, found.step, len(found)
    return [[t + 1 for t in found]]


def _best_groups(study: Study) -> list[int]:
    """Where stepsizes were tried: for every label in every cell that is left without them, the
    group with the best one; the first group where no run came to a value."""
    if not study.choices:
        return []
    at = study.grid.axes.index(TUNED)
    found: dict[tuple[Cell, str], int] = {}
    for number, group in enumerate(study.grid.groups):
        cell, label = study.grid.cells[group.cell], study.grid.labels[group.label]
        rest = cell[:at] + cell[at + 1 :]
        choice = study.choices.get(rest, {}).get(label)
        if choice is None:
            found.setdefault((rest, label), number)
        elif choice.value == cell[at]:
            found[rest, label] = number
    return list(found.values())
