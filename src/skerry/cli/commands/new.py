"""`skerry new`: print a complete experiment, or copy one of the examples."""

import re
from importlib.resources import files
from itertools import count
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.commands.options import option
from skerry.errors import SkerryError, skerry_command, typed, unknown, writing

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FOLDER = "experiments/"  # of the examples in the project, which name their data files by it
WIDTH = 100


def new_command(
    name: Annotated[
        str | None, typer.Argument(help="An example to copy, with its data files; see --list.")
    ] = None,
    out: Annotated[Path, option("Folder to copy to.", "DIR", "this folder")] = Path(),
    list_them: Annotated[bool, typer.Option("--list", help="List the examples.")] = False,
) -> None:
    """Print a complete, commented experiment, or copy an example: skerry new > experiment.toml"""
    if list_them:
        _list()
    elif name is not None:
        _copy(name.removesuffix(".toml"), out)
    else:
        from skerry.config.experiment import Experiment

        typer.echo(Experiment().to_toml(comments=True), nl=False)


def examples() -> dict[str, "Traversable"]:
    """The example experiments in the package, by name."""
    tables = [f for f in (files("skerry") / "examples").iterdir() if f.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file for file in sorted(tables, key=lambda f: f.name)}


def describe_example(text: str) -> str:
    """Return the description of an example: the comment at the top of its file."""
    comment = re.match(r"(?:#.*\n)*", text)
    lines = comment[0].splitlines() if comment else []
    words = " ".join(line.removeprefix("#").strip() for line in lines)
    return words.partition(" Source: ")[0].partition(" skerry ")[0]


def _list() -> None:
    found = examples()
    width = max(map(len, found)) + 2
    for name, file in found.items():
        words = describe_example(file.read_text(encoding="utf-8"))
        typer.echo(f"{name:{width}}{shorten(words, WIDTH - width, placeholder=' ...')}")
    typer.echo(f"\nCopy one: {skerry_command('new', next(iter(found)))}")


def _copy(name: str, folder: Path) -> None:
    found = examples()
    if name not in found:
        raise SkerryError(unknown("example", name, found))
    text = found[name].read_text(encoding="utf-8")
    # Paths in an experiment file start from its folder; commands in comments from the current one.
    near = "" if folder == Path() else f"{folder.as_posix()}/"
    adapted = text.replace(f'"{FOLDER}', '"')
    adapted = re.sub(rf"{FOLDER}(\S+)", lambda rest: typed(near + rest[1]), adapted)
    content = {f"{name}.toml": adapted}
    for other in (files("skerry") / "examples").iterdir():
        if not other.name.endswith(".toml") and f"{FOLDER}{other.name}" in text:
            content[other.name] = other.read_text(encoding="utf-8")
    others = (folder / f"{name}{number or ''}" for number in count())
    if existing := [str(folder / one) for one in content if (folder / one).exists()]:
        raise SkerryError(
            f"{' and '.join(existing)} would be overwritten. Move it, or choose another folder: "
            + skerry_command("new", name, out=next(one for one in others if not one.exists()))
        )
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for one, words in content.items():
            (folder / one).write_text(words, encoding="utf-8")
    command = skerry_command("sweep" if "\n[sweep" in text else "run", folder / f"{name}.toml")
    typer.echo(f"Wrote {', '.join(str(folder / one) for one in content)}. Run it: {command}")
