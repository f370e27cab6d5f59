"""The command line. Heavy imports wait until a command needs them: `skerry --help` is instant."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.errors import ExperimentError, SkerryError

if TYPE_CHECKING:
    from skerry.experiment import Experiment
    from skerry.sweep.run import Results

app = typer.Typer(
    name="skerry",
    help="Semi-decentralized federated learning: simulate fleets of devices on islands, and see "
    "what S2S, S2A and the dial between them do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="The data sets: what there is, fetch one, where they are kept.", no_args_is_help=True
)
app.add_typer(data_app, name="data")

DEFAULT_COMPARE = "s2s,s2a,blend"
DEFAULT_SEEDS = 3

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change a field; repeatable. Example: --set server.period=10",
    ),
]


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        import skerry

        typer.echo(f"skerry {skerry.__version__}")
        raise typer.Exit


@app.command()
def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="An experiment (TOML). Without one: two rings of 50 devices on the digits data."
        ),
    ] = None,
    settings: Settings = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Primitives to run side by side, such as s2s,s2a,blend:0.25,none."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds, counted on from the experiment's own."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="Where records and pictures go.")] = Path("runs"),
    again: Annotated[bool, typer.Option("--again", help="Compute finished runs anew.")] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the results as one JSON object, and nothing else, on stdout."
        ),
    ] = False,
) -> None:
    """Run an experiment: a table, pictures, and records to come back to."""
    from skerry.report.progress import watch

    experiment = _experiment(file, settings)
    primitives = compare if compare is not None else ("" if file else DEFAULT_COMPARE)
    with watch() as watcher:
        from skerry.sweep.run import run as run_experiments

        results = run_experiments(
            experiment,
            compare=[name for name in primitives.split(",") if name.strip()],
            seeds=seeds or (1 if file else DEFAULT_SEEDS),
            device=device,
            out=out,
            again=again,
            watcher=watcher,
        )
    if as_json:
        json.dump(results.to_json(), sys.stdout, allow_nan=False)
        sys.stdout.write("\n")
        return
    pictures = watcher.draw(results, out)
    _tell(results, watcher.sizes)
    _point_out(out, pictures, watcher.reused)


@app.command()
def new() -> None:
    """Print a complete, commented experiment: skerry new > experiment.toml"""
    from skerry.experiment import Experiment

    typer.echo(Experiment().to_toml(comments=True), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of experiments, for editors."""
    from skerry.experiment import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A folder that holds records.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what is recorded in a folder: every study as a table."""
    from skerry.sweep.run import recorded

    studies = recorded(path)
    if as_json:
        lanes = [lane for results in studies for lane in results.to_json()["lanes"]]
        typer.echo(json.dumps({"lanes": lanes}, allow_nan=False))
        return
    if not studies:
        typer.echo(f"No runs are recorded in {path}.")
    for results in studies:
        _tell(results)


@data_app.command("list")
def data_list() -> None:
    """List the data sets, and whether each is here."""
    from rich.console import Console
    from rich.table import Table

    from skerry.data.fetch import catalog

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("name", "inputs", "train", "test", "classes", "state", "size"):
        table.add_column(title, justify="left" if title in ("name", "inputs", "state") else "right")
    for row in catalog():
        inputs = " x ".join(map(str, row.shape))
        numbers = (f"{row.train:,}", f"{row.test:,}", str(row.classes))
        table.add_row(row.name, inputs, *numbers, row.state, f"{row.size / 1e6:,.1f} MB")
    Console().print(table)


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A name from `skerry data list`.")],
    path: Annotated[str, typer.Option(help="Where it lies, if you have it.")] = "",
) -> None:
    """Fetch a data set into the cache, checked."""
    from skerry.data.fetch import cache_folder, fetch

    fetch(name, path)
    typer.echo(f"{name} is in {cache_folder()}.")


@data_app.command("where")
def data_where() -> None:
    """Print the folder where fetched data sets are kept."""
    from skerry.data.fetch import cache_folder

    typer.echo(cache_folder())


def main() -> None:
    """Run the command line; every fault a user can mend is one line and exit code 2."""
    sys.path.insert(0, os.getcwd())  # "my_model:factory" beside the experiment is found
    debug = "--debug" in sys.argv
    try:
        app()
    except SkerryError as error:
        if debug:
            raise
        lines = error.faults if isinstance(error, ExperimentError) else [str(error)]
        for line in lines:
            typer.echo(f"error: {line}", err=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        typer.echo("\nStopped. The same command goes on from the last checkpoint.", err=True)
        raise SystemExit(130) from None


def _experiment(file: Path | None, settings: list[str] | None) -> "Experiment":
    from skerry.experiment import Experiment

    if file is None:
        return Experiment.parse({}, settings or ())
    return Experiment.load(file, settings or ())


def _tell(results: "Results", sizes: tuple[int, ...] | None = None) -> None:
    from rich.console import Console

    from skerry.report.table import summary, verdicts
    from skerry.report.words import study_in_words

    experiments = [lane.experiment for lane in results]
    console = Console(soft_wrap=True)
    console.print(
        f"[bold]{experiments[0].name}[/]: {study_in_words(experiments, sizes)}", highlight=False
    )
    console.print(summary(results))
    for line in verdicts(results):
        console.print(line, highlight=False)


def _point_out(out: Path, pictures: list[Path], reused: int) -> None:
    if reused:
        typer.echo(f"{reused} finished runs were taken from {out} (--again computes them anew).")
    typer.echo(f"Pictures: {', '.join(map(str, pictures))}. Records: {out}/skerry.sqlite.")
    typer.echo(
        "Try next: skerry run --set data.intra=dirichlet    "
        "or your own: skerry new > mine.toml && skerry run mine.toml"
    )
