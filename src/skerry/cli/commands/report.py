"""`skerry report`: write an HTML page about recorded runs."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import Folders, option


def report_command(
    folders: Folders = None,
    out: Annotated[
        Path | None, option("The page to write.", "FILE", "report.html in the folder, or here")
    ] = None,
    clock: Annotated[
        list[str] | None,
        option(
            "Add seconds, joules and a timeline under a clock: a TOML file, or an example such as "
            "wifi_home; repeatable.",
            "CLOCK",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write an interactive HTML page about recorded runs: one file that works offline."""
    from skerry.report.page.build import write_report

    file = write_report(folders or [Path("runs")], out, clock)
    typer.echo(f"Wrote {file} ({file.stat().st_size / 1e6:.1f} MB).")
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
