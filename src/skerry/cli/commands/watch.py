"""`skerry watch`: show the progress of a running sweep in another terminal."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import AsJson, Folder, option, print_json


def watch_command(
    folder: Folder = Path("runs"),
    every: Annotated[float, option("Time between updates.", "SECONDS", min=0.1)] = 2.0,
    measure: Annotated[
        str | None,
        option(
            "Measure by which the best cells are chosen.", "M", "average_accuracy and own_accuracy"
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Print the progress once and exit; default in a pipe and with --json."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a running sweep, its speed, the time left and the best cells so far.

    Exits when the sweep is finished (exit code 0), or when no process works on it any more and runs
    are missing (exit code 1). Ctrl-C exits at any time and does not stop the sweep.
    """
    from skerry.report.screens.watch import render, show_live, verdict
    from skerry.report.text import PAGE, console
    from skerry.report.watched import WatchedFolder

    watched, screen = WatchedFolder(folder, measure), console(fold_at=PAGE)
    if as_json:
        print_json((last := watched.look()).to_json())
    elif once or not screen.is_terminal:
        screen.print(render(last := watched.look()))
    else:
        try:
            last = show_live(watched, screen, every)
        except KeyboardInterrupt:
            return
    if last.state != "working" and not as_json:  # not folded: the line may end with a command
        screen.print(verdict(last), style="bold", markup=False, soft_wrap=True)
    raise typer.Exit(1 if last.state == "stopped" else 0)
