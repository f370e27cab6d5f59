"""The clocks of a page: their names, and seconds and joules of all runs under each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from skerry.analysis.run_table import RunTable
from skerry.clock.settings import AnyClock, Clock
from skerry.clock.times import MEASURES
from skerry.config.measures import LINKS
from skerry.records.parts import History

AnyClocks = AnyClock | Sequence[AnyClock] | None
"""A clock as `read_clock` takes it, several of them, or none."""


def name_clocks(clock: AnyClocks) -> dict[str, AnyClock]:
    """Clocks by name: that of the example or of the file."""
    if isinstance(clock, str | Path | Mapping | Clock):
        clock = [clock]
    found: dict[str, AnyClock] = {}
    for one in clock or ():
        name = Path(one).stem if isinstance(one, str | Path) else "clock"
        found[name if name not in found else f"{name} {len(found) + 1}"] = one
    return found


def clocked_name(measure: str, clock: str, clocks: Mapping[str, AnyClock]) -> str:
    """The name of a measure under a clock of the page: `seconds`, or `seconds@lte` of several."""
    return f"{measure}@{clock}" if len(clocks) > 1 else measure


def price_histories(table: RunTable, clocks: Mapping[str, AnyClock]) -> dict[str, History]:
    """By run key, the measures of time and energy under each clock: NaN for a run without a price,
    which may have measured them under its own clock."""
    if not clocks:
        return {}
    links = (f"{link}_{unit}" for link in LINKS for unit in ("messages", "bytes"))
    needed = ("round", *links, *MEASURES)
    runs = tuple(run for run in table.runs if run.rounds_done)
    histories = {}
    for run in runs:  # only what a clock needs: a page never holds all histories at once
        history = table.histories[run.key]
        histories[run.key] = {name: history[name] for name in needed if name in history}
    some = replace(table, runs=runs, histories=histories, known_fields=table.fields)
    found: dict[str, History] = {key: {} for key in histories}
    for name, clock in clocks.items():
        priced = some.priced(clock).histories
        for key, history in histories.items():
            nothing = np.full(len(history["round"]), np.nan)
            own = priced[key] if key in priced else dict.fromkeys(MEASURES, nothing)
            found[key] |= {clocked_name(one, name, clocks): own[one] for one in MEASURES}
    return found
