"""Figures of recorded runs, `skerry figure`: what a user asks for, and what comes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.analysis.cells import Cells
from skerry.analysis.grid import Grid
from skerry.analysis.names import Where
from skerry.analysis.recorded import Recorded, in_words
from skerry.errors import SkerryError, argument
from skerry.report.figures.captions import lines_of
from skerry.report.figures.panels import Panel, arrange
from skerry.report.style import WIDTHS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS = 24


@dataclass(frozen=True)
class Asked:
    """Every field is what the option of its name says; a kind has a use for some of them."""

    folder: Path
    measures: tuple[str, ...] = ()
    compare: tuple[str, ...] = ()
    by: tuple[str, ...] | None = None
    """The fields that have a panel for each of their values; None: all that vary."""
    where: Where = field(default_factory=dict)
    lines: str | None = None
    x: str | None = None
    rows: str | None = None
    columns: str | None = None
    best: str | None = None
    last: int | None = None
    round: int | None = None
    width: float = WIDTHS["column"]
    title: str = ""
    given: Recorded | None = None
    """Runs that are at hand already, whatever lies in the folder."""

    @cached_property
    def recorded(self) -> Recorded:
        """The store, read once."""
        return self.given or Recorded.read(self.folder)

    def panel_fields(self, names: Cells | Grid, varying: Sequence[str]) -> tuple[str, ...]:
        """What was asked for; else all that varies."""
        return tuple(varying) if self.by is None else tuple(names.field(one) for one in self.by)

    def one_measure(self) -> str | None:
        if len(self.measures) > 1:
            raise SkerryError(
                f"this figure shows one measure (got {', '.join(self.measures)}). Give one "
                f"{argument('measure')}, or draw curves."
            )
        return self.measures[0] if self.measures else None


@dataclass(frozen=True)
class Drawn:
    figure: "Figure"
    notes: tuple[str, ...] = ()


def drawn(
    asked: Asked,
    panels: Sequence[Panel],
    notes: Sequence[str] = (),
    *,
    columns: int | None = None,
    height: float | None = None,
) -> Drawn:
    if len(panels) > MOST_PANELS:
        raise SkerryError(
            f"a figure has at most {MOST_PANELS} panels (got {len(panels)}). Choose runs with "
            f"{argument('where')} period=5, or name the fields that matter with {argument('by')}; "
            "others are averaged over."
        )
    title = lines_of(asked.title)
    figure = arrange(panels, asked.width, columns=columns, height=height, title=title)
    return Drawn(figure, tuple(notes))


def notes_on(
    statuses: Mapping[str, int], varying: Sequence[str], shown: Sequence[str]
) -> list[str]:
    """What a figure does not show."""
    left_out = {status: n for status, n in statuses.items() if status != "finished"}
    averaged = [name for name in varying if name not in shown]
    return [
        *([f"Averaged over {', '.join(averaged)}, seed by seed."] if averaged else []),
        *([f"Not drawn: runs that are not finished ({in_words(left_out)})."] if left_out else []),
    ]
