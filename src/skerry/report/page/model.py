"""What all sections of the page share: the grid of runs, the measures, the numbers themselves."""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.compare import Verdict
from skerry.analysis.grid import Group
from skerry.analysis.names import short_names, word
from skerry.measures import traits
from skerry.report.page.curves import quantiles
from skerry.report.page.packing import Array, packed
from skerry.report.page.shades import shades
from skerry.report.page.study import Study
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
TUNED = "training.stepsize"


def model(study: Study) -> dict[str, Any]:
    """The part of the page's data that is JSON."""
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
        "groups": _groups(study),
        "seeds": grid.seeds,
        "quantiles": quantiles(len(grid.seeds)),
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
    if measure in study.ranked:
        answers, cells = study.answers(measure), study.grid.cells
        for place, group in enumerate(groups):
            found = answers.comparisons.get((cells[group.cell], study.grid.labels[group.label]))
            if found is not None:
                verdicts[place] = VERDICTS.index(answers.verdict(found))
                p_values[place] = found.t_holm
    values: NDArray[Any] = _by_group(study, study.finals[measure])
    if values.size * len(study.measures) > MOST_EXACT:
        values = values.astype(np.float32)
    return {"values": values, "p": p_values, "verdict": verdicts}


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
    known = traits(name)
    return {
        "name": name,
        "title": known.title,
        "style": "percent" if known.is_percent else "count" if known.is_count else "number",
        "log": known.scale == "log",
        "lowerIsBetter": known.lower_is_better,
        "ranked": name in study.ranked,
        "against": study.grid.labels.index(study.answers(name).against)
        if name in study.ranked
        else -1,
    }


def _axis(study: Study, place: int, field: str) -> dict[str, Any]:
    values = list(dict.fromkeys(cell[place] for cell in study.grid.cells))
    numbers = sorted(value for value in values if _is_number(value))
    others = sorted((value for value in values if not _is_number(value)), key=str)
    return {
        "field": field,
        "short": short_names(study.grid.axes)[field],
        "values": [*numbers, *others],
        "words": [word(value) for value in (*numbers, *others)],
        "numeric": not others,
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(axes: list[dict[str, Any]], cell: tuple[Any, ...]) -> list[int]:
    return [axis["values"].index(value) for axis, value in zip(axes, cell, strict=True)]


def _groups(study: Study) -> dict[str, list[Any]]:
    groups = study.grid.groups
    servers = [study.experiment(group).server for group in groups]
    return {
        "cell": [group.cell for group in groups],
        "label": [group.label for group in groups],
        "curve": study.curve_of,
        "unfinished": [not _finished(study, group) for group in groups],
        "server": [[one.sampled, one.period, one.offset] for one in servers],
        "served": [one.primitive != "none" for one in servers],
        "rounds": [study.experiment(group).rounds for group in groups],
    }


def _finished(study: Study, group: Group) -> bool:
    return any(study.runs[place].status == "finished" for place in group.runs.values())
