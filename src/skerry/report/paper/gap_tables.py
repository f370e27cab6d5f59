"""Tables 3 to 6: every printed gap beside ours, under two ways of scoring."""

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from skerry.paper.printed import printed_cells
from skerry.paper.protocol import SCORED, TELLING, agreement, gaps
from skerry.paper.study import Study
from skerry.paper.targets import Along, Target
from skerry.report.paper.agreements import HEADER, NOTE, SIDES, agreement_cells, signs
from skerry.report.paper.cells import (
    REGIMES,
    SYMBOLS,
    Place,
    by_place,
    places,
    reading,
    regime_words,
    shown_scorings,
)
from skerry.report.paper.numbers import MARKS, NOTHING, points, with_error
from skerry.report.paper.shown import Content
from skerry.report.sheets import Sheet

if TYPE_CHECKING:
    import pandas as pd

LEGEND = (
    "Points of accuracy that S2S has more than S2A, ± the standard error over seeds, paired. Ours "
    "are means over the last 20 rounds, at the best stepsize of each cell and primitive among "
    f"those tried. {MARKS[True]}: the printed sign; {MARKS[False]}: the other; {MARKS[None]}: the "
    f"printed gap is at most {TELLING:g}, or a dash (below its standard error)."
)


def gap_tables(target: Target, studies: Mapping[str, Study]) -> Content:
    """A table per regime, a row per cell; then how far each way of scoring agrees."""
    assert target.along is not None
    (study,) = studies.values()
    printed = printed_cells()
    printed = printed[printed["table"] == target.name]
    found = {scoring: gaps([study], reading(scoring)) for scoring in shown_scorings(study)}
    met = {scoring: agreement(frame, printed) for scoring, frame in found.items()}
    told = "; ".join(f"{SCORED[scoring]} {signs(one)}" for scoring, one in met.items())
    summary = Sheet(
        "Agreement",
        ("scored", *HEADER),
        tuple((SCORED[scoring], *agreement_cells(one)) for scoring, one in met.items()),
        f"l{SIDES}",
    )
    sheets = _regime_sheets(printed, found, target.along)
    return Content(
        f"Signs agree: {told or 'nothing was scored'}.", (summary, NOTE, *sheets, LEGEND)
    )


def _regime_sheets(
    printed: "pd.DataFrame", found: Mapping[str, "pd.DataFrame"], along: Along
) -> list[Sheet]:
    theirs = by_place(printed, along)
    ours = {scoring: by_place(frame, along) for scoring, frame in found.items()}
    header = (
        SYMBOLS[along],
        "topology",
        "printed",
        "leads",
        *(part for scoring in found for part in (SCORED[scoring], "")),
    )
    rows: dict[tuple[str, str], list[tuple[str, ...]]] = {regime: [] for regime in REGIMES.values()}
    for place in places(theirs):
        cells = [part for one in ours.values() for part in _ours(theirs[place], one.get(place))]
        rows[place.intra, place.inter].append((*_printed(place, theirs[place]), *cells))
    sides = "llrl" + "rl" * len(found)
    return [Sheet(regime_words(*regime), header, tuple(part), sides)
            for regime, part in rows.items() if part]  # fmt: skip


def _printed(place: Place, row: Any) -> tuple[str, ...]:
    told = points(row.gap) if isfinite(row.gap) else "--"
    return f"{place.value:g}", place.topology, told, row.winner


def _ours(theirs: Any, ours: Any | None) -> tuple[str, str]:
    """The gap, and whether it has the printed sign."""
    if ours is None:
        return NOTHING, ""
    telling = abs(theirs.gap) > TELLING
    return with_error(ours.gap, ours.se), MARKS[theirs.gap * ours.gap > 0 if telling else None]
