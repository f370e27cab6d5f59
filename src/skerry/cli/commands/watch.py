"""`skerry watch`: show the progress of a sweep that another process computes."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import AsJson, Folder, print_json


def watch(
    folder: Folder = Path("runs"),
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds between two looks.")
    ] = 2.0,
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="Measure that ranks the cells.",
            show_default="average_accuracy and own_accuracy",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Print the current state once and exit; the default in a pipe and with --json.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a sweep: progress, speed, time left, and the best cells so far.

    Ends when the sweep is done (exit code 0), or when it has stopped with runs left (exit code 1).
    Ctrl-C ends the view at any time; the sweep continues.
    """
    from skerry.report.screens.watch import render, show_live
    from skerry.report.text import PAGE, console
    from skerry.report.watched import WatchedFolder

    watched, screen = WatchedFolder(folder, measure), console(fold_at=PAGE)
    if as_json:
        print_json(watched.look().to_json())
    elif once or not screen.is_terminal:
        screen.print(render(watched.look()))
    else:
        try:
            last = show_live(watched, screen, every)
        except KeyboardInterrupt:
            return
        raise typer.Exit(1 if last.state == "stopped" else 0)
