"""The command line. Heavy imports wait until a command needs them: `skerry --help` is instant."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from skerry.cli import ending
from skerry.cli.commands import data, store, theory
from skerry.cli.commands.advise import advise
from skerry.cli.commands.figure import figure
from skerry.cli.commands.new import new
from skerry.cli.commands.report import report
from skerry.cli.commands.results import results
from skerry.cli.commands.run import run, schema, show
from skerry.cli.commands.sweep import sweep
from skerry.cli.commands.watch import watch
from skerry.errors import SkerryWarning, as_options, one_line, printable

DEBUG = "--debug"


class _PassedError(Exception):
    """Carries an error past typer, which would end the program itself."""


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise _PassedError from error


app = typer.Typer(
    name="skerry",
    cls=_Commands,
    help="Semi-decentralized federated learning: simulate fleets of devices on islands, and see "
    "what S2S, S2A and the dial between them do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (run, advise, sweep, watch, results, report, figure, show, new, schema)
for command in COMMANDS:
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")
app.add_typer(store.app, name="store")
COMMAND_GROUP = "skerry.commands"
"""The entry points by which other packages add commands; `skerry reproduce` comes this way."""


def _add_commands_of_other_packages() -> None:
    """Add every entry point of the group: a typer app, or a function that becomes a command."""
    for entry in entry_points(group=COMMAND_GROUP):
        try:
            command = entry.load()
        except Exception as error:  # another package's fault must not take `skerry` down
            typer.echo(
                f"warning: skipped the command '{entry.name}' of {entry.value}: {error}", err=True
            )
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


_add_commands_of_other_packages()


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
            return f"warning: {printable(as_options(str(message)))}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = told
    try:
        yield
    finally:
        warnings.formatwarning = usual


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Whatever goes wrong is told in one line (see skerry/cli/ending.py)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    ending.mend_streams()
    with ending.terminable() as signals:
        code = ending.flushed(_run(given))
    raise SystemExit(ending.TERMINATED if signals.terminated else code)


def _run(given: Sequence[str]) -> int:
    """Run a command; gives its exit code."""
    try:
        with _one_line_warnings():
            # The switch may stand anywhere.
            plain = [argument for argument in given if argument != DEBUG]
            app(plain, prog_name="skerry", obj=list(given))  # ranks are given the same
    except SystemExit as left:
        if isinstance(left.code, str):
            raise  # a user's own code may leave with words, which Python prints
        return left.code or 0
    except _PassedError as passed:
        return _ended(passed.__cause__ or passed, DEBUG in given)
    except BaseException as error:
        return _ended(error, DEBUG in given)
    return 0


def _ended(error: BaseException, debug: bool) -> int:
    if debug and not isinstance(error, KeyboardInterrupt):
        raise error
    return ending.tell(error)
