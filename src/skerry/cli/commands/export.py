"""`skerry export`: write the final models of a recorded run as .safetensors files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands import options
from skerry.cli.commands.options import option
from skerry.errors import SkerryError, printable, typed, writing
from skerry.files import exists, place_of, replacing

if TYPE_CHECKING:
    from torch import Tensor


def export_command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The start of a run's key in the folder runs, a folder with one run, or DIR#KEY; "
            "skerry show lists keys.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The file to write; with --all a folder."),
    ],
    device: Annotated[
        str, option("A device, or average, the mean of all devices.", "NAME")
    ] = "average",
    island: Annotated[str | None, option("Take the average over an island only.", "NAME")] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Write a file for each device, which model.weights can read."),
    ] = False,
) -> None:
    """Write a final model as a state dict that PyTorch loads, or those of all devices.

    Runs without --keep-models are computed again, and must end at the recorded values.
    """
    from skerry.records.store import models_file
    from skerry.report.screens.progress import show_progress
    from skerry.runs.export import final_models, find_run

    if every and (device != "average" or island is not None):
        raise SkerryError("--all writes every device. Leave --device and --island out.")
    options.find_plug_ins()
    folder, key = _folder_and_key(run)
    if not exists(folder):
        raise SkerryError(
            "RUN must be a folder with runs, DIR#KEY, or the start of a key in the folder runs "
            f"(got '{printable(run)}', and there is no folder {folder})."
        )
    lane = find_run(folder, key)
    shown = printable(lane.key)
    if not models_file(folder, lane.key).exists():
        typer.echo(f"The models of run {shown} were not kept: computing it again.", err=True)
    with options.computing(), show_progress() as display:
        models = final_models(folder, lane, display)
    about = {"format": "pt", "run": lane.key, "label": lane.label}
    if not every:
        state = models.state_dict(device, island)
        whose = {"device": device} if island is None else {"device": device, "island": island}
        _write(out, state, {**about, **whose})
        which = device if island is None else f"{device} of island {island}"
        typer.echo(f"Wrote {len(state)} tensors of run {shown} ({printable(which)}) to {out}.")
        return
    from skerry.config.toml import setting
    from skerry.models.weights import file_name
    from skerry.report.words import rerun_command

    for row, name in enumerate(models.devices):
        _write(out / file_name(name), models.state_dict(row), {**about, "device": name})
    start = setting("model.weights", str(out))
    command = rerun_command([lane.experiment], settings=[start], out=place_of(folder))
    typer.echo(
        f"Wrote the models of {len(models.devices)} devices of run {shown} to {out}. To start "
        f"from them: {command or f'--set {typed(start)}'}"
    )


def _folder_and_key(run: str) -> tuple[Path, str]:
    """The folder of a store and the start of a key, from `KEY`, `DIR` or `DIR#KEY`."""
    folder, mark, key = run.rpartition("#")
    if mark:
        return Path(folder), key
    return (Path(run), "") if Path(run).is_dir() else (Path("runs"), run)


def _write(file: Path, state: "dict[str, Tensor]", about: dict[str, str]) -> None:
    from safetensors.torch import save_file

    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            save_file({n: t.contiguous().clone() for n, t in state.items()}, partial, about)
