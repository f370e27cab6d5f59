"""`skerry advise`: which primitive to use on a fleet of one's own."""

import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands.options import (
    AsJson,
    Device,
    ExperimentFile,
    Settings,
    may_be_stopped,
    print_json,
    read_experiment,
)

if TYPE_CHECKING:
    from skerry.advice.advise import Advice


def advise(
    file: ExperimentFile = None,
    settings: Settings = None,
    goal: Annotated[
        str,
        typer.Option(
            metavar="global|own|both|worst_tenth",
            help="What counts: the average model on all data, devices on data like their own, the "
            "mean of the two, or the tenth of the devices that is worst on its own.",
        ),
    ] = "both",
    among: Annotated[
        str,
        typer.Option(
            help="What may be recommended: primitives, such as s2a,blend:0.3, presets, such as "
            "gradient_tracking,carry, and rules of selection, such as uniform,one_each. Without a "
            "rule: the experiment's own, and those that meet every island."
        ),
    ] = "s2s,s2a,blend",
    budget_messages: Annotated[
        float | None,
        typer.Option(metavar="N", help="Spend at most so many messages; K and H are chosen too."),
    ] = None,
    budget_bytes: Annotated[
        float | None, typer.Option(metavar="N", help="The same in bytes.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Rounds that there are.", show_default="the experiment's"
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="PRICES",
            help="What a message costs, such as up=1,down=0.2 (also broadcast, d2d); without a "
            "budget, contenders get the money that the experiment's own setting costs.",
            show_default="up=1,down=1,d2d=0",
        ),
    ] = None,
    stepsizes: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Stepsizes to try, such as 0.01,0.1.",
            show_default="a grid around the experiment's",
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(help="How long it may take.")] = 5.0,
    seeds: Annotated[int, typer.Option(min=1, help="At most so many seeds.")] = 20,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the pilot's runs and advice.json in a folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which primitive, whom to sample, K and H for your fleet: tried out, with reasons."""
    from skerry.advice.screen import print_advice, watch_advice
    from skerry.cli.commands.ranges import numbers
    from skerry.report.text import console

    experiment = read_experiment(file, settings)
    kept = f"What was run is kept: the same command reuses it from {out}." if out else ""
    with (
        may_be_stopped(kept),
        redirect_stdout(sys.stderr),  # what plug-ins print must not come between the results
        watch_advice(minutes) as watcher,
    ):
        from skerry.advice.advise import advise as ask
        from skerry.advice.question import read_prices

        advice = ask(
            experiment,
            goal=goal,
            among=among,
            budget=budget_messages,
            budget_bytes=budget_bytes,
            prices=read_prices(price) if price is not None else None,
            rounds=rounds,
            stepsizes=numbers("stepsizes", stepsizes, whole=False) if stepsizes else None,
            minutes=minutes,
            seeds=seeds,
            device=device,
            out=out,
            watcher=watcher,
        )
    if as_json:
        print_json(advice.to_json())
        return
    screen = console()
    print_advice(advice, screen)
    screen.print(f"Use it: {_run_command(advice, file)}", markup=False)
    if out is not None:
        typer.echo(f"Records: {out}/skerry.sqlite and {out}/advice.json.")


def _run_command(advice: "Advice", file: Path | None) -> str:
    """`skerry run` with the recommendation, to paste."""
    contender, stepsize = advice.best
    settings = {
        "server.primitive": contender.primitive,
        "server.beta": contender.beta,
        "server.sampled": contender.sampled,
        "server.period": contender.period,
        "server.selection": contender.selection,
        "training.stepsize": f"{stepsize:.4g}",
    }
    words = ["skerry", "run", *([str(file)] if file else [])]
    if contender.preset:
        words += ["--compare", contender.preset]
        del settings["server.primitive"]  # which is the preset's
    for field, value in settings.items():
        if value is not None:
            words += ["--set", f"{field}={value}"]
    return shlex.join(words)
