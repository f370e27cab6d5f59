"""`skerry run`, and what goes with a single study: new, schema, show."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.commands.options import (
    STOPPED,
    Again,
    AsJson,
    Device,
    ExperimentFile,
    Precision,
    Settings,
    Track,
    read_experiment,
    with_precision,
)
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.analysis.results import Results
    from skerry.report.progress import RunWatcher

DEFAULT_COMPARE = "s2s,s2a,blend"
DEFAULT_SEEDS = 5


def run(
    file: ExperimentFile = None,
    settings: Settings = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Primitives to run side by side, such as s2s,s2a,blend:0.25,none."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds, counted on from the experiment's own."),
    ] = None,
    device: Device = "auto",
    precision: Precision = None,
    out: Annotated[Path, typer.Option(help="Where records and pictures go.")] = Path("runs"),
    again: Again = False,
    track: Track = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment: a table, pictures, and records to come back to."""
    from skerry.report.progress import watch

    experiment = read_experiment(file, with_precision(settings, precision))
    plain = file is not None or "primitive" in experiment.server.model_fields_set
    primitives = compare if compare is not None else ("" if plain else DEFAULT_COMPARE)
    try:
        # What plug-ins print must not come between the results.
        with redirect_stdout(sys.stderr), watch() as watcher:
            from skerry.runs.run import run as run_experiments

            results = run_experiments(
                experiment,
                compare=[name for name in primitives.split(",") if name.strip()],
                seeds=seeds or (1 if file else DEFAULT_SEEDS),
                device=device,
                out=out,
                again=again,
                watcher=watcher,
                trackers=track or (),
            )
    except KeyboardInterrupt:
        typer.echo(STOPPED, err=True)
        raise typer.Exit(130) from None
    if as_json:
        json.dump(results.to_json(), sys.stdout, allow_nan=False)
        sys.stdout.write("\n")
        return
    _tell(results)
    _point_out(out, _pictures(watcher, results, out), watcher.reused)


def new() -> None:
    """Print a complete, commented experiment: skerry new > experiment.toml"""
    from skerry.experiment import Experiment

    typer.echo(Experiment().to_toml(comments=True), nl=False)


def schema() -> None:
    """Print the JSON schema of experiments, for editors."""
    from skerry.experiment import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))


def show(
    path: Annotated[Path, typer.Argument(help="A folder that holds records.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what is recorded in a folder: every study as a table."""
    from skerry.analysis.results import recorded

    studies = recorded(path)
    if as_json:
        lanes = [lane for results in studies for lane in results.to_json()["lanes"]]
        typer.echo(json.dumps({"lanes": lanes}, allow_nan=False))
        return
    if not studies:
        typer.echo(f"No runs are recorded in {path}.")
    for results in studies:
        _tell(results)


def _pictures(watcher: "RunWatcher", results: "Results", out: Path) -> list[Path]:
    try:
        return watcher.draw(results, out)
    except OSError as error:
        raise SkerryError(
            f"cannot write the pictures to {out} ({error.strerror}). The results are recorded: "
            f"skerry show {out}"
        ) from error


def _tell(results: "Results") -> None:
    from rich.console import Console
    from rich.markup import escape

    from skerry.report.table import summary, verdicts
    from skerry.report.words import study_in_words

    experiments = [lane.experiment for lane in results]
    console = Console(soft_wrap=True)
    name, study = escape(experiments[0].name), escape(study_in_words(experiments))
    console.print(f"[bold]{name}[/]: {study}", highlight=False)
    console.print(summary(results))
    for line in verdicts(results):
        console.print(line, highlight=False)


def _point_out(out: Path, pictures: list[Path], reused: int) -> None:
    from skerry.report.words import plural

    if reused:
        taken = plural(reused, "finished run")
        typer.echo(f"{taken} taken from {out} (--again computes anew).")
    typer.echo(f"Pictures: {', '.join(map(str, pictures))}. Records: {out}/skerry.sqlite.")
    typer.echo(
        "Try next: skerry run --set data.intra=dirichlet    "
        "or your own: skerry new > mine.toml && skerry run mine.toml"
    )
