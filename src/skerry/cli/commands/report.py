"""`skerry report`: one page about a folder of records."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="A folder that holds records.")
    ] = Path("runs"),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where the page goes.", show_default="report.html in the folder"
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one interactive page that explains what was run: no network, no other file."""
    from skerry.report.page.build import write_report

    file = write_report(folder, out)
    typer.echo(f"Wrote {file} ({file.stat().st_size / 1e6:.1f} MB).")
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
