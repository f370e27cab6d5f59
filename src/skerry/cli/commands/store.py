"""`skerry store`: look after the records of a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.errors import RecordsError, unknown
from skerry.report.text import plural

if TYPE_CHECKING:
    from skerry.records.maintenance import Findings

app = typer.Typer(
    help="The records of a folder: verify them, forget runs, back up, repair.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds records.")]
MOST_KEYS = 5


@app.command("verify")
def store_verify(folder: Folder = Path("runs")) -> None:
    """Check the file, every run and its key; exit code 1 if something is wrong."""
    from skerry.records.maintenance import verify_store

    found = verify_store(folder)
    for line in _in_words(found):
        typer.echo(line)
    if found.faults:
        typer.echo(f"To keep what is sound: skerry store repair {folder}")
        raise typer.Exit(1)


@app.command("forget")
def store_forget(
    folder: Folder,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys of runs.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove runs, to have them computed again."""
    from skerry.records.store import Store

    with Store.read(folder) as store:
        there = store.keys()
    for key in keys:
        if key not in there:
            raise RecordsError(unknown("run", key, there) if len(there) < 20 else _no_run(key))
    _check_that_nobody_works_in(folder)
    if not yes:
        typer.confirm(
            f"Forget {plural(len(set(keys)), 'run')} of {folder}, with all rounds?", abort=True
        )
    with Store.open(folder) as store:
        store.forget(keys)
    typer.echo(
        f"Forgot {plural(len(set(keys)), 'run')}. The command that computed them does it again."
    )


@app.command("backup")
def store_backup(
    folder: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
) -> None:
    """Copy the records into one file, as of one moment, while others may be writing."""
    from skerry.records.maintenance import back_up_store

    typer.echo(f"Wrote {plural(back_up_store(folder, file), 'run')} to {file}.")


@app.command("repair")
def store_repair(folder: Folder) -> None:
    """Save what can be read of damaged records; the damaged file is kept."""
    from skerry.records.maintenance import repair_store

    _check_that_nobody_works_in(folder)
    done = repair_store(folder)
    if done is None:
        typer.echo(f"Nothing is damaged in {folder}.")
        return
    for key, reason in done.lost.items():
        typer.echo(f"lost: {_sayable(key)}: {reason}")
    typer.echo(
        f"Kept {plural(done.kept, 'run')} in {folder}. What is lost is computed again by the "
        f"command that computed it. The damaged file is {done.aside}."
    )


def _check_that_nobody_works_in(folder: Path) -> None:
    from skerry.records.activity import is_working

    if is_working(folder):
        raise RecordsError(f"somebody is computing in {folder}. Try again when that is done.")


def _in_words(found: "Findings") -> list[str]:
    sound = found.runs - len(found.faults)
    return [
        *(f"damaged: {_sayable(key)}: {fault}" for key, fault in found.faults.items()),
        *(
            f"not checked: {reason.format(plural(len(keys), 'run'))} ({_first(keys)})"
            for reason, keys in found.not_checked.items()
        ),
        f"{plural(found.runs, 'run')} in {found.path}: {max(0, sound)} sound, "
        f"{len(found.faults)} damaged.",
    ]


def _first(keys: list[str]) -> str:
    more = f", and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    return ", ".join(keys[:MOST_KEYS]) + more


def _no_run(key: str) -> str:
    return f"no run {key} is recorded. skerry show DIR --json tells all keys."


def _sayable(key: object) -> str:
    from skerry.errors import escape_surrogates

    return escape_surrogates(str(key))
