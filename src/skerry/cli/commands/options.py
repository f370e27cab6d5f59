"""Options, arguments and helper functions that several commands share."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.errors import OtherCommandError, SkerryError, writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skerry.config.experiment import Experiment


def option(
    help_: str,
    metavar: str | None = None,
    default: str | bool = True,
    *,
    names: Sequence[str] = (),
    **limits: Any,
) -> Any:
    """An option of a command: its help, what its value is called, and its default in words."""
    return typer.Option(*names, help=help_, metavar=metavar, show_default=default, **limits)


ExperimentFile = Annotated[
    Path | None,
    typer.Argument(
        help="An experiment file (TOML). Default: two rings of 50 devices on the digits data."
    ),
]
Settings = Annotated[
    list[str] | None,
    option(
        "Change a field; repeatable. Example: --set server.period=10",
        "FIELD=VALUE",
        names=["--set"],
    ),
]
Rounds = Annotated[
    int | None,
    option("Number of rounds. Short for --set rounds=N", "N", "the experiment's", min=1),
]
Devices = Annotated[
    int | None,
    option("Number of devices. Short for --set network.devices=N", "N", "the experiment's", min=1),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with recorded runs.")]
Folders = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR", help="Folders with recorded runs, compared.", show_default="runs"
    ),
]

Device = Annotated[str, option("auto, cpu or cuda.")]
Precision = Annotated[
    str | None,
    option(
        "Precision of products on a GPU: float32 (exact), tf32 or bf16 (faster). Short for "
        "--set training.precision=...",
        default="the experiment's",
    ),
]
ExecutorName = Annotated[
    str | None,
    option(
        "Where runs are computed: here (this process), processes, ray, or your own "
        "package.module:name.",
        default="here, or processes with --workers",
        names=["--executor"],
    ),
]
Workers = Annotated[
    int | None, option("Number of worker processes.", default="one per core", min=1)
]
RankCount = Annotated[
    int | None,
    option(
        "Compute each run on this number of processes, each with a part of the devices and, "
        "where there are GPUs, a GPU of its own. Use torchrun for several machines.",
        default="one process holds all devices",
        names=["--ranks"],
        min=1,
    ),
]
RayAddress = Annotated[
    str | None, option("Connect to this Ray cluster; auto searches for one.", "HOST:PORT")
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Give identical bits on machines of one type, whatever else runs there. Slower: runs "
        "are computed one by one, each on one thread.",
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Compute finished runs again.")]
Track = Annotated[
    list[str] | None,
    option("Log to a tracker too: tensorboard, mlflow, wandb; repeatable.", "NAME"),
]

Out = Annotated[Path, option("Folder for the recorded runs and the pictures.", "DIR")]
PictureFile = Annotated[
    Path | None,
    option(
        "A .pdf, .svg or .png file.", "FILE", "a .png named after the figure", names=["--out", "-o"]
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, and nothing else, on stdout.")
]


SHORT_FORMS = {
    "rounds": "rounds",
    "devices": "network.devices",
    "precision": "training.precision",
    "seeds": "sweep.seeds",
}
"""The fields that options of their own set, by the name of the option."""


def split_names(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Split names at commas; several texts are joined."""
    return tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())


def with_short_forms(settings: list[str] | None, **short: object) -> list[str]:
    """Return the settings, with the values of short forms added; these count if both are given."""
    given = {SHORT_FORMS[name]: value for name, value in short.items() if value is not None}
    return [*(settings or ()), *(f"{field}={value}" for field, value in given.items())]


def find_plug_ins(file: Path | None = None) -> None:
    """Let `package.module:name` also find modules beside the experiment file and in this folder.

    Both folders go to the end of the search path, so that a `numpy.py` in one of them does not hide
    the installed library.
    """
    for folder in [*([file.parent] if file is not None else []), Path()]:
        with suppress(OSError):  # a folder that was deleted holds no plug-ins
            path = str(folder.resolve())
            if path not in sys.path:
                sys.path.append(path)


def read_experiment(file: Path | None, settings: list[str] | None) -> "Experiment":
    """Read an experiment file, or take the default experiment, and apply the settings."""
    from skerry.config.experiment import Experiment

    find_plug_ins(file)
    if file is None:
        return Experiment.parse({}, settings or ())
    return Experiment.load(file, settings or ())


@contextmanager
def other_command(**more: object) -> Iterator[None]:
    """Add options to a command that an error suggests for the experiment file."""
    try:
        yield
    except OtherCommandError as error:
        raise SkerryError(error.with_options(**more)) from None


@contextmanager
def handle_ctrl_c(hint: str = "") -> Iterator[None]:
    """Turn Ctrl-C into one line on stderr and exit code 130; the hint says how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. {hint}".rstrip(), err=True)
        raise typer.Exit(130) from None


@contextmanager
def computing(hint: str = "") -> Iterator[None]:
    """Handle Ctrl-C, and keep what plug-ins print out of the results on stdout."""
    with handle_ctrl_c(hint), redirect_stdout(sys.stderr):
        yield


def print_json(content: Any) -> None:
    """Print strict JSON; NaN and infinity raise, because JSON has no such numbers."""
    typer.echo(json.dumps(content, allow_nan=False))


def print_reused(count: int, folder: Path) -> None:
    from skerry.report.text import plural

    if count:
        runs = plural(count, "finished run")
        typer.echo(f"{runs} taken from {folder} (--again computes them again).")


def save_picture(figure: "Figure", path: Path, dpi: int = 150) -> None:
    """Write a figure to a file; raises a one-line error if that is impossible."""
    from skerry.report.style import save_figure

    with writing(path):
        save_figure(figure, path, dpi)


RANGE_POINTS = 10
MAX_NUMBERS = 10_000


def parse_numbers(option: str, text: str, *, whole: bool) -> list[float]:
    """Parse the numbers of an option: 20, 1:50, 1:50:5 or 0.1,0.5,1.

    Ranges include their end. Without a step, whole numbers advance by one; other ranges have ten
    points.
    """
    try:
        numbers = [number for part in text.split(",") for number in _parse_range(part, whole)]
    except ValueError:
        raise SkerryError(
            f"--{option} must be a {'whole ' if whole else ''}number, a range such as 1:50 or "
            f"1:50:5, or a list such as 5,10,20 (got '{text}'). Write it like one of these."
        ) from None
    if len(numbers) > MAX_NUMBERS:
        raise SkerryError(
            f"--{option} must name at most {MAX_NUMBERS:,} numbers (got {len(numbers):,}). "
            "Take larger steps."
        )
    return numbers


def _parse_range(text: str, whole: bool) -> Iterator[float]:
    parse = int if whole else float
    ends = [parse(number) for number in text.split(":")]
    if len(ends) == 1:
        yield ends[0]
        return
    first, last, *steps = ends
    if len(steps) > 1 or last < first or (steps and steps[0] <= 0):
        raise ValueError
    step = steps[0] if steps else 1 if whole else (last - first) / (RANGE_POINTS - 1)
    count = int((last - first) / step + 1e-9) + 1 if step else 1
    if count > MAX_NUMBERS:
        raise SkerryError(
            f"a range must have at most {MAX_NUMBERS:,} numbers (got {count:,} in {text}). "
            "Take larger steps."
        )
    # Rounded: 0.1 + 2 * 0.1 should read 0.3.
    yield from (parse(round(first + i * step, 12)) for i in range(count))
