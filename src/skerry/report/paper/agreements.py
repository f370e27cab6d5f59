"""How far gaps agree with the printed ones, as cells of a table."""

from skerry.paper.protocol import Agreement
from skerry.report.paper.numbers import NOTHING, of, plain_number

HEADER = ("signs", "clear", "dashes", "distance", "ranks")
SIDES = "rrrrr"
NOTE = (
    "Signs: of printed gaps beyond 0.1 points, how many have the same sign here. Clear: of those, "
    "only where our gap exceeds its standard error. Dashes: of the gaps that the paper prints as "
    "-- (below their standard error), how many are within ours too. Distance: root mean square "
    "difference from the printed gaps, in points. Ranks: Spearman's correlation between printed "
    "and found gaps."
)


def agreement_cells(found: Agreement) -> tuple[str, ...]:
    tallies = (found.signs, found.clear, found.ties)
    return (
        *(of(one.agree, one.of) if one.of else NOTHING for one in tallies),
        plain_number(found.rms),
        plain_number(found.rank_correlation),
    )


def signs(found: Agreement) -> str:
    """`40 of 44`."""
    return of(found.signs.agree, found.signs.of)
