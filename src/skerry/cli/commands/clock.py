"""`skerry clock`: write a clock file, or read one and say in words what it means."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import option
from skerry.errors import SkerryError, unknown

app = typer.Typer(
    help="Clock files: how long steps and messages take on a fleet, and what they cost in energy.",
    no_args_is_help=True,
)
MNIST_LINEAR = 7850  # parameters: 784 pixels and a constant, ten classes


@app.command("new")
def new_clock(
    example: Annotated[
        str | None,
        option(
            "Print this example instead, with the sources of its numbers: data_centre, wifi_home, "
            "lte_phone or lora_sensor.",
            "NAME",
        ),
    ] = None,
    measured: Annotated[
        Path | None,
        option(
            "Measure a local step of one device of this experiment on this machine, and write it "
            "as seconds_per_step.",
            "FILE",
        ),
    ] = None,
    times: Annotated[
        float | None,
        option("How many times slower the devices are than this machine.", "FACTOR", "1"),
    ] = None,
) -> None:
    """Print a clock file with comments: skerry clock new > clock.toml"""
    from skerry.clock.settings import EXAMPLES, example_text

    if example is not None and measured is not None:
        raise SkerryError(
            "--example prints a file as it is, and --measured writes a new one (got both). Leave "
            "one out."
        )
    if times is not None and (measured is None or not 0 < times < float("inf")):
        raise SkerryError(
            f"--times must be a factor above 0 on what --measured FILE measures (got {times:g}"
            f"{'' if measured else ' without --measured'}). Example: --measured mine.toml --times "
            "10"
        )
    if example is not None and example not in EXAMPLES:
        raise SkerryError(unknown("clock", example, EXAMPLES))
    text = example_text(example) if example is not None else _new_text(measured, times or 1.0)
    typer.echo(text, nl=False)


@app.command("show")
def show_clock(
    file: Annotated[
        str, typer.Argument(metavar="CLOCK", help="A clock file, or the name of an example.")
    ],
    parameters: Annotated[
        int, option("Parameters of the model whose messages are priced.", "N", min=1)
    ] = MNIST_LINEAR,
) -> None:
    """Read a clock and say what a step and a message cost; all faults are told at once."""
    from skerry.clock.settings import read_clock
    from skerry.report.screens.clock import clock_lines
    from skerry.report.screens.results import print_sheets

    print_sheets([], list(clock_lines(read_clock(file), parameters)))


def _new_text(measured: Path | None, times: float) -> str:
    from skerry.clock.template import commented_clock

    if measured is None:
        return commented_clock()
    from skerry.cli.commands.options import read_experiment
    from skerry.clock.units import write_seconds
    from skerry.engine.step_time import measure_step

    experiment = read_experiment(measured, None)
    found = measure_step(experiment)
    factor = f", times {times:g}" if times != 1 else ""
    about = (
        f"Measured: {write_seconds(found.seconds)} for one local step of one device of {measured}\n"
        f"(model {experiment.model.name}, {found.parameters:,} parameters, {found.batch} samples) "
        f"on one core of this\nCPU, the quickest of {found.steps} steps (the slowest took "
        f"{write_seconds(found.slowest)}){factor}."
    )
    return commented_clock(float(f"{found.seconds * times:.3g}"), about)
