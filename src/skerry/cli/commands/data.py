"""`skerry data`: list and fetch data sets, and convert availability traces."""

from pathlib import Path
from typing import Annotated

import typer

from skerry.errors import skerry_command

app = typer.Typer(
    help="List and fetch data sets; convert availability traces.", no_args_is_help=True
)


@app.command("list")
def data_list() -> None:
    """List the data sets, and whether each is on this machine."""
    from skerry.data.sources.catalog import list_datasets
    from skerry.report.text import console, plain_table, size

    columns = ("name", "inputs", "train", "test", "classes", "state", "size")
    table = plain_table(*columns, left=("inputs", "state"))
    for row in list_datasets():
        inputs = " x ".join(map(str, row.shape))
        numbers = (f"{row.train:,}", f"{row.test:,}", str(row.classes or "numbers"))
        table.add_row(row.name, inputs, *numbers, row.state, size(row.size))
    console().print(table)


@app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A name from `skerry data list`.")],
    path: Annotated[str, typer.Option(help="File or folder, if you already have it.")] = "",
) -> None:
    """Download a data set into the cache and verify its checksum."""
    from skerry.data.sources.fetch import fetch
    from skerry.files import cache_folder

    fetch(name, path)
    typer.echo(f"{name} is in {cache_folder()}.")


@app.command("where")
def data_where() -> None:
    """Print the cache folder of downloaded data sets."""
    from skerry.files import cache_folder

    typer.echo(cache_folder())


@app.command("trace")
def data_trace(
    file: Annotated[
        Path, typer.Argument(help="A public availability trace (JSON), as FedScale's.")
    ],
    out: Annotated[Path, typer.Argument(help="The trace to write (CSV), for availability.awake.")],
    round_seconds: Annotated[float, typer.Option(help="Duration of a round in seconds.")] = 600.0,
    devices: Annotated[int | None, typer.Option(help="Take only the first of the devices.")] = None,
) -> None:
    """Convert a public availability trace into a trace of which devices are awake."""
    from skerry.config.toml import setting
    from skerry.data.sources.availability import convert_trace

    made = convert_trace(file, out, round_seconds, devices)
    typer.echo(
        f"Wrote {out}: {made.devices:,} devices, {made.rounds:,} rounds of {round_seconds:g} s, "
        f"awake {made.awake_share:.0%} of the time."
    )
    settings = [setting("availability.awake", str(out)), f"network.devices={made.devices}"]
    settings += [f"server.sampled={min(20, made.devices)}"]
    typer.echo(f"Use it: {skerry_command('run', settings=settings)}")
