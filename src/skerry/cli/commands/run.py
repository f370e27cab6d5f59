"""`skerry run`, `skerry show` and `skerry schema`."""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands import options
from skerry.errors import SkerryError, printable, skerry_command, typed
from skerry.plugins import registry

if TYPE_CHECKING:
    from skerry.config.experiment import Experiment

DEFAULT_COMPARE = ("s2s", "s2a", "blend")
FILE_COMPARE = ("s2s", "s2a", "none")
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
    rounds: options.Rounds = None,
    devices: options.Devices = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help=f"Primitives to compare, of {', '.join(registry.PRIMITIVES)}, such as "
            "s2s,s2a,blend:0.25; or presets, such as tt_hf,gossip_pga.",
            autocompletion=_complete_names,
            show_default="the one that is set, else s2s,s2a,none with a file and s2s,s2a,blend "
            "without",
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
            "--dry-run",
            help="Print the expected time and memory, or what each rank would hold; run nothing.",
        ),
    ] = False,
) -> None:
    """Run an experiment: print a table, draw pictures and record the runs."""
    from skerry.report.screens.progress import show_progress

    settings = options.with_short_forms(
        settings, rounds=rounds, devices=devices, precision=precision
    )
    with options.other_command(seeds=seeds, out=out):
        experiment = options.read_experiment(file, settings)
    one_primitive = compare is None and "primitive" in experiment.server.model_fields_set
    primitives = options.split_names([compare or ""])
    if compare is None and not one_primitive:
        primitives = _comparable(experiment, FILE_COMPARE) if file else DEFAULT_COMPARE
    seeds = seeds or (1 if file else DEFAULT_SEEDS)
    if dry_run:
        from skerry.report.screens.sweep import print_run_plan
        from skerry.runs.executors.executor import open_executor
        from skerry.runs.forecast import forecast, plan_ranks
        from skerry.runs.variants import expand

        runs = expand(experiment, primitives, seeds)
        plan, expected = plan_ranks(runs, ranks, device), None
        if ranks is None:
            place = open_executor(None, device=device)
            expected = forecast(runs, place, out, device, deterministic)
        if as_json:
            options.print_json((asdict(expected) if expected else {}) | asdict(plan))
        else:
            print_run_plan(plan, expected, out)
        return
    if ranks is not None and not _is_rank(ranks):
        _launch_ranks(ranks, context.obj)
    same = "The same command without --again" if again else "The same command"
    hint = f"{same} continues from the last checkpoint."
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
    from skerry.config.labels import command_line_label
    from skerry.report.screens.run import print_run, save_figures

    print_run(results)
    try:
        files = save_figures(results, out)
    except OSError as error:
        raise SkerryError(
            f"cannot write the pictures to {out} ({error.strerror}). The results are recorded: "
            f"{skerry_command('show', out)}"
        ) from error
    options.print_reused(display.reused, out)
    typer.echo(f"Pictures: {', '.join(map(str, files))}. Records: {out}/skerry.sqlite.")
    server = experiment.server
    own = server.name, command_line_label(server.primitive, server.beta)
    names = _comparable(experiment, (*own, *FILE_COMPARE))
    if one_primitive and len(names) > 1:
        typer.echo(f"Compare: {_same_command(context.obj, compare=','.join(names))}")
    data, suggestion = experiment.data, skerry_command("report", out)
    if data.split == "given":
        suggestion = skerry_command("results", out, devices=True)
    elif data.intra == "iid":
        suggestion = _same_command(context.obj, set="data.intra=dirichlet")
    if not file and not (mine := Path("mine.toml")).exists():
        new = f"{skerry_command('new')} > {mine} && {skerry_command('run', mine)}"
        suggestion += f"    or your own: {new}"
    typer.echo(f"Try next: {suggestion}")


def _comparable(experiment: "Experiment", names: Iterable[str]) -> tuple[str, ...]:
    """The primitives and presets of these that the experiment can be run with, each once."""
    from skerry.runs.variants import variant

    found = []
    for name in dict.fromkeys(names):
        with suppress(SkerryError):  # such as a method that needs a server
            variant(experiment, name)
            found.append(name)
    return tuple(found)


def _same_command(words: Sequence[str], **more: str) -> str:
    """The command that was typed, with further options."""
    kept = [word for word in words if word not in ("--again", "--debug")]
    end = kept.index("--") if "--" in kept else len(kept)
    return " ".join([skerry_command(*kept[:end], **more), *map(typed, kept[end:])])


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
