"""A table or figure of the paper as it is shown: a verdict, then text, tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from skerry.report.figures.panels import Panel, arrange
from skerry.report.style import GREY, MISSING, WIDTHS
from skerry.report.text import Sheet
from skerry_paper.targets import Target


class NamedFigure(NamedTuple):
    """A figure with the name of its file."""

    name: str
    figure: Figure
    about: str
    """Alternative text."""


Part: TypeAlias = str | Sheet | NamedFigure


@dataclass(frozen=True)
class View:
    """What `skerry reproduce` shows of a target, on the screen and as Markdown."""

    target: Target
    verdict: str
    """One line on the agreement with the paper."""
    parts: tuple[Part, ...] = ()

    @property
    def title(self) -> str:
        return f"{number_of(self.target.name)}: {self.target.title}"

    @property
    def pictures(self) -> list[NamedFigure]:
        return [part for part in self.parts if isinstance(part, NamedFigure)]

    @property
    def figures(self) -> dict[str, Figure]:
        return {picture.name: picture.figure for picture in self.pictures}

    def to_markdown(self, level: int = 1, *, folder: str = "", ending: str = ".png") -> str:
        """The view with a heading of this level; figures are links into `folder`."""
        blocks = [f"{'#' * level} {self.title}", f"**{self.verdict}**"]
        for part in self.parts:
            match part:
                case Sheet():
                    blocks.append(part.to_markdown().rstrip())
                case NamedFigure():
                    blocks.append(f"![{part.about}]({folder}{part.name}{ending})")
                case _:
                    blocks.append(part)
        return "\n\n".join(blocks) + "\n"

    def print_to(self, console: Console) -> None:
        """Print the text and the tables."""
        console.print(self.title, style="bold", markup=False, soft_wrap=True)
        console.print(self.verdict, markup=False, soft_wrap=True)
        for part in self.parts:
            if isinstance(part, Sheet):
                console.print()
                console.print(part.title, style="bold", markup=False, soft_wrap=True)
                console.print(part.to_rich())
            elif isinstance(part, str):
                console.print(_without_markdown(part), markup=False, soft_wrap=True)


def number_of(name: str) -> str:
    """`Table 3` for table3, `Figure 14` for fig14, and `Timing` for timing."""
    for short, word in (("table", "Table"), ("fig", "Figure")):
        if name.startswith(short):
            return f"{word} {name.removeprefix(short)}"
    return name.capitalize()


def _without_markdown(text: str) -> str:
    return text.replace("`", "").replace("**", "")


def page_figure(panels: Sequence[Panel], columns: int, height: float, title: str) -> Figure:
    """A figure of these panels at the width of a page; `height` is that of a panel in inches."""
    return arrange(panels, WIDTHS["full"], columns=columns, height=height, title=title)


def not_run(axis: Axes) -> None:
    """Draw a panel whose runs are missing."""
    axis.text(0.5, 0.5, "not run", ha="center", va="center", transform=axis.transAxes, color=GREY)
    axis.set_facecolor(MISSING)
    axis.set_xticks([])
    axis.set_yticks([])
