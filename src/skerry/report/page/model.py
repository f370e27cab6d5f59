"""The data that all sections of the page share: the grid of runs, the measures, all numbers."""

import colorsys
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.cells import Cell, sort_key
from skerry.analysis.compare import Comparison, Verdict, compare
from skerry.analysis.names import format_value, short_names
from skerry.config.experiment import Experiment, Section
from skerry.config.measures import traits
from skerry.report.page.packing import Array, pack_arrays
from skerry.report.page.report_data import GOAL, TUNED, ReportData, t_quantiles
from skerry.report.style import ISLANDS, OTHERS, PRIMITIVES, contrast, label_styles, luminance, rgb

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NO_VERDICT = 255
SYMBOLS = {
    "o": "circle", "s": "square", "X": "x", "P": "cross", "*": "star", "h": "hexagon",
    "^": "triangle-up", "v": "triangle-down", "<": "triangle-left", ">": "triangle-right",
    "D": "diamond", "d": "diamond-tall",
}  # fmt: skip
"""Plotly's names for matplotlib's markers."""
MOST_EXACT = 300_000  # up to this number, final values have all digits; beyond it, seven


def page_model(data: ReportData, start: int = 0) -> dict[str, Any]:
    """The JSON part of the page's data. `start` is the index of the cell that is shown first."""
    grid = data.grid
    axes = [_axis(data, place, name) for place, name in enumerate(grid.axes)]
    return {
        "labels": [
            {"name": name, "symbol": SYMBOLS[look.marker], **shades(look.colour)}
            for name, look in label_styles(grid.labels).items()
        ],
        "primitives": {name: shades(colour) for name, colour in PRIMITIVES.items()},
        "islands": [shades(colour) for colour in ISLANDS],
        "measures": [_measure(data, name) for name in data.measures],
        "headline": data.measures.index(data.headline) if data.headline else 0,
        "axes": axes,
        "tuned": grid.axes.index(TUNED) if TUNED in grid.axes else -1,
        "points": [{"label": label, "group": at} for label, at in data.named_groups.items()],
        "others": [*map(shades, OTHERS)],
        "cells": [
            [axis["values"].index(value) for axis, value in zip(axes, cell, strict=True)]
            for cell in grid.cells
        ],
        "start": start,
        "groups": _groups(data),
        "best": _best_groups(data),
        "seeds": grid.seeds,
        "quantiles": [None if np.isnan(one) else one for one in t_quantiles(len(grid.seeds))],
        "roundSets": [list(rounds) for rounds in data.curves.round_sets],
    }


def array_chunks(data: ReportData) -> Iterator[tuple[str, str]]:
    """The packed arrays of the page by name. The page unpacks each when it is first shown."""
    for number, name in enumerate(data.measures):
        yield f"curves-{number}", pack_arrays(data.curves.arrays(name))
        yield f"finals-{number}", pack_arrays(_finals(data, name))
    for name, values in data.mean_ratios.items():
        yield f"mean-{name}", pack_arrays({"values": _by_group(data, values)})


def _finals(data: ReportData, measure: str) -> dict[str, Any]:
    """Final values by group and seed, and each group's comparison with the reference label."""
    cells, labels, groups = data.grid.cells, data.grid.labels, data.grid.groups
    answers = data.compared.get(measure)
    tests = answers.comparisons if answers else {}
    keys = [(cells[group.cell], labels[group.label]) for group in groups]
    as_run = {place: tests[key] for place, key in enumerate(keys) if key in tests}
    values: NDArray[Any] = _by_group(data, data.finals[measure])
    if values.size * len(data.measures) > MOST_EXACT:
        values = values.astype(np.float32)
    found: dict[str, Any] = {"values": values}
    for compared, p, verdict in (
        (as_run, "p", "verdict"),
        (_between_best(data, measure), "bestP", "bestVerdict"),
    ):
        found[p] = np.full(len(groups), np.nan)
        found[verdict] = np.full(len(groups), NO_VERDICT, dtype=np.uint8)
        for place, one in compared.items():
            found[p][place] = one.t_holm
            found[verdict][place] = VERDICTS.index(one.verdict(traits(measure).lower_is_better))
    return found


def _between_best(data: ReportData, measure: str) -> dict[int, Comparison]:
    """By group, its comparison with the reference, both at their best stepsizes: one family."""
    answers = data.compared.get(measure)
    if answers is None or not data.tuned_values:
        return {}
    at, grid = data.grid.axes.index(TUNED), data.grid
    chosen: dict[Cell, dict[str, int]] = {}
    for number in _best_groups(data):
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
    rows = _by_group(data, data.finals[measure]).reshape(len(grid.groups), -1)
    ours, theirs = (rows[list(side)] for side in zip(*pairs, strict=True))
    return dict(zip([ours for ours, _ in pairs], compare(ours, theirs), strict=True))


def _by_group(data: ReportData, values: Array) -> Array:
    grid = data.grid
    column = {seed: place for place, seed in enumerate(grid.seeds)}
    table = np.full((len(grid.groups), len(column)), np.nan)
    for row, group in enumerate(grid.groups):
        for seed, place in group.runs.items():
            table[row, column[seed]] = values[place]
    return table.ravel()


def _measure(data: ReportData, name: str) -> dict[str, Any]:
    known, answers = traits(name), data.compared.get(name)
    title, style = known.title, known
    if name.startswith(GOAL) and data.advice is not None:
        style = traits(data.advice["question"]["measures"][0])
        asked = data.advice["question"]
        title = asked.get("measure_text") or asked["goal_text"]
        title += " (%)" if style.is_percent else ""
    return {
        "name": name,
        "title": title,
        "style": "percent" if style.is_percent else "count" if known.is_count else "number",
        "log": known.scale == "log",
        "range": [bound if np.isfinite(bound) else None for bound in style.range],
        "lowerIsBetter": known.lower_is_better,
        "ranked": answers is not None,
        "against": data.grid.labels.index(answers.against) if answers else -1,
    }


def _axis(data: ReportData, place: int, field: str) -> dict[str, Any]:
    values = sorted({cell[place] for cell in data.grid.cells}, key=lambda one: sort_key((one,)))
    return {
        "short": short_names(data.grid.axes)[field],
        "values": values,
        "words": [format_value(value) for value in values],
        "meaning": _meaning(field),
    }


def _meaning(field: str) -> str:
    """The description of a field of the experiment; empty for one that it does not have."""
    section, _, name = field.rpartition(".")
    holder = getattr(Experiment(), section, None) if section else Experiment()
    known = isinstance(holder, Section) and name in type(holder).model_fields
    return " ".join(holder.describe(name).split()) if known and holder else ""


def _groups(data: ReportData) -> dict[str, Any]:
    groups = data.grid.groups
    experiments = [data.experiment(group) for group in groups]
    statuses = [{data.runs[place].status for place in group.runs.values()} for group in groups]
    return {
        "cell": [group.cell for group in groups],
        "label": [group.label for group in groups],
        "curve": data.curve_of,
        "unfinished": ["finished" not in found for found in statuses],
        "rounds": [one.rounds for one in experiments],
        "sampled": [one.server.sampled for one in experiments],
        "serverRounds": [_server_rounds(one) for one in experiments],
    }


def _server_rounds(experiment: Experiment) -> tuple[int, int, int] | list[list[int]]:
    """The first server round, the step to the next, and their number; a list of all if the period
    changes. Rounds are counted when done, as in records: round t of the run is t + 1."""
    found = experiment.server.known_rounds(experiment.rounds)
    if isinstance(found, range):
        return found.start + 1, found.step, len(found)
    return [[t + 1 for t in found]]


def _best_groups(data: ReportData) -> list[int]:
    """The groups with the best stepsize, one for every label and every cell without the stepsize;
    the first group if no run has a value. Empty if stepsizes do not vary."""
    if not data.tuned_values:
        return []
    at = data.grid.axes.index(TUNED)
    found: dict[tuple[Cell, str], int] = {}
    for number, group in enumerate(data.grid.groups):
        cell, label = data.grid.cells[group.cell], data.grid.labels[group.label]
        rest = cell[:at] + cell[at + 1 :]
        choice = data.tuned_values.get(rest, {}).get(label)
        if choice is None:
            found.setdefault((rest, label), number)
        elif choice.value == cell[at]:
            found[rest, label] = number
    return list(found.values())


LIGHT_PAGE, DARK_PAGE = "#ffffff", "#15191f"
"""The backgrounds of the light and the dark page, as in page.css."""
LIGHT_CONTRAST = 3.0  # the contrast that WCAG 2.2 requires of lines and marks
DARK_CONTRAST = 5.5  # higher, because thin lines look darker on a dark background


def shades(colour: str) -> dict[str, str]:
    """One hue for both backgrounds, made darker or lighter until it has enough contrast."""
    return {
        "light": _with_contrast(colour, LIGHT_PAGE, LIGHT_CONTRAST),
        "dark": _with_contrast(colour, DARK_PAGE, DARK_CONTRAST),
    }


def _with_contrast(colour: str, background: str, least: float) -> str:
    step = 0.02 if luminance(rgb(background)) < 0.5 else -0.02
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb(colour))
    while contrast(colour, background) < least and 0 < lightness + step < 1:
        lightness += step
        parts = colorsys.hls_to_rgb(hue, lightness, saturation)
        colour = "#" + "".join(f"{round(255 * part):02X}" for part in parts)
    return colour
