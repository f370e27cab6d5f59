"""`skerry report`: write an HTML page about recorded runs."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import Folder, option


def report_command(
    folder: Folder = Path("runs"),
    out: Annotated[
        Path | None, option("The page to write.", "FILE", "report.html in the folder")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write an interactive HTML page about recorded runs: one file that works offline."""
    from skerry.report.page.build import write_report

    file = write_report(folder, out)
    typer.echo(f"Wrote {file} ({file.stat().st_size / 1e6:.1f} MB).")
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
