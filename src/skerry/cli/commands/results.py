"""`skerry results`: tables, paired tests and exports of recorded runs."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.commands.options import AsJson, Folders, option, print_json, split_names
from skerry.errors import SkerryError, printable, writing
from skerry.files import replace_file

if TYPE_CHECKING:
    import pandas as pd

    from skerry.report.text import Sheet

STDOUT = Path("-")


def results_command(
    folders: Folders = None,
    measure: Annotated[
        str | None, option("The measure to print.", default="average_accuracy")
    ] = None,
    last: Annotated[
        int | None, option("Take the mean over the last R rounds.", "R", "the final value", min=1)
    ] = None,
    by: Annotated[
        str | None,
        option(
            "Fields that define the cells, such as server.period,topology; other fields are "
            "averaged over.",
            "FIELDS",
            "all that vary",
        ),
    ] = None,
    best: Annotated[
        str | None,
        option(
            "Take each primitive at its best value of a field, such as training.stepsize.", "FIELD"
        ),
    ] = None,
    against: Annotated[
        str | None, option("The primitive to compare the others with.", "PRIMITIVE", "s2a")
    ] = None,
    level: Annotated[
        float, option("Significance level of all tests together.", min=0.0, max=1.0)
    ] = 0.05,
    devices: Annotated[
        bool,
        typer.Option(
            "--devices",
            help="Print final scores of single devices instead, by island, the worst first.",
        ),
    ] = False,
    csv: Annotated[
        Path | None, option("Write a row for each cell and primitive; - is stdout.", "FILE")
    ] = None,
    parquet: Annotated[
        Path | None, option("Write the same rows; needs the extra parquet.", "FILE")
    ] = None,
    latex: Annotated[Path | None, option("Write LaTeX tables (booktabs).", "FILE")] = None,
    markdown: Annotated[Path | None, option("Write Markdown tables.", "FILE")] = None,
    as_json: AsJson = False,
) -> None:
    """Print means and intervals over seeds for every cell, and compare primitives seed by seed."""
    from skerry.report.screens.results import print_sheets

    folders = folders or [Path("runs")]
    files = {"csv": csv, "parquet": parquet, "latex": latex, "markdown": markdown}
    targets = {kind: file for kind, file in files.items() if file is not None}
    to_stdout = as_json + sum(file == STDOUT for file in targets.values())
    if to_stdout > 1:
        raise SkerryError(
            f"only one output can go to stdout (got {to_stdout}). Name a file for the others."
        )
    if devices:
        _check_unused(measure=measure, last=last, by=by, best=best, against=against)
        view = _device_view(folders)
    else:
        fields = list(split_names([by])) if by is not None else None
        view = _cell_view(
            folders, measure, last=last, by=fields, best=best, against=against, level=level
        )
    for kind, file in targets.items():
        _write(file, _export(view, kind))
    if as_json:
        rows = json.loads(view.frame.to_json(orient="records", double_precision=15))  # NaN: null
        print_json({**view.header, "rows": rows, **view.footer})
    if not to_stdout:
        print_sheets(view.sheets, view.sentences)
    for file in targets.values():
        if file != STDOUT:
            typer.echo(f"Wrote {file}.", err=bool(to_stdout))


def _check_unused(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise SkerryError(
                f"--devices shows final scores of single devices and does not use --{name}. Leave "
                "one out."
            )


@dataclass(frozen=True)
class _View:
    """One set of results in every form in which it can be printed or exported."""

    frame: "pd.DataFrame"
    sheets: "list[Sheet]"
    header: Mapping[str, object]
    footer: dict[str, list[str]]  # lists of sentences; in Markdown they follow the tables

    @property
    def sentences(self) -> list[str]:
        return [sentence for part in self.footer.values() for sentence in part]


def _cell_view(folders: list[Path], measure: str | None, **options: Any) -> _View:
    from skerry.analysis.run_table import results
    from skerry.report.screens import results as screen

    answers = results(folders, measure, **options)
    header = {
        "measure": answers.cells.measure,
        "last": answers.cells.last,
        "fields": answers.cells.fields,
        "against": answers.against,
        "level": answers.level,
    }
    notes = screen.results_notes(answers, folders[0])
    footer = {"summary": screen.results_summary(answers), "notes": notes}
    return _View(answers.frame(), screen.results_sheets(answers), header, footer)


def _device_view(folders: list[Path]) -> _View:
    from skerry.analysis.device_results import devices
    from skerry.report.screens import results as screen

    found = devices(folders)
    header, footer = {"fields": found.fields}, {"notes": screen.device_notes(found)}
    return _View(found.frame, screen.device_sheets(found), header, footer)


def _export(view: _View, kind: str) -> bytes:
    """The content of a file with these results."""
    from skerry.analysis.frame import csv_bytes

    if kind == "csv":
        return csv_bytes(view.frame)
    if kind == "latex":
        tables = [sheet.to_latex() for sheet in view.sheets]
        return "\n".join(["% \\usepackage{booktabs}", *tables]).encode()
    if kind == "markdown":
        tables = [sheet.to_markdown() for sheet in view.sheets]
        return "\n".join([*tables, *map(printable, view.sentences), ""]).encode()
    content = BytesIO()
    try:
        view.frame.to_parquet(content, engine="pyarrow", index=False)
    except ImportError:
        raise SkerryError(
            "Parquet files need the package pyarrow. Install it: pip install 'skerry[parquet]'"
        ) from None
    return content.getvalue()


def _write(file: Path, content: bytes) -> None:
    """Write to stdout, or replace a file in one step."""
    if file == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    with writing(file):
        replace_file(file, content)
