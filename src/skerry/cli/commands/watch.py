"""`skerry watch`: look at a running sweep from another terminal, without disturbing it."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import AsJson, Folder, print_json


def watch(
    folder: Folder = Path("runs"),
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How often to look.")
    ] = 2.0,
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="What the best cells are best by.",
            show_default="average_accuracy and own_accuracy",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Look once, print it, and leave; so it is in a pipe, and with --json."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a sweep: how far it is, how fast, how long it takes yet, and what is best so far.

    Leaves by itself when the sweep is done (exit code 0), or when nobody is working on it any more
    and runs are left (exit code 1). Ctrl-C leaves at any time; the sweep goes on.
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
