"""`skerry advise`: recommend a setting of the server for a fleet."""

from pathlib import Path
from typing import Annotated, Any

import typer

from skerry.cli.commands import options
from skerry.cli.commands.options import option


def advise_command(
    file: options.ExperimentFile = None,
    settings: options.Settings = None,
    rounds: options.Rounds = None,
    devices: options.Devices = None,
    goal: Annotated[
        str,
        option(
            "The goal: accuracy of the average model on all data (global), of devices on data "
            "like their own (own), the mean of the two (both), or of the worst tenth of devices. "
            "With a clock also a score to reach, by any of these: 'global 88% soonest', 'own 88% "
            "with fewest joules'; without a name it is that of both.",
            "global|own|both|worst_tenth|TARGET",
        ),
    ] = "both",
    among: Annotated[
        str,
        option(
            "What may be recommended: primitives, such as none,s2a,blend:0.3, presets, such as "
            "gradient_tracking,carry, and selections, such as uniform,one_each. Selections by "
            "default: the experiment's own, and one_each."
        ),
    ] = "none,s2s,s2a,blend",
    budget_messages: Annotated[
        float | None, option("A whole run may send at most N messages, at their prices.", "N")
    ] = None,
    budget_uploads: Annotated[
        float | None, option("A whole run may have at most N uploads; downloads are free.", "N")
    ] = None,
    budget_bytes: Annotated[
        float | None, option("A whole run may send at most N bytes.", "N")
    ] = None,
    clock: Annotated[
        str | None,
        option("Count costs in seconds and joules by this clock: a TOML file or example.", "CLOCK"),
    ] = None,
    budget_seconds: Annotated[
        str | None, option("A whole run may take at most this long: 90, '10 min', '2 h'.", "TIME")
    ] = None,
    budget_joules: Annotated[
        str | None, option("A whole run may need at most this energy: 500, '3 kJ'.", "ENERGY")
    ] = None,
    cost: Annotated[
        str | None,
        option(
            "What costs are counted in.",
            "messages|seconds|joules",
            "as the budget, the goal or the clock",
        ),
    ] = None,
    price: Annotated[
        str | None,
        option(
            "Price of a message, such as up=1,down=0.2 (also broadcast, d2d).",
            "PRICES",
            "up=1,down=1,d2d=0",
        ),
    ] = None,
    sampled: Annotated[
        str | None,
        option("Values of K to try, such as 4,8; one value fixes it.", "NUMBERS", "a range"),
    ] = None,
    periods: Annotated[
        str | None,
        option("Values of H to try, such as 5,10; one value fixes it.", "NUMBERS", "a range"),
    ] = None,
    stepsizes: Annotated[
        str | None,
        option("Stepsizes to try, such as 0.01,0.1.", "NUMBERS", "a range around the experiment's"),
    ] = None,
    minutes: Annotated[float, option("Time limit.")] = 5.0,
    seeds: Annotated[int, option("Largest number of fresh seeds.", min=2)] = 100,
    device: options.Device = "auto",
    out: Annotated[
        Path | None, option("Folder for the recorded runs and advice.json.", "DIR")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recommend a server setting for your fleet: score against cost, from runs on that fleet."""
    from skerry.advice.screen import print_advice, show_advice_progress
    from skerry.report.text import console

    settings = options.with_short_forms(settings, rounds=rounds, devices=devices)
    experiment = options.read_experiment(file, settings)
    hint = f"Finished runs are in {out}. The same command reuses them." if out else ""
    words = [*([str(file)] if file else []), *(w for one in settings or () for w in ("--set", one))]
    with options.computing(hint), show_advice_progress(minutes) as progress:
        from skerry.advice.advise import advise
        from skerry.advice.question import read_prices

        def numbers(name: str, text: str | None, whole: bool) -> list[Any] | None:
            return options.parse_numbers(name, text, whole=whole) if text else None

        advice = advise(
            experiment,
            goal=goal,
            among=among,
            budget=budget_messages,
            budget_uploads=budget_uploads,
            budget_bytes=budget_bytes,
            budget_seconds=budget_seconds,
            budget_joules=budget_joules,
            clock=clock,
            cost=cost,
            prices=read_prices(price) if price is not None else None,
            sampled=numbers("sampled", sampled, True),
            periods=numbers("periods", periods, True),
            stepsizes=numbers("stepsizes", stepsizes, False),
            minutes=minutes,
            seeds=seeds,
            device=device,
            out=out,
            progress=progress,
            source=words,
        )
    if as_json:
        options.print_json(advice.to_json())
        return
    screen = console()
    print_advice(advice, screen)
    for name, command in advice.commands().items():
        other = "no server" if advice.answer.recommended != "none" else "a server"
        titles = {"use": "Use it", "compare": f"Compare it with {other}"}
        title = titles.get(name, "Then see seconds and joules of these runs")
        screen.print(f"{title}: {command}", markup=False, soft_wrap=True)
    if out is not None:
        typer.echo(f"Records: {out}/skerry.sqlite and {out}/advice.json.")
