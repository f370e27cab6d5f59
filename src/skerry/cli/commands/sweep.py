"""`skerry sweep`: run a grid of experiments from one file, on one machine or several."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands import options
from skerry.errors import skerry_command


def sweep_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="An experiment file (TOML). Axes are in its table sweep.axes, or in --over."
        ),
    ],
    settings: options.Settings = None,
    over: Annotated[
        list[str] | None,
        options.option(
            "Vary a field; repeatable. Takes the place of an axis of the same field in the file. "
            "Example: --over server.period=5,10,20",
            "FIELD=VALUES",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        options.option(
            "Number of seeds. Short for --set sweep.seeds=N", "N", "the file's, or 1", min=1
        ),
    ] = None,
    rounds: options.Rounds = None,
    devices: options.Devices = None,
    executor: options.ExecutorName = None,
    workers: options.Workers = None,
    ray_address: options.RayAddress = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    out: options.Out = Path("runs"),
    again: options.Again = False,
    deterministic: options.Deterministic = False,
    track: options.Track = None,
    as_json: options.AsJson = False,
    history: Annotated[
        bool,
        typer.Option("--history", help="With --json: print every round, not only the last values."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the number of runs and the expected time; run nothing."
        ),
    ] = False,
) -> None:
    """Run a grid of experiments. Stop it at any time; the same command continues."""
    command = "The same command without --again" if again else "The same command"
    hint = f"Finished runs are in {out}. {command} continues."
    with options.handle_ctrl_c(hint), options.other_command(seeds=seeds, out=out):
        from skerry.runs.materials import sweep_with_sizes
        from skerry.runs.sweep import Sweep

        options.find_plug_ins(file)
        settings = options.with_short_forms(
            settings, rounds=rounds, devices=devices, precision=precision, seeds=seeds
        )
        asked = sweep_with_sizes(Sweep.load(file, settings, over or ()))
        if dry_run:
            from skerry.report.screens.sweep import print_forecast
            from skerry.runs.executors.executor import open_executor
            from skerry.runs.forecast import forecast

            place = open_executor(executor, device=device, workers=workers, address=ray_address)
            expected = forecast(asked, place, out, device, deterministic)
            if as_json:
                options.print_json(asdict(expected))
            else:
                print_forecast(expected, out)
            return

        from skerry.report.screens.progress import show_progress
        from skerry.runs.run import run

        # Output of plug-ins, and of Ray when a worker dies, must not mix with the results.
        with redirect_stdout(sys.stderr), show_progress(asked.tune_by) as display:
            results = run(
                asked,
                out=out,
                executor=executor,
                workers=workers,
                device=device,
                ray_address=ray_address,
                again=again,
                progress=display,
                trackers=track or (),
                deterministic=deterministic,
            )
    if as_json:
        table = results.to_json(history)
        if tuned := asked.tune:
            from skerry.runs.stages import tuned_cells

            choices = tuned_cells(asked, results)
            table["tuned"] = [{**dict(one.cell), tuned: one.value} for one in choices]
        options.print_json(table)
    else:
        from skerry.report.screens.sweep import print_sweep

        print_sweep(asked, results)
        options.print_reused(display.reused, out)
        typer.echo(f"Records: {out}/skerry.sqlite.")
        show = skerry_command("show", out)
        typer.echo(f"Next: {skerry_command('results', out)}    or every study: {show}")
    failed = [lane for lane in results if lane.status == "failed"]
    if failed:
        typer.echo(
            f"{len(failed):,} of {len(results):,} runs failed: {failed[0].note} The same command "
            "tries them again.",
            err=True,
        )
        raise typer.Exit(1)
