"""A table as text: shown on a terminal, written as Markdown or LaTeX."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$",
}  # fmt: skip
_LATEX_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))
_NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")


@dataclass(frozen=True)
class Sheet:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sides: str
    """For each column l or r: words stand left, numbers right."""

    def to_rich(self) -> "Table":
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
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
        return f"**{self.title}**\n\n" + "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """A tabular with the rules of the package booktabs."""
        return "\n".join(
            [
                f"% {self.title}",
                rf"\begin{{tabular}}{{@{{}}{self.sides}@{{}}}}",
                r"\toprule",
                _latex_row(self.header),
                r"\midrule",
                *map(_latex_row, self.rows),
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _latex_row(cells: tuple[str, ...]) -> str:
    return " & ".join(map(latex, cells)) + r" \\"


def latex(text: str) -> str:
    """Words as LaTeX sets them: special characters escaped, minus signs and ± as mathematics."""
    escaped = _LATEX_SPECIAL.sub(lambda found: _LATEX[found[0]], text)
    return _NEGATIVE.sub("$-$", escaped)
