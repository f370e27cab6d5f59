"""The kinds of `skerry figure`: what each shows, its options, the request and the drawn figure.

Importing this module is cheap. The functions that draw are imported when a figure is drawn.
"""

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skerry.errors import SkerryError, argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from skerry.analysis.cells import Cells
    from skerry.analysis.names import Where
    from skerry.analysis.run_table import RunTable
    from skerry.clock.settings import AnyClock


class FigureKind(NamedTuple):
    """A kind of figure, which the function `draw_<name>` of a module draws."""

    says: str
    takes: tuple[str, ...]  # the options it uses besides folder, file, width and title
    module: str = "skerry.report.figures.kinds"


KINDS = {
    "curves": FigureKind(
        "measures over the rounds (grey lines are server rounds), or over messages, bytes, seconds "
        "or joules; mean and 95 % band",
        ("measure", "compare", "by", "lines", "over", "clock"),
    ),
    "gap": FigureKind(
        "one primitive minus another as a map over two fields, unclear cells hatched",
        ("measure", "compare", "by", "rows", "columns", "best", "last", "clock"),
    ),
    "sensitivity": FigureKind(
        "a measure against the sampled share K/n and the period H, or any field",
        ("measure", "compare", "by", "lines", "x", "best", "last", "clock"),
    ),
    "front": FigureKind(
        "one accuracy (or loss) against another, from S2S over blend to S2A, best blend ringed",
        ("measure", "compare", "by", "x", "clock"),
    ),
    "cost": FigureKind(
        "a measure against the messages, bytes, seconds or joules so far",
        ("measure", "compare", "by", "x", "clock"),
    ),
    "timeline": FigureKind(
        "who computes, talks and waits: some devices of each island over seconds",
        ("compare", "rounds", "clock"),
        "skerry.report.figures.timelines",
    ),
    "bound": FigureKind(
        "what a server round does to disagreement and bias, measured and predicted by theory",
        ("measure", "compare", "by"),
    ),
    "network": FigureKind(
        "the islands, their links and the devices sampled in one round",
        ("compare", "round"),
        "skerry.report.figures.islands",
    ),
    "labels": FigureKind(
        "which labels (or which data) each device holds, island by island",
        ("compare",),
        "skerry.report.figures.islands",
    ),
}


@dataclass(frozen=True)
class FigureRequest:
    """The options of one figure. Each field holds the option of its name; a kind uses some."""

    folder: Path
    measures: tuple[str, ...] = ()
    compare: tuple[str, ...] = ()
    by: tuple[str, ...] | None = None
    """The fields that have a panel for each of their values; None for all fields that vary."""
    where: "Where" = field(default_factory=dict)
    lines: str | None = None
    x: str | None = None
    rows: str | None = None
    columns: str | None = None
    best: str | None = None
    last: int | None = None
    round: int | None = None
    over: str = "rounds"
    """The horizontal axis of curves, one of `skerry.report.figures.rounds.OVER`."""
    rounds: str | None = None
    """The rounds of a timeline, such as "3:8", counted from 1."""
    clock: "AnyClock | None" = None
    """The clock that gives the runs seconds and joules."""
    width: float = 3.3  # in inches; the default is one column of a page, as in `style.WIDTHS`
    title: str = ""
    runs: "RunTable | None" = None  # the runs to draw; None to read the store in the folder

    @cached_property
    def table(self) -> "RunTable":
        """The runs to draw; a store is read once. With a clock, only the requested runs, priced."""
        from skerry.analysis.run_table import RunTable

        table = self.runs or RunTable.read(self.folder)
        if self.clock is None:
            return table
        return table.check_not_empty().where(self.where, self.compare).priced(self.clock)

    def panel_fields(self, names: "Cells | RunTable", varying: "Sequence[str]") -> tuple[str, ...]:
        """The requested panel fields by their full names, or all that vary."""
        return tuple(varying) if self.by is None else tuple(names.field(one) for one in self.by)

    def one_measure(self) -> str | None:
        """The only requested measure, or None. Several are an error."""
        if len(self.measures) > 1:
            raise SkerryError(
                f"this figure shows one measure (got {', '.join(self.measures)}). Give one "
                f"{argument('measure')}, or draw curves."
            )
        return self.measures[0] if self.measures else None


@dataclass(frozen=True)
class DrawnFigure:
    """A drawn figure with notes on what it leaves out. A notebook shows it; `save` writes it."""

    figure: "Figure"
    notes: tuple[str, ...] = ()

    def save(self, path: str | Path, dpi: int = 200) -> Path:
        """Write the figure as .png, .pdf or .svg."""
        from skerry.report.style import check_format, save_figure

        check_format(Path(path))
        return save_figure(self.figure, Path(path), dpi=dpi)

    def _repr_png_(self) -> bytes:
        content = BytesIO()
        self.figure.savefig(content, format="png", dpi=110)
        return content.getvalue()

    def __repr__(self) -> str:
        return f"<DrawnFigure{''.join(f': {note}' for note in self.notes)}>"


def draw_figure(kind: str, request: FigureRequest) -> DrawnFigure:
    draw = getattr(import_module(KINDS[kind].module), f"draw_{kind}")
    figure: DrawnFigure = draw(request)
    return figure
