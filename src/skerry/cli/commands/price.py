"""`skerry price`: seconds and joules of recorded runs under one or more clocks."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from skerry.cli.commands.options import AsJson, Folders, option, print_json, split_names
from skerry.errors import SkerryError, SkerryWarning, as_options, skerry_command

if TYPE_CHECKING:
    from skerry.analysis.reach import Priced
    from skerry.analysis.run_table import RunTable

RECORDED = "of the experiment"
"""The clock of runs that measured time themselves."""


def price_command(
    folders: Folders = None,
    clock: Annotated[
        list[str] | None,
        option(
            "A clock file, or an example: data_centre, wifi_home, lte_phone, lora_sensor; "
            "repeatable.",
            "CLOCK",
            "seconds that runs measured themselves",
        ),
    ] = None,
    target: Annotated[
        float | None,
        option("The score to be reached, such as 88.", "NUMBER", "one that all runs reach"),
    ] = None,
    measure: Annotated[
        str | None, option("The measure that has to reach it.", default="average_accuracy")
    ] = None,
    compare: Annotated[
        str | None, option("Only these primitives, such as s2s,s2a.", "PRIMITIVES", "all")
    ] = None,
    where: Annotated[
        list[str] | None,
        option("Only runs with this value, such as period=5; repeatable.", "FIELD=VALUE"),
    ] = None,
    best: Annotated[
        str | None,
        option(
            "Take each primitive at its best value of a field, such as training.stepsize, by the "
            "final score.",
            "FIELD",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what recorded runs cost in seconds and joules, and who reaches a score first.

    Nothing is run again. The same runs can be priced under several clocks: skerry price runs
    --clock wifi_home --clock lte_phone --target 88
    """
    from skerry.analysis.cells import ComparedCells
    from skerry.analysis.names import parse_where
    from skerry.analysis.reach import at_best, common_target
    from skerry.analysis.run_table import RunTable
    from skerry.report.screens import price as screen
    from skerry.report.screens.results import print_sheets, results_notes

    folders = folders or [Path("runs")]
    table = RunTable.read(folders)
    table = table.where(parse_where(where or ()), split_names([compare] if compare else None))
    name = table.check_measure(measure)
    table = table if best is None else at_best(table, best, name)
    goal = common_target(table, name) if target is None else target
    found = [_priced(table, one, name, goal) for one in _clocks(table, clock, folders[0])]
    scores = ComparedCells(found[0].reach.scores, found[0].against)
    notes = screen.reach_notes(found[0].reach, target is not None)
    notes = list(map(as_options, [*notes, *results_notes(scores, folders[0])]))
    differing = screen.compare_clocks(found)
    if as_json:
        blocks = [
            {
                "clock": one.clock,
                "rows": screen.price_rows(one),
                "summary": screen.price_sentences(one),
            }
            for one in found
        ]
        goal_part = {"measure": name, "target": goal, "fields": found[0].reach.scores.fields}
        print_json({**goal_part, "clocks": blocks, "summary": differing, "notes": notes})
        return
    for one in found:
        print_sheets(screen.price_sheets(one), [*screen.price_sentences(one), ""])
    print_sheets([], [*differing, *notes])


def _clocks(table: "RunTable", clocks: list[str] | None, folder: Path) -> list[str]:
    if clocks:
        return list(dict.fromkeys(clocks))
    if "seconds" in table.measures:
        return [RECORDED]
    command = skerry_command("price", folder, clock="wifi_home")
    raise SkerryError(
        "a clock must say how long steps and messages take (got none). Give a file or an example: "
        f"{command}"
    )


def _recorded(table: "RunTable") -> "RunTable":
    """The runs that have measured their seconds; the others are counted in a warning."""
    from skerry.report.text import plural

    runs = tuple(run for run in table.runs if "seconds" in table.histories[run.key])
    if left := len(table.runs) - len(runs):
        warnings.warn(
            f"{plural(left, 'run')} without a clock left out. Give one for all: --clock wifi_home",
            SkerryWarning,
            stacklevel=2,
        )
    return replace(table, runs=runs, known_fields=table.fields)


def _priced(table: "RunTable", clock: str, measure: str, target: float) -> "Priced":
    from skerry.analysis.reach import Priced, reach, with_clock

    priced = _recorded(table) if clock == RECORDED else with_clock(table, clock)
    return Priced(clock, priced, reach(priced, measure, target))
