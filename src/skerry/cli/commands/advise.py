"""`skerry advise`: recommend a primitive, a selection, K and H for a fleet."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands import options
from skerry.cli.commands.options import option
from skerry.errors import skerry_command

if TYPE_CHECKING:
    from skerry.advice.advise import Advice


def advise_command(
    file: options.ExperimentFile = None,
    settings: options.Settings = None,
    goal: Annotated[
        str,
        option(
            "The goal: accuracy of the average model on all data (global), of devices on data "
            "like their own (own), the mean of the two (both), or of the worst tenth of devices.",
            "global|own|both|worst_tenth",
        ),
    ] = "both",
    among: Annotated[
        str,
        option(
            "What may be recommended: primitives, such as s2a,blend:0.3, presets, such as "
            "gradient_tracking,carry, and selections, such as uniform,one_each. Selections by "
            "default: the experiment's own, and those that sample every island."
        ),
    ] = "s2s,s2a,blend",
    budget_messages: Annotated[
        float | None, option("Send at most N messages; K and H are chosen too.", "N")
    ] = None,
    budget_bytes: Annotated[
        float | None, option("Send at most N bytes; K and H are chosen too.", "N")
    ] = None,
    rounds: Annotated[
        int | None, option("Number of rounds.", "N", "the experiment's", min=1)
    ] = None,
    price: Annotated[
        str | None,
        option(
            "Price of a message, such as up=1,down=0.2 (also broadcast, d2d). If no budget is "
            "given, the budget is what the experiment's own setting costs at these prices.",
            "PRICES",
            "up=1,down=1,d2d=0",
        ),
    ] = None,
    stepsizes: Annotated[
        str | None,
        option("Stepsizes to try, such as 0.01,0.1.", "NUMBERS", "a grid around the experiment's"),
    ] = None,
    minutes: Annotated[float, option("Time limit.")] = 5.0,
    seeds: Annotated[int, option("Largest number of seeds.", min=1)] = 20,
    device: options.Device = "auto",
    out: Annotated[
        Path | None, option("Folder for the recorded runs and advice.json.", "DIR")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recommend a primitive, whom to sample, K and H for your fleet, from runs on that fleet."""
    from skerry.advice.screen import print_advice, show_advice_progress
    from skerry.report.text import console

    experiment = options.read_experiment(file, settings)
    hint = f"Finished runs are in {out}. The same command reuses them." if out else ""
    with options.computing(hint), show_advice_progress(minutes) as progress:
        from skerry.advice.advise import advise
        from skerry.advice.question import read_prices

        steps = options.parse_numbers("stepsizes", stepsizes, whole=False) if stepsizes else None
        advice = advise(
            experiment,
            goal=goal,
            among=among,
            budget=budget_messages,
            budget_bytes=budget_bytes,
            prices=read_prices(price) if price is not None else None,
            rounds=rounds,
            stepsizes=steps,
            minutes=minutes,
            seeds=seeds,
            device=device,
            out=out,
            progress=progress,
        )
    if as_json:
        options.print_json(advice.to_json())
        return
    screen = console()
    print_advice(advice, screen)
    if rounds is not None:
        settings = [*(settings or ()), f"rounds={rounds}"]
    screen.print(f"Use it: {_run_command(advice, file, settings or ())}", markup=False)
    if out is not None:
        typer.echo(f"Records: {out}/skerry.sqlite and {out}/advice.json.")


def _run_command(advice: "Advice", file: Path | None, asked: Iterable[str]) -> str:
    """Return the `skerry run` command that uses the recommendation."""
    candidate, stepsize = advice.best
    best = {
        "server.primitive": candidate.primitive,
        "server.beta": candidate.beta,
        "server.sampled": candidate.sampled,
        "server.period": candidate.period,
        "server.selection": candidate.selection,
        "training.stepsize": f"{stepsize:.4g}",
    }
    if candidate.preset:
        del best["server.primitive"]  # the preset sets it
    chosen = [f"{field}={value}" for field, value in best.items() if value is not None]
    return skerry_command("run", file, settings=[*asked, *chosen], compare=candidate.preset or None)
