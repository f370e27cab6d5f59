"""`skerry watch`: look at a running sweep from another terminal, without disturbing it."""

import json
from pathlib import Path
from typing import Annotated

import typer


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The folder that the sweep records in.")
    ] = Path("runs"),
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
        bool, typer.Option("--once", help="Look once, print it, and leave; so it is in a pipe.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Look once; print one JSON object, and nothing else.")
    ] = False,
) -> None:
    """Watch a sweep: how far it is, how fast, how long it takes yet, and what is best so far.

    Leaves by itself when the sweep is done (exit code 0), or when nobody is working on it any more
    and runs are left (exit code 1). Ctrl-C leaves at any time; the sweep goes on.
    """
    from skerry.report.snapshot import Watched
    from skerry.report.theory_tables import console
    from skerry.report.watch import follow, render

    watched, screen = Watched(folder, measure), console()
    if as_json:
        typer.echo(json.dumps(watched.look().to_json(), allow_nan=False))
    elif once or not screen.is_terminal:
        screen.print(render(watched.look()))
    else:
        try:
            last = follow(watched, screen, every)
        except KeyboardInterrupt:
            return
        raise typer.Exit(1 if last.state == "stopped" else 0)
