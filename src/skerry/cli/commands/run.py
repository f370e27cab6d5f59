"""`skerry run`, `skerry show` and `skerry schema`."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands import options
from skerry.errors import SkerryError, printable, typed
from skerry.plugins import registry

DEFAULT_COMPARE = "s2s,s2a,blend"
DEFAULT_SEEDS = 5


def _complete_names(incomplete: str) -> list[str]:
    """Lists of primitives and presets that begin with the incomplete one, for the shell."""
    from skerry.config.presets import PRESETS

    before, comma, last = incomplete.rpartition(",")
    names = (*registry.PRIMITIVES, *PRESETS)
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def run_command(
    context: typer.Context,
    file: options.ExperimentFile = None,
    settings: options.Settings = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help=f"Primitives to compare, of {', '.join(registry.PRIMITIVES)}, such as "
            "s2s,s2a,blend:0.25; or presets, such as tt_hf,gossip_pga.",
            autocompletion=_complete_names,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of seeds, starting with the experiment's own.",
            show_default="5 without a file, 1 with one",
        ),
    ] = None,
    device: options.Device = "auto",
    ranks: options.RankCount = None,
    precision: options.Precision = None,
    out: options.Out = Path("runs"),
    again: options.Again = False,
    keep_models: Annotated[
        bool,
        typer.Option(
            "--keep-models", help="Record the final models of all devices too, for skerry export."
        ),
    ] = False,
    deterministic: options.Deterministic = False,
    track: options.Track = None,
    as_json: options.AsJson = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the memory needed and what each rank would hold; run nothing."
        ),
    ] = False,
) -> None:
    """Run an experiment: print a table, draw pictures and record the runs."""
    from skerry.report.screens.progress import show_progress

    experiment = options.read_experiment(file, options.with_precision(settings, precision))
    one_primitive = file is not None or "primitive" in experiment.server.model_fields_set
    default = "" if one_primitive else DEFAULT_COMPARE
    primitives = options.split_names([default if compare is None else compare])
    seeds = seeds or (1 if file else DEFAULT_SEEDS)
    if dry_run:
        from skerry.report.screens.sweep import print_rank_plan
        from skerry.runs.forecast import plan_ranks
        from skerry.runs.variants import expand

        plan = plan_ranks(expand(experiment, primitives, seeds), ranks, device)
        if as_json:
            options.print_json(asdict(plan))
        else:
            print_rank_plan(plan)
        return
    if ranks is not None and not _is_rank(ranks):
        _launch_ranks(ranks, context.obj)
    hint = "The same command continues from the last checkpoint."
    with options.computing(hint), show_progress() as display:
        from skerry.runs.run import run as run_experiments

        results = run_experiments(
            experiment,
            compare=primitives,
            seeds=seeds,
            device=device,
            out=out,
            again=again,
            progress=display,
            trackers=track or (),
            keep_models=keep_models,
            deterministic=deterministic,
        )
    if not results:  # another rank has them
        return
    if as_json:
        options.print_json(results.to_json())
        return
    from skerry.report.screens.run import print_run, save_figures

    print_run(results)
    try:
        files = save_figures(results, out)
    except OSError as error:
        raise SkerryError(
            f"cannot write the pictures to {out} ({error.strerror}). The results are recorded: "
            f"skerry show {typed(out)}"
        ) from error
    options.print_reused(display.reused, out)
    typer.echo(f"Pictures: {', '.join(map(str, files))}. Records: {out}/skerry.sqlite.")
    by_device = results[0].experiment.data.split == "given"
    same = f"run {typed(file)}" if file else "run"
    suggestion = (
        f"results {typed(out)} --devices" if by_device else f"{same} --set data.intra=dirichlet"
    )
    typer.echo(
        f"Try next: skerry {suggestion}    "
        "or your own: skerry new > mine.toml && skerry run mine.toml"
    )


def schema_command() -> None:
    """Print the JSON schema of experiment files, for editors."""
    from skerry.config.experiment import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))


def show_command(folder: options.Folder = Path("runs"), as_json: options.AsJson = False) -> None:
    """Print the recorded runs of a folder, a table for each study."""
    from skerry.analysis.results import read_studies
    from skerry.report.screens.run import list_keys, print_run, tell_studies_apart

    studies = read_studies(folder)
    if as_json:
        options.print_json({"lanes": [lane.to_json() for results in studies for lane in results]})
        return
    if not studies:
        typer.echo(f"No runs are recorded in {folder}.")
    for results, apart in zip(studies, tell_studies_apart(studies), strict=True):
        print_run(results, apart)
        typer.echo(list_keys(results))


def _is_rank(ranks: int) -> bool:
    """Whether this process is already one of the ranks; raises if their number is another."""
    from skerry.runs.executors.ranks import is_rank

    if not is_rank():
        return False
    started = int(os.environ["WORLD_SIZE"])
    if started != ranks:
        raise SkerryError(
            f"--ranks must be {started}, the number that torchrun has started (got {ranks}). Leave "
            "--ranks out."
        )
    return True


def _launch_ranks(ranks: int, arguments: Sequence[str]) -> None:
    """Run the same command on several ranks, and exit with their exit code."""
    import torch

    from skerry.runs.launch import launch

    threads = max(1, torch.get_num_threads() // ranks)
    code, line = launch(ranks, arguments, threads)
    if line:
        typer.echo(f"error: {printable(line)}", err=True)
    raise typer.Exit(code)
