"""`skerry results`: tables, paired tests and exports from a folder of records."""

import json
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.commands.options import AsJson, Folder, cannot_write, names, print_json
from skerry.errors import SkerryError
from skerry.files import replace_file

if TYPE_CHECKING:
    import pandas as pd

    from skerry.analysis.cells import ComparedCells
    from skerry.report.text import Sheet

STDOUT = Path("-")


def results(
    folder: Folder = Path("runs"),
    measure: Annotated[
        str | None,
        typer.Option(help="What to look at.", show_default="average_accuracy"),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="R", help="Mean over the last R rounds.", show_default="the final value"
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELDS",
            help="Fields that tell cells apart, such as server.period,topology; others are "
            "averaged over.",
            show_default="all that vary",
        ),
    ] = None,
    best: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Take each primitive at its best value of a field, such as training.stepsize.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PRIMITIVE", help="What the others are compared with.", show_default="s2a"
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Level of the tests, all of them together.")
    ] = 0.05,
    devices: Annotated[
        bool,
        typer.Option(
            "--devices",
            help="What single devices scored at the end, by island and the worst first, instead.",
        ),
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a row per cell and primitive; - is stdout."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the same rows; needs the extra parquet."),
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables for booktabs.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tables over seeds: every cell's mean and interval, and primitives compared seed by seed."""
    if devices:
        _check_alone(measure=measure, last=last, by=by, best=best, against=against)
        _tell_devices(folder, csv, parquet, latex, markdown, as_json)
        return
    from skerry.analysis.run_table import results as answers_of

    asked = [(csv, to_csv), (parquet, to_parquet), (latex, to_latex), (markdown, to_markdown)]
    exports = [(file, content) for file, content in asked if file is not None]
    to_stdout = _count_stdout(as_json, [file for file, _ in exports])
    answers = answers_of(
        folder,
        measure,
        last=last,
        by=list(names([by])) if by is not None else None,
        best=best,
        against=against,
        level=level,
    )
    for file, content in exports:
        write(file, content(answers))
    if as_json:
        print_json(to_json(answers))
    if not to_stdout:
        from skerry.report.screens.results import print_results

        print_results(answers)
    for file, _ in exports:
        if file != STDOUT:
            typer.echo(f"Wrote {file}.", err=bool(to_stdout))


def _check_alone(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise SkerryError(
                f"--devices shows what single devices scored at the end; --{name} has no part in "
                "that. Leave one out."
            )


def _count_stdout(as_json: bool, files: list[Path]) -> int:
    to_stdout = as_json + sum(file == STDOUT for file in files)
    if to_stdout > 1:
        raise SkerryError(
            f"only one output can go to stdout (got {to_stdout}). Name a file for the others."
        )
    return to_stdout


def _tell_devices(
    folder: Path,
    csv: Path | None,
    parquet: Path | None,
    latex: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> None:
    from skerry.analysis import frame
    from skerry.analysis.device_results import devices as devices_of
    from skerry.report.screens.results import device_notes, device_sheets, print_devices

    to_stdout = _count_stdout(as_json, [one for one in (csv, parquet, latex, markdown) if one])
    found = devices_of(folder)
    sheets, notes = device_sheets(found), device_notes(found)
    contents: list[tuple[Path | None, Callable[[], bytes]]] = [
        (csv, lambda: frame.csv_bytes(found.frame)),
        (parquet, lambda: _parquet(found.frame)),
        (latex, lambda: _booktabs(sheets)),
        (markdown, lambda: "\n".join([*(s.to_markdown() for s in sheets), *notes, ""]).encode()),
    ]
    files = [(file, content) for file, content in contents if file is not None]
    for file, content in files:
        write(file, content())
    if as_json:
        rows = json.loads(found.frame.to_json(orient="records", double_precision=15))
        print_json({"fields": found.fields, "rows": rows, "notes": notes})
    if not to_stdout:
        print_devices(found)
    for file, _ in files:
        if file != STDOUT:
            typer.echo(f"Wrote {file}.", err=bool(to_stdout))


def to_csv(answers: "ComparedCells") -> bytes:
    from skerry.analysis import frame

    return frame.csv_bytes(answers.frame())


def to_parquet(answers: "ComparedCells") -> bytes:
    return _parquet(answers.frame())


def _parquet(frame: "pd.DataFrame") -> bytes:
    content = BytesIO()
    try:
        frame.to_parquet(content, engine="pyarrow", index=False)
    except ImportError:
        raise SkerryError(
            "Parquet files need the package pyarrow. Install it: pip install 'skerry[parquet]'"
        ) from None
    return content.getvalue()


def to_latex(answers: "ComparedCells") -> bytes:
    from skerry.report.screens.results import results_sheets

    return _booktabs(results_sheets(answers))


def _booktabs(sheets: "list[Sheet]") -> bytes:
    tables = [sheet.to_latex() for sheet in sheets]
    return "\n".join(["% \\usepackage{booktabs}", *tables]).encode()


def to_markdown(answers: "ComparedCells") -> bytes:
    from skerry.report.screens.results import results_notes, results_sheets, results_summary

    tables = [sheet.to_markdown() for sheet in results_sheets(answers)]
    return "\n".join([*tables, *results_summary(answers), *results_notes(answers), ""]).encode()


def to_json(answers: "ComparedCells") -> dict[str, Any]:
    """What is not a number is null."""
    from skerry.report.screens.results import results_notes, results_summary

    return {
        "measure": answers.cells.measure,
        "last": answers.cells.last,
        "fields": answers.cells.fields,
        "against": answers.against,
        "level": answers.level,
        "rows": json.loads(answers.frame().to_json(orient="records", double_precision=15)),
        "summary": results_summary(answers),
        "notes": results_notes(answers),
    }


def write(file: Path, content: bytes) -> None:
    """To stdout, or as a whole file."""
    if file == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        replace_file(file, content)
    except OSError as error:
        raise cannot_write(file, error) from None
