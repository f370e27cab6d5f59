"""Tables 3 to 6: every printed gap beside ours, under two ways of scoring and two timings."""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

import pandas as pd

from skerry.report.text import NOTHING, Sheet
from skerry_paper.agreement import agreement, guesses
from skerry_paper.plan import TOPOLOGIES
from skerry_paper.printed import REGIMES, TABLE_AXES, Along, in_table, printed_cells
from skerry_paper.protocol import TELLING, Protocol, gaps, shown_protocols
from skerry_paper.study import Study
from skerry_paper.targets import Target
from skerry_paper.views.formatting import (
    AGREEMENT_HEADER,
    AGREEMENT_NOTE,
    AGREEMENT_SIDES,
    SYMBOLS,
    agreement_cells,
    by_timing,
    guesses_in_words,
    points,
    regime_words,
    stepsizes_tried,
    with_error,
)
from skerry_paper.views.view import View

SAME_SIGN, OTHER_SIGN, NO_SIGN = "✓", "✗", "·"
LEGEND = (
    "Points of accuracy that S2S has more than S2A, ± the standard error over seeds, paired, at "
    "the best stepsize of each cell and primitive among those tried; final: after 100 rounds, as "
    "the paper states; last 20: the mean over the last 20 rounds. "
    f"{SAME_SIGN}: the printed sign; {OTHER_SIGN}: the other; {NO_SIGN}: the "
    f"printed gap is at most {TELLING:g}, or a dash (below its standard error)."
)


class Place(NamedTuple):
    """A cell of a table: one regime, one value along its axis, one topology."""

    intra: str
    inter: str
    value: float
    topology: str


def gap_tables(target: Target, studies: Mapping[str, Study]) -> View:
    """A table per regime, a row per cell; then how far each way of scoring agrees."""
    (study,) = studies.values()
    printed = printed_cells()
    printed = printed[printed["table"] == target.name]
    found = {protocol: gaps([study], protocol) for protocol in shown_protocols(study)}
    met = {protocol: agreement(frame, printed) for protocol, frame in found.items()}
    guessed = guesses(printed)
    rows = {one.short: each for one, each in met.items()} | guessed
    summary = Sheet(
        "Agreement",
        ("scored", *AGREEMENT_HEADER),
        tuple((name, *agreement_cells(one)) for name, one in rows.items()),
        f"l{AGREEMENT_SIDES}",
    )
    sheets = _regime_sheets(printed, found, TABLE_AXES[target.name])
    verdict = f"Points away: {by_timing(met)}; {guesses_in_words(guessed)}."
    legend = f"{LEGEND} {stepsizes_tried(study.runs['stepsize'])}"
    if not met:
        verdict = "Nothing was scored."
    return View(target, verdict, (summary, AGREEMENT_NOTE, *sheets, legend))


def _regime_sheets(
    printed: pd.DataFrame, found: Mapping[Protocol, pd.DataFrame], along: Along
) -> list[Sheet]:
    theirs = _by_place(printed, along)
    ours = {protocol: _by_place(frame, along) for protocol, frame in found.items()}
    header = (
        SYMBOLS[along],
        "topology",
        "printed",
        "leads",
        *(part for protocol in found for part in (protocol.short, "")),
    )
    rows: dict[tuple[str, str], list[tuple[str, ...]]] = {regime: [] for regime in REGIMES.values()}
    for place in _in_order(theirs):
        cells = [part for one in ours.values() for part in _ours(theirs[place], one.get(place))]
        rows[place.intra, place.inter].append((*_printed(place, theirs[place]), *cells))
    sides = "llrl" + "rl" * len(found)
    return [Sheet(regime_words(*regime), header, tuple(part), sides)
            for regime, part in rows.items() if part]  # fmt: skip


def _by_place(found: pd.DataFrame, along: Along) -> dict[Place, Any]:
    """The row of each cell of a table."""
    rows: Iterable[Any] = in_table(found, along).itertuples()
    return {
        Place(row.intra, row.inter, round(float(getattr(row, along)), 6), row.topology): row
        for row in rows
    }


def _in_order(places: Iterable[Place]) -> Iterator[Place]:
    """The paper's order; unknown topologies come last."""
    order = {regime: i for i, regime in enumerate(REGIMES.values())}
    rank = {name: i for i, name in enumerate(TOPOLOGIES)}
    yield from sorted(
        places,
        key=lambda one: (
            order[one.intra, one.inter],
            one.value,
            rank.get(one.topology, len(rank)),
            one.topology,
        ),
    )


def _printed(place: Place, row: Any) -> tuple[str, ...]:
    told = points(row.gap) if isfinite(row.gap) else "--"
    return f"{place.value:g}", place.topology, told, row.winner


def _ours(theirs: Any, ours: Any | None) -> tuple[str, str]:
    """The gap, and whether it has the printed sign."""
    if ours is None:
        return NOTHING, ""
    same = SAME_SIGN if theirs.gap * ours.gap > 0 else OTHER_SIGN
    return with_error(ours.gap, ours.se), same if abs(theirs.gap) > TELLING else NO_SIGN
