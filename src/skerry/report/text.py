"""Text on screens and pages: numbers, plurals, durations, tables, and the console."""

import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from skerry.config.measures import traits
from skerry.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from skerry.analysis.statistics import Estimate

NOTHING = "-"
PAGE = 100  # the line length of longer texts, in letters
UNFOLDED = 10_000


def format_measure(measure: str, value: float, sign: Literal["+", "-"] = "-") -> str:
    """A value of a measure as text: accuracies to a hundredth of a percent, counts whole, others to
    four digits. With sign "+", values that are not negative have a plus."""
    return format(value, sign + _styles(measure)[0])


def format_estimate(measure: str, found: "Estimate", sign: Literal["+", "-"] = "-") -> str:
    """A mean and half of its 95 % interval, `91.24 ± 0.31`, unless all seeds agree."""
    return format_mean(measure, found.mean if found.count else math.nan, found.half_width, sign)


def format_mean(measure: str, mean: float, half: float, sign: Literal["+", "-"] = "-") -> str:
    """As `format_estimate`, from the numbers; NaN is no mean."""
    style, error_style = _styles(measure)
    return (
        NOTHING if math.isnan(mean) else plus_minus(mean, half or None, sign + style, error_style)
    )


ROUNDING = 1e-12
"""Relative: a smaller interval is a rounding error."""


def plus_minus(
    value: float, error: float | None, style: str = ".4g", error_style: str = ".2g"
) -> str:
    """`0.8712 ± 0.021`, without the error if it is unknown, as with one seed."""
    mean = format(value, style)
    if error is None or not math.isfinite(error) or 0 < error <= ROUNDING * abs(value):
        return mean
    return f"{mean} ± {error:{error_style}}"


def number(value: Any) -> str:
    """A number as text, whole up to seven digits, else with four; tuples are joined by +."""
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    x = math.nan if value is None else float(value)
    if not math.isfinite(x):
        return NOTHING if math.isnan(x) else "infinite"
    if x >= 1e7:
        return f"{x:.3e}"
    return f"{x:,.0f}" if x >= 1e3 or x == int(x) else f"{x:.4g}"


def plural(count: int, noun: str, several: str = "") -> str:
    """A count with its noun: `1 seed`, `3 seeds`, `2 losses`."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def seed_words(seeds: Iterable[int]) -> str:
    """Seeds by their numbers: `seed 0`, `seeds 0 to 4`, `seeds 0, 1, 7`."""
    found = sorted(set(seeds))
    words = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
    if len(found) > 2 and found[-1] - found[0] == len(found) - 1:
        words = f"{found[0]} to {found[-1]}"
    return f"seed{'' if len(found) == 1 else 's'} {words}"


def duration(seconds: float) -> str:
    """A duration as text: `40 s`, `12 min`, `2 h 10 min`, `3 days`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{round(minutes / 60 / 24)} days"


def size(count: float, unit: Literal["MB", "GB"] = "MB", digits: int = 1) -> str:
    """A number of bytes as text: `11.5 MB`."""
    return f"{count / {'MB': 1e6, 'GB': 1e9}[unit]:,.{digits}f} {unit}"


def _styles(measure: str) -> tuple[str, str]:
    """The formats of a measure's values and of their errors."""
    row = traits(measure)
    if row.is_percent:
        return "z.2f", ".2f"
    return ("z,.0f", ",.0f") if row.is_count else ("z#.4g", "#.2g")


def console(fold_at: int | None = None) -> "Console":
    """A rich console that folds lines at the edge of a terminal, elsewhere only at `fold_at`."""
    found = safe_console(highlight=False, soft_wrap=fold_at is None)
    if not found.is_terminal:
        found.width = fold_at or UNFOLDED
    return found


def safe_console(**options: Any) -> "Console":
    """A rich console that no text can command: control characters are written out."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *arguments: Any, **named: Any) -> Iterator[Segment]:
            for segment in super().render(*arguments, **named):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(printable(segment.text, keep="\n"), segment.style)

    return SafeConsole(emoji=False, **options)


def say(line: str) -> None:
    """Print a line on stderr, so that stdout has only results."""
    print(printable(line), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Sheet:
    """A table of texts, which can be shown on a terminal or written as Markdown or LaTeX."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sides: str  # for each column l (left, for words) or r (right, for numbers)

    def to_rich(self) -> "Table":
        from rich.markup import escape

        table = empty_table()
        for name, side in zip(self.header, self.sides, strict=True):
            if side == "l":
                table.add_column(escape(name), overflow="fold")
            else:
                table.add_column(escape(name), justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def to_markdown(self) -> str:
        marks = ["---" if side == "l" else "---:" for side in self.sides]
        lines = [_piped(self.header), _piped(marks), *map(_piped, self.rows)]
        return f"**{printable(self.title)}**\n\n" + "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """The table as a LaTeX tabular for the package booktabs."""
        start = f"% {printable(self.title)}\n" + rf"\begin{{tabular}}{{@{{}}{self.sides}@{{}}}}"
        head, rows = _latex_row(self.header), map(_latex_row, self.rows)
        lines = [start, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines) + "\n"


def plain_table(*columns: str, left: Collection[str] = (), bold: bool = False) -> "Table":
    """An empty table for a terminal whose cells are not folded. The first column and those in
    `left` are flush left; `bold` makes the first column bold."""
    table = empty_table()
    for place, column in enumerate(columns):
        table.add_column(
            column,
            justify="left" if place == 0 or column in left else "right",
            style="bold" if bold and place == 0 else "",
            no_wrap=True,
        )
    return table


def empty_table(**options: Any) -> "Table":
    """An empty table in the style of all tables on a terminal."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), **options)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$",
}  # fmt: skip
_LATEX_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))
_NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")


def latex(text: str) -> str:
    """Text for LaTeX: special characters are escaped, minus signs and ± are mathematics."""
    escaped = _LATEX_SPECIAL.sub(lambda found: _LATEX[found[0]], printable(text))
    return _NEGATIVE.sub("$-$", escaped)


def _latex_row(cells: tuple[str, ...]) -> str:
    return " & ".join(map(latex, cells)) + r" \\"


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(printable(cell).replace("|", r"\|") for cell in cells) + " |"
