"""Options and arguments that several commands take, and what several of them do."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.commands.plug_ins import find_plug_ins
from skerry.errors import RecordsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skerry.config.experiment import Experiment

# What is asked about

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
Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder that holds records.")]

# How it is computed

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
RankCount = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        min=1,
        help="Compute each run on so many processes of this machine, each with a share of the "
        "devices and a GPU of its own, if there are GPUs. torchrun does so on several machines.",
        show_default="one process holds all devices",
    ),
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Join this Ray cluster; auto finds it.")
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Repeat to the bit on machines of one type, whatever runs beside it. Slower: runs are "
        "computed one by one, each on one thread.",
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Compute finished runs anew.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Tell a tracker too: tensorboard, mlflow, wandb; repeatable."
    ),
]

# Where it goes

Out = Annotated[
    Path, typer.Option(metavar="DIR", help="Where records go, and whatever else is made.")
]
PictureFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="A .pdf, .svg or .png file.",
        show_default="a .png named after the figure",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, and nothing else, on stdout.")
]


def names(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Names that are given one by one, or joined by commas."""
    return tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())


def with_precision(settings: list[str] | None, precision: str | None) -> list[str]:
    """The settings, with a precision that was asked for by its own option."""
    own = [f"training.precision={precision}"] if precision is not None else []
    return [*(settings or ()), *own]


def read_experiment(file: Path | None, settings: list[str] | None) -> "Experiment":
    """The experiment of a file, or the default one, with the settings on top."""
    from skerry.config.experiment import Experiment

    find_plug_ins(file)
    if file is None:
        return Experiment.parse({}, settings or ())
    return Experiment.load(file, settings or ())


@contextmanager
def may_be_stopped(how_it_goes_on: str = "") -> Iterator[None]:
    """Ctrl-C ends what is computed inside in one line."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. {how_it_goes_on}".rstrip(), err=True)
        raise typer.Exit(130) from None


def print_json(content: Any) -> None:
    """Strict JSON: numbers that it does not have are a fault of ours."""
    typer.echo(json.dumps(content, allow_nan=False))


def tell_reused(count: int, folder: Path) -> None:
    """How many runs need not be computed."""
    from skerry.report.text import plural

    if count:
        taken = plural(count, "finished run")
        typer.echo(f"{taken} taken from {folder} (--again computes anew).")


def save_picture(figure: "Figure", path: Path, dpi: int = 150) -> None:
    """Write a picture that a command was asked for."""
    from skerry.report.style import save_figure

    try:
        save_figure(figure, path, dpi)
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError) -> RecordsError:
    return RecordsError(
        f"cannot write {path} ({error.strerror}). Choose a folder that exists and can be written."
    )
