"""The `skerry` command. Heavy imports happen inside the commands, so `skerry --help` is fast."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from skerry.cli import exit_codes
from skerry.cli.commands import clock, data, store, theory
from skerry.cli.commands.advise import advise_command
from skerry.cli.commands.export import export_command
from skerry.cli.commands.figure import figure_command
from skerry.cli.commands.new import new_command
from skerry.cli.commands.price import price_command
from skerry.cli.commands.report import report_command
from skerry.cli.commands.results import results_command
from skerry.cli.commands.run import run_command, schema_command, show_command
from skerry.cli.commands.sweep import sweep_command
from skerry.cli.commands.watch import watch_command
from skerry.errors import SkerryWarning, as_options, meant_by, printable

DEBUG = "--debug"


class _WrappedError(Exception):
    """Carries an error through typer, which would otherwise exit the program itself."""


class _CommandGroup(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise _WrappedError from error
        except Exception as error:
            if hasattr(error, "possibilities"):  # there is no such option
                _suggest_option(error)
            raise


def _suggest_option(error: Any) -> None:
    """Add to an error of the parser what the user may have meant: an option or a field."""
    from skerry.config.experiment import Experiment
    from skerry.config.explain import paths_of
    from skerry.config.section import fields_of

    options = [name for one in error.ctx.command.params for name in one.opts]
    found = meant_by(error.option_name, options)
    if not found and "--set" in options:
        word = error.option_name.lstrip("-").replace("-", "_")
        found = [f"--set {path}=..." for path in paths_of(word, fields_of(Experiment))[:1]]
    error.possibilities = found or error.possibilities


app = typer.Typer(
    name="skerry",
    cls=_CommandGroup,
    help="Simulate semi-decentralized federated learning: devices on islands gossip, a server "
    "samples some of them, and S2S, S2A and blends of the two are compared.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(run_command, advise_command, sweep_command, watch_command, results_command),
    *(
        price_command,
        report_command,
        figure_command,
        show_command,
        export_command,
        new_command,
        schema_command,
    ),
)
for _function in COMMANDS:
    app.command(_function.__name__.removesuffix("_command"))(_function)
app.add_typer(clock.app, name="clock")
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")
app.add_typer(store.app, name="store")
COMMAND_GROUP = "skerry.commands"  # entry points that add commands, as `skerry reproduce`


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


def _show_version(requested: bool) -> None:
    if requested:
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
    """Print Skerry's own warnings in one line; leave those of other libraries unchanged."""
    usual = warnings.formatwarning

    def format_warning(
        message: Warning | str, category: type[Warning], *where: Any, **line: Any
    ) -> str:
        if issubclass(category, SkerryWarning):
            return f"warning: {printable(as_options(str(message)))}\n"
        return usual(message, category, *where, **line)

    warnings.formatwarning = format_warning
    try:
        yield
    finally:
        warnings.formatwarning = usual


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; an error is printed in one line (see `cli/exit_codes.py`)."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    exit_codes.repair_streams()
    with exit_codes.raise_on_sigterm() as signals:
        code = exit_codes.flush_streams(_run(words))
    raise SystemExit(exit_codes.TERMINATED if signals else code)


def _run(words: Sequence[str]) -> int:
    try:
        with _one_line_warnings():
            # --debug is accepted anywhere on the line.
            without_debug = [word for word in words if word != DEBUG]
            app(without_debug, prog_name="skerry", obj=list(words))  # ranks get the same words
    except SystemExit as ended:
        if isinstance(ended.code, str):
            raise  # plug-ins may exit with a text, which Python prints
        return ended.code or 0
    except _WrappedError as wrapped:
        return _handle(wrapped.__cause__ or wrapped, DEBUG in words)
    except BaseException as error:
        return _handle(error, DEBUG in words)
    return 0


def _handle(error: BaseException, debug: bool) -> int:
    if debug and not isinstance(error, KeyboardInterrupt):
        raise error
    return exit_codes.print_error(error)
