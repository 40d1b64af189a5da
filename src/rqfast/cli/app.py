"""All commands, and what they share: the options before the command, and how an error is shown."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import RqfastError
from .console import tell
from .exits import FAILED, INTERRUPTED, PIPE_CLOSED, USAGE, WELL, Misused, epilog, status_of
from .help import NAMES, Sections
from .options import Debug, Shown

# What click raises for a command line that it does not understand; its place depends on the version of typer.
UsageError: type[Any] = typer.BadParameter.__mro__[1]

# What typer (or pydantic behind it) says of a value, and how people say it.
PLAINER = (
    (re.compile(r"Input should be a valid integer.*|'.*' is not a valid (integer|int)"), "it must be a whole number"),
    (re.compile(r"Input should be a valid number.*|'.*' is not a valid float"), "it must be a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"it must be \1 at least"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"it must be \1 at most"),
    (re.compile(r"Value error, "), ""),
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"rqfast {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Debug = False,
) -> None:
    """A message queue on rqlite or SQLite: first in, first out in each group.

    Each command tells more: rqfast COMMAND --help. The database is --url, or the variable RQFAST_URL.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


def make_app(names: Iterable[str] = NAMES) -> typer.Typer:
    """These commands (typer.Typer); each is what its module has under its name."""
    app = typer.Typer(
        name="rqfast",
        cls=Sections,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        invoke_without_command=True,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_options)
    for name in names:
        command = getattr(importlib.import_module(f".{name}", __package__), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            app.command(epilog=epilog(name))(command)
    return app


def run() -> int:
    """Run the command that `sys.argv` names; returns the exit status (int), see exits.py.

    An error is one line on stderr; with --debug its traceback comes first.
    """
    Shown.debug = False
    try:
        status = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    return status


def _run() -> int:
    try:
        # The others are not even imported: half of the time that a short command takes.
        named = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
        told = make_app([named] if named in NAMES else NAMES)(prog_name="rqfast", standalone_mode=False)
        return told if isinstance(told, int) else WELL
    except SystemExit as done:
        if isinstance(done.__context__, BrokenPipeError):
            return _pipe_closed()
        return done.code if isinstance(done.code, int) else int(bool(done.code))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except UsageError as error:
        return _misunderstood(error)
    except Exception as error:
        return _failed(error)


def _misunderstood(error: Any) -> int:
    """A command line that is none: how to call it, in a line; of a command without arguments its help."""
    context = error.ctx
    command = "rqfast" if context is None else context.command_path
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(context.get_help())
        return USAGE
    text = error.format_message().rstrip(".")
    for theirs, ours in PLAINER:
        text = theirs.sub(ours, text)
    told = (
        text if isinstance(error, Misused) else f"{text}{'' if text.endswith('?') else ';'} {command} --help tells more"
    )
    tell(f"{command}: {told}")
    return USAGE


def _failed(error: Exception) -> int:
    if Shown.debug:
        traceback.print_exception(error)
    text = str(error) or type(error).__name__
    if not isinstance(error, RqfastError | OSError):
        text = f"{type(error).__name__}: {text} (a fault of rqfast: --debug shows where)"
    tell(f"rqfast: {text}")
    return status_of(error) or FAILED


def _pipe_closed() -> int:
    """Whoever read has had enough: nothing more is written, nor complained of at the end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None
    return PIPE_CLOSED
