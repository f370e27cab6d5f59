"""`skerry sweep`: a grid of runs from one file, on this machine or on many."""

import json
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.commands.options import (
    Again,
    AsJson,
    Device,
    ExecutorName,
    Precision,
    RayAddress,
    Settings,
    Track,
    Workers,
    with_precision,
)
from skerry.commands.plug_ins import find_plug_ins

if TYPE_CHECKING:
    from skerry.analysis.results import Results
    from skerry.report.progress import SweepWatcher
    from skerry.runs.sweep import Sweep


def sweep(
    file: Annotated[
        Path, typer.Argument(help="An experiment (TOML) with [sweep] and [sweep.axes].")
    ],
    settings: Settings = None,
    executor: ExecutorName = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    device: Device = "auto",
    precision: Precision = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where records go.")] = Path("runs"),
    again: Again = False,
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
    from skerry.runs.sweep import Sweep

    try:
        find_plug_ins(file)
        asked = Sweep.load(file, with_precision(settings, precision))
        if dry_run:
            _forecast(asked, executor, workers, device, ray_address, out, as_json)
            return

        from skerry.report.progress import watch_sweep
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
            )
    except KeyboardInterrupt:
        how = "The same command without --again" if again else "The same command"
        typer.echo(f"\nStopped. Finished runs are in {out}. {how} goes on.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        json.dump(_to_json(asked, results, history), sys.stdout, allow_nan=False)
        sys.stdout.write("\n")
    else:
        _tell(asked, results, watcher, out)
    _end(results)


def _to_json(sweep: "Sweep", results: "Results", history: bool) -> dict[str, object]:
    from skerry.runs.stages import choices

    table = results.to_json(history)
    if sweep.tune:
        table["tuned"] = [
            {**dict(choice.cell), sweep.tune: choice.value} for choice in choices(sweep, results)
        ]
    return table


def _tell(sweep: "Sweep", results: "Results", watcher: "SweepWatcher", out: Path) -> None:
    from rich.console import Console
    from rich.markup import escape

    from skerry.report.best import best_cells
    from skerry.report.words import plural

    console = Console(soft_wrap=True)
    counts = Counter(lane.status for lane in results)
    told = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    name = escape(results[0].experiment.name)
    console.print(f"[bold]{name}[/]: {len(results):,} runs, {told}", highlight=False)
    console.print(best_cells(sweep, results))
    if watcher.reused:
        taken = plural(watcher.reused, "finished run")
        typer.echo(f"{taken} taken from {out} (--again computes anew).")
    typer.echo(f"Records: {out}/skerry.sqlite.")
    typer.echo(f"Look closer: skerry results {out}    or every study: skerry show {out}")


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
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from skerry.report.words import duration
    from skerry.runs.executors.executor import open_executor
    from skerry.runs.forecast import forecast

    place = open_executor(executor, device=device, workers=workers, address=ray_address)
    found = forecast(sweep, place, out, device)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo(
        f"{found.cells:,} cells x {found.seeds} seeds: {found.runs:,} runs, {found.recorded:,} of "
        f"them recorded in {out}."
    )
    if found.runs == found.recorded:
        typer.echo("Nothing is left to compute.")
        return
    typer.echo(
        f"{found.worlds:,} worlds, {found.stacks:,} stacks of up to {found.lanes:,} lanes, "
        f"{found.at_once:,} at once."
    )
    typer.echo(
        f"A stack takes about {found.stack_bytes / 1e9:.2f} GB of the {found.free_bytes / 1e9:.1f} "
        "GB that are free."
    )
    typer.echo(f"About {duration(found.seconds)}, as one second of it went on this machine.")
