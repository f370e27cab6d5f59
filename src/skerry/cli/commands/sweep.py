"""`skerry sweep`: a grid of runs from one file, on this machine or on many."""

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
    ExecutorName,
    Out,
    Precision,
    RayAddress,
    Settings,
    Track,
    Workers,
    may_be_stopped,
    print_json,
    tell_reused,
    with_precision,
)
from skerry.cli.commands.plug_ins import find_plug_ins

if TYPE_CHECKING:
    from skerry.analysis.results import Results
    from skerry.runs.sweep import Sweep


def sweep(
    file: Annotated[
        Path,
        typer.Argument(help="An experiment (TOML) with the tables sweep and sweep.axes."),
    ],
    settings: Settings = None,
    executor: ExecutorName = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    device: Device = "auto",
    precision: Precision = None,
    out: Out = Path("runs"),
    again: Again = False,
    deterministic: Deterministic = False,
    track: Track = None,
    as_json: AsJson = False,
    history: Annotated[
        bool, typer.Option("--history", help="With --json: every round, not only the last values.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Tell what would be run, and for how long; run nothing."),
    ] = False,
) -> None:
    """Run a grid of experiments: stop at any time, the same command goes on."""
    how = "The same command without --again" if again else "The same command"
    with may_be_stopped(f"Finished runs are in {out}. {how} goes on."):
        from skerry.runs.materials import sized_sweep
        from skerry.runs.sweep import Sweep

        find_plug_ins(file)
        asked = sized_sweep(Sweep.load(file, with_precision(settings, precision)))
        if dry_run:
            _forecast(asked, executor, workers, device, ray_address, out, deterministic, as_json)
            return

        from skerry.report.screens.progress import watch_sweep
        from skerry.runs.run import run

        # What plug-ins print, and Ray when a worker dies, must not come between the results.
        with redirect_stdout(sys.stderr), watch_sweep(asked.tune_by) as watcher:
            results = run(
                asked,
                out=out,
                executor=executor,
                workers=workers,
                device=device,
                ray_address=ray_address,
                again=again,
                watcher=watcher,
                trackers=track or (),
                deterministic=deterministic,
            )
    if as_json:
        print_json(_to_json(asked, results, history))
    else:
        from skerry.report.screens.sweep import print_sweep

        print_sweep(asked, results)
        tell_reused(watcher.reused, out)
        typer.echo(f"Records: {out}/skerry.sqlite.")
        typer.echo(f"Look closer: skerry results {out}    or every study: skerry show {out}")
    _end(results)


def _to_json(sweep: "Sweep", results: "Results", history: bool) -> dict[str, object]:
    from skerry.runs.stages import choices

    table = results.to_json(history)
    if sweep.tune:
        table["tuned"] = [
            {**dict(choice.cell), sweep.tune: choice.value} for choice in choices(sweep, results)
        ]
    return table


def _end(results: "Results") -> None:
    failed = [lane for lane in results if lane.status == "failed"]
    if failed:
        typer.echo(
            f"{len(failed):,} of {len(results):,} runs failed: {failed[0].note} The same command "
            "tries them again.",
            err=True,
        )
        raise typer.Exit(1)


def _forecast(
    sweep: "Sweep",
    executor: str | None,
    workers: int | None,
    device: str,
    ray_address: str | None,
    out: Path,
    deterministic: bool,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from skerry.report.screens.sweep import print_forecast
    from skerry.runs.executors.executor import open_executor
    from skerry.runs.forecast import forecast

    place = open_executor(executor, device=device, workers=workers, address=ray_address)
    found = forecast(sweep, place, out, device, deterministic)
    if as_json:
        print_json(asdict(found))
    else:
        print_forecast(found, out)
