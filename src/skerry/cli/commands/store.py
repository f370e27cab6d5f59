"""`skerry store`: verify, back up and repair recorded runs, or remove some of them."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from skerry.cli.commands.options import Folder
from skerry.errors import RecordsError, printable, skerry_command, unknown
from skerry.files import place_of
from skerry.report.text import plural

app = typer.Typer(
    help="Recorded runs: verify, remove, back up and repair them.", no_args_is_help=True
)

SHOWN_KEYS = 5
FEWEST_CHARACTERS = 4  # the shortest beginning of a key that stands for it


@app.command("verify")
def store_verify(folder: Folder = Path("runs")) -> None:
    """Verify the file, every run and its key; the exit code is 1 if something is damaged."""
    from skerry.records.maintenance import verify_store

    found = verify_store(folder)
    for key, fault in found.faults.items():
        typer.echo(f"damaged: {printable(f'{key}: {fault}')}")
    for key, fault in found.models.items():
        typer.echo(f"damaged: the models of {printable(f'{key}: {fault}')}")
    for reason, keys in found.not_checked.items():
        more = f", and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else ""
        shown = printable(", ".join(keys[:SHOWN_KEYS])) + more
        typer.echo(f"not checked: {reason.format(plural(len(keys), 'run'))} ({shown})")
    damaged = len(found.faults)
    intact = max(0, found.runs - damaged)
    typer.echo(f"{plural(found.runs, 'run')} in {found.path}: {intact} intact, {damaged} damaged.")
    if damaged or found.models:
        typer.echo(
            f"To keep the intact runs: {skerry_command('store', 'repair', place_of(folder))}"
        )
        raise typer.Exit(1)


@app.command("forget")
def store_forget(
    folder: Folder,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Keys of runs, or how they begin.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove runs, so that they are computed again."""
    from skerry.records.store import Store

    with Store.read(folder) as store:
        recorded, folder = store.keys(), place_of(store.path)
    keys = [_find_key(key, recorded, folder) for key in keys]
    _check_idle(folder)
    count = plural(len(set(keys)), "run")
    if not yes:
        typer.confirm(f"Remove {count} of {folder}, with all rounds?", abort=True)
    with Store.open(folder) as store:
        store.forget(keys)
    typer.echo(f"Removed {count}. The same command computes them again.")


@app.command("backup")
def store_backup(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")
    ],
) -> None:
    """Copy all runs into one file, also while a sweep is writing."""
    from skerry.records.maintenance import back_up_store

    typer.echo(f"Wrote {plural(back_up_store(folder, file), 'run')} to {file}.")


@app.command("repair")
def store_repair(folder: Folder) -> None:
    """Recover the intact runs of a damaged file; the damaged file is kept."""
    from skerry.records.maintenance import put_models_aside, repair_store

    _check_idle(folder := place_of(folder))
    models, done = put_models_aside(folder), repair_store(folder)
    for key, reason in models.items():
        typer.echo(f"put aside: the models of {printable(f'{key}: {reason}')}")
    if done is None:
        typer.echo(f"{'Nothing else' if models else 'Nothing'} is damaged in {folder}.")
        return
    for key, reason in done.lost.items():
        typer.echo(f"lost: {printable(f'{key}: {reason}')}")
    typer.echo(
        f"Kept {plural(done.kept, 'run')} in {folder}. The command that computed the lost runs "
        f"computes them again. The damaged file is {done.aside}."
    )


def _check_idle(folder: Path) -> None:
    from skerry.records.activity import is_working

    if is_working(folder):
        raise RecordsError(
            f"another process is computing in {folder}. Try again when it has finished."
        )


def _find_key(start: str, recorded: Collection[str], folder: Path) -> str:
    """The recorded key that begins with this text, which must be the only one."""
    found = [key for key in recorded if key.startswith(start) and len(start) >= FEWEST_CHARACTERS]
    if start in found or len(found) == 1:
        return start if start in found else found[0]
    if len(found) > 1:
        raise RecordsError(f"{len(found)} keys begin with '{start}'. Give more of its characters.")
    no_run = f"no run {start} is recorded. List keys: {skerry_command('show', folder, json=True)}"
    raise RecordsError(unknown("run", start, recorded) if len(recorded) < 20 else no_run)
