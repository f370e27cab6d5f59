"""`skerry run`, and what goes with a single study: schema, show."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands.options import (
    Again,
    AsJson,
    Deterministic,
    Device,
    ExperimentFile,
    Folder,
    Out,
    Precision,
    RankCount,
    Settings,
    Track,
    may_be_stopped,
    names,
    print_json,
    read_experiment,
    tell_reused,
    with_precision,
)
from skerry.cli.commands.ranks import is_one_of, run_on, tell_plan
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.analysis.results import Results

DEFAULT_COMPARE = "s2s,s2a,blend"
DEFAULT_SEEDS = 5


def run(
    context: typer.Context,
    file: ExperimentFile = None,
    settings: Settings = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Primitives to run side by side, such as s2s,s2a,blend:0.25,none; or presets, "
            "such as tt_hf,gossip_pga."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds, counted on from the experiment's own."),
    ] = None,
    device: Device = "auto",
    ranks: RankCount = None,
    precision: Precision = None,
    out: Out = Path("runs"),
    again: Again = False,
    deterministic: Deterministic = False,
    track: Track = None,
    as_json: AsJson = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Tell what memory it takes, and what each rank would hold; run nothing.",
        ),
    ] = False,
) -> None:
    """Run an experiment: a table, pictures, and records to come back to."""
    from skerry.report.screens.progress import watch_run

    experiment = read_experiment(file, with_precision(settings, precision))
    plain = file is not None or "primitive" in experiment.server.model_fields_set
    primitives = compare if compare is not None else ("" if plain else DEFAULT_COMPARE)
    seeds = seeds or (1 if file else DEFAULT_SEEDS)
    if dry_run:
        tell_plan(experiment, names([primitives]), seeds, ranks, device, as_json)
        return
    if ranks is not None and not is_one_of(ranks):
        run_on(ranks, context.obj)
    with (
        may_be_stopped("The same command goes on from the last checkpoint."),
        redirect_stdout(sys.stderr),  # what plug-ins print must not come between the results
        watch_run() as watcher,
    ):
        from skerry.runs.run import run as run_experiments

        results = run_experiments(
            experiment,
            compare=names([primitives]),
            seeds=seeds,
            device=device,
            out=out,
            again=again,
            watcher=watcher,
            trackers=track or (),
            deterministic=deterministic,
        )
    if not results:  # those of another rank
        return
    if as_json:
        print_json(results.to_json())
        return
    from skerry.report.screens.run import print_run

    print_run(results)
    pictures = _pictures(results, out)
    tell_reused(watcher.reused, out)
    typer.echo(f"Pictures: {', '.join(map(str, pictures))}. Records: {out}/skerry.sqlite.")
    by_device = results[0].experiment.data.split == "given"
    next_one = f"results {out} --devices" if by_device else "run --set data.intra=dirichlet"
    typer.echo(
        f"Try next: skerry {next_one}    "
        "or your own: skerry new > mine.toml && skerry run mine.toml"
    )


def schema() -> None:
    """Print the JSON schema of experiments, for editors."""
    from skerry.config.experiment import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))


def show(folder: Folder = Path("runs"), as_json: AsJson = False) -> None:
    """Show what is recorded in a folder: every study as a table."""
    from skerry.analysis.results import read_studies
    from skerry.report.screens.run import print_run

    studies = read_studies(folder)
    if as_json:
        print_json({"lanes": [lane.to_json() for results in studies for lane in results]})
        return
    if not studies:
        typer.echo(f"No runs are recorded in {folder}.")
    for results in studies:
        print_run(results)


def _pictures(results: "Results", out: Path) -> list[Path]:
    from skerry.report.screens.run import save_figures

    try:
        return save_figures(results, out)
    except OSError as error:
        raise SkerryError(
            f"cannot write the pictures to {out} ({error.strerror}). The results are recorded: "
            f"skerry show {out}"
        ) from error
