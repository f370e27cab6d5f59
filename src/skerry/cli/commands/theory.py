"""`skerry theory`: bounds, mixing, measured constants, and the paper's figures about them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands.bounds import Downlink, bounds
from skerry.cli.commands.options import (
    AsJson,
    Device,
    ExperimentFile,
    PictureFile,
    Settings,
    print_json,
    read_experiment,
    save_picture,
)
from skerry.errors import SkerryError, unknown

if TYPE_CHECKING:
    from skerry.theory.communication import Prices

app = typer.Typer(
    help="The theory: rounds and messages that are enough, mixing, and constants of your own "
    "experiment.",
    no_args_is_help=True,
)
app.command()(bounds)

FIGURES = {"1": "rounds", "6": "messages"}

Epsilon = Annotated[float, typer.Option(help="The accuracy wanted.")]


@app.command()
def mixing(
    file: ExperimentFile = None,
    settings: Settings = None,
    draws: Annotated[
        int, typer.Option(min=2, max=100_000, help="Rounds drawn where p has no formula.")
    ] = 400,
    as_json: AsJson = False,
) -> None:
    """How fast devices inside a component agree: p of an experiment's network."""
    from dataclasses import asdict

    from skerry.network.fleet import build_fleet
    from skerry.report.screens.theory import print_mixing

    experiment = read_experiment(file, settings)
    fleet = build_fleet(experiment.network, experiment.seed)
    found = fleet.mixing_parameters(draws)
    if as_json:
        print_json({"components": list(fleet.sizes), **asdict(found)})
    else:
        print_mixing(experiment, found, fleet.sizes)


@app.command()
def constants(
    file: ExperimentFile = None,
    settings: Settings = None,
    rounds: Annotated[
        str,
        typer.Option(help="After how many rounds to measure: a list, or a range such as 0:50:10."),
    ] = "0,10,50",
    draws: Annotated[
        int, typer.Option(min=2, max=10_000, help="Pairs of minibatches per device and checkpoint.")
    ] = 20,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure sigma^2, zeta^2, L, f0 and p of an experiment, along one of its runs."""
    from skerry.cli.commands.ranges import numbers
    from skerry.report.screens.theory import print_constants
    from skerry.theory.constants import measure_constants

    found = measure_constants(
        read_experiment(file, settings),
        rounds=[int(t) for t in numbers("rounds", rounds, whole=True)],
        draws=draws,
        device=device,
    )
    if as_json:
        print_json(found.to_json())
    else:
        print_constants(found)


@app.command()
def figure(
    which: Annotated[str, typer.Argument(help="1: rounds; 6: messages.", metavar="1|6")],
    path: PictureFile = None,
    epsilon: Epsilon = 1e-5,
    downlink: Downlink = 1,
    as_json: AsJson = False,
) -> None:
    """Draw Figure 1 (rounds) or 6 (messages) of the paper, with the crossing points marked."""
    from skerry.report.figures.predictions import regimes_figure
    from skerry.report.style import check_format
    from skerry.theory.regimes import regime_table

    if which not in FIGURES:
        raise SkerryError(unknown("figure", which, FIGURES))
    if path is None and not as_json:
        path = Path(f"figure-{which}.png")
    if path is not None:
        check_format(path)
    table = regime_table(epsilon, _prices(downlink))
    panels = [panel for panel in table if panel.measure == FIGURES[which]]
    if as_json:
        print_json({"figure": int(which), "panels": [panel.to_json() for panel in panels]})
    if path is not None:
        priced = f", a downlink costs {downlink:g}" if downlink != 1 else ""
        save_picture(regimes_figure(panels, f"ε = {epsilon:g}{priced}"), path)
    if not as_json:
        typer.echo(f"Figure {which}: {path}")


@app.command()
def regimes(
    epsilon: Epsilon = 1e-5,
    downlink: Downlink = 1,
    as_json: AsJson = False,
) -> None:
    """Who needs fewer rounds and messages where: the panels of Figures 1 and 6 as tables."""
    from skerry.report.screens.theory import print_regimes
    from skerry.theory.regimes import regime_table

    table = regime_table(epsilon, _prices(downlink))
    if as_json:
        print_json({"rows": [panel.to_json(curves=False) for panel in table]})
    else:
        print_regimes(table, FIGURES, epsilon)


def _prices(downlink: float) -> "Prices":
    from skerry.theory.communication import Prices

    return Prices(downlink=downlink)
