"""The command line. Heavy imports wait until a command needs them: `skerry --help` is instant."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from skerry import ending
from skerry.commands import data, store, theory
from skerry.commands.advise import advise
from skerry.commands.figure import figure
from skerry.commands.new import new
from skerry.commands.report import report
from skerry.commands.reproduce import reproduce
from skerry.commands.results import results
from skerry.commands.run import run, schema, show
from skerry.commands.sweep import sweep
from skerry.commands.watch import watch
from skerry.errors import SkerryWarning, as_options, printable

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
            return f"warning: {printable(as_options(str(message)))}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = told
    try:
        yield
    finally:
        warnings.formatwarning = usual


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Whatever goes wrong is told in one line (see skerry/ending.py)."""
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
