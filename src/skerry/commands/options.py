"""Options and arguments that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.commands.plug_ins import find_plug_ins
from skerry.errors import RecordsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skerry.experiment import Experiment

STOPPED = "\nStopped. The same command goes on from the last checkpoint."

ExperimentFile = Annotated[
    Path | None,
    typer.Argument(
        help="An experiment (TOML). Without one: two rings of 50 devices on the digits data."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change a field; repeatable. Example: --set server.period=10",
    ),
]

Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Precision = Annotated[
    str | None,
    typer.Option(
        help="Products on a GPU: float32 (exact), tf32 or bf16 (faster). Short for "
        "--set training.precision=...",
        show_default="the experiment's",
    ),
]
ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        help="Where to compute: here (this process), processes, ray, or your own "
        "package.module:name.",
        show_default="here, or processes with --workers",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="How many stacks at once.", show_default="one per core"),
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Join this Ray cluster; auto finds it.")
]
Again = Annotated[bool, typer.Option("--again", help="Compute finished runs anew.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Tell a tracker too: tensorboard, mlflow, wandb; repeatable."
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the results as one JSON object, and nothing else, on stdout."
    ),
]


def with_precision(settings: list[str] | None, precision: str | None) -> list[str]:
    """The settings, with a precision that was asked for by its own option."""
    own = [f"training.precision={precision}"] if precision is not None else []
    return [*(settings or ()), *own]


def read_experiment(file: Path | None, settings: list[str] | None) -> "Experiment":
    """The experiment of a file, or the default one, with the settings on top."""
    from skerry.experiment import Experiment

    find_plug_ins(file)
    if file is None:
        return Experiment.parse({}, settings or ())
    return Experiment.load(file, settings or ())


def save_picture(figure: "Figure", path: Path, dpi: int = 150) -> None:
    """Write a picture that a command was asked for."""
    from skerry.report.figures import save

    try:
        save(figure, path, dpi)
    except OSError as error:
        raise RecordsError(
            f"cannot write {path} ({error.strerror}). Choose a folder that exists and can be "
            "written."
        ) from None
