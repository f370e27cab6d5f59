"""The command line. Heavy imports wait until a command needs them: `skerry --help` is instant."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from skerry.commands import data, store, theory
from skerry.commands.advise import advise
from skerry.commands.figure import figure
from skerry.commands.report import report
from skerry.commands.reproduce import reproduce
from skerry.commands.results import results
from skerry.commands.run import new, run, schema, show
from skerry.commands.sweep import sweep
from skerry.commands.watch import watch
from skerry.errors import SkerryError, SkerryWarning, as_options

DEBUG = "--debug"

app = typer.Typer(
    name="skerry",
    help="Semi-decentralized federated learning: simulate fleets of devices on islands, and see "
    "what S2S, S2A and the dial between them do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (run, advise, sweep, watch, results, report, figure, reproduce, show, new, schema)
for command in COMMANDS:
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")
app.add_typer(store.app, name="store")


def _show_version(asked: bool) -> None:
    if asked:
        import skerry

        typer.echo(f"skerry {skerry.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None: ...


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Our own without the place in the code; those of other libraries as ever."""
    usual = warnings.formatwarning

    def told(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if issubclass(category, SkerryWarning):
            return f"warning: {as_options(str(message))}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = told
    try:
        yield
    finally:
        warnings.formatwarning = usual


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every fault a user can mend is one line and exit code 2."""
    sys.path.insert(0, os.getcwd())  # a user's "my_model:factory" is found here
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with _one_line_warnings():
            # The switch may stand anywhere.
            app([argument for argument in given if argument != DEBUG], prog_name="skerry")
    except SkerryError as error:
        if DEBUG in given:
            raise
        for line in error.faults:
            typer.echo(f"error: {as_options(line)}", err=True)
        raise SystemExit(2) from None
