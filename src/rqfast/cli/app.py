"""What all commands share: the options before the command, and how an error is shown."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import RqfastError
from .demo import demo
from .dev import dev
from .groups import groups
from .inbox import inbox
from .options import Debug, Shown
from .publish import publish
from .schema import schema
from .soak import soak
from .stats import stats
from .verify import verify

INTERRUPTED = 130


def _version(value: bool) -> None:
    if value:
        typer.echo(f"rqfast {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Debug = False,
) -> None:
    """A message queue on rqlite or SQLite: first in, first out in each group."""


def make_app() -> typer.Typer:
    """All commands (typer.Typer)."""
    app = typer.Typer(
        name="rqfast", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(_options)
    for command in (demo, dev, stats, groups, publish, soak, verify):
        app.command()(command)
    app.add_typer(schema)
    app.add_typer(inbox)
    return app


def run() -> int:
    """Run the command that `sys.argv` names; returns the exit status (int).

    An error of ours or of the system is one line on stderr and 1; with --debug it is raised.
    """
    Shown.debug = False
    try:
        make_app()(prog_name="rqfast")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(bool(done.code))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RqfastError, OSError) as error:
        if Shown.debug:
            raise
        sys.stderr.write(f"rqfast: {' '.join(str(error).split()) or type(error).__name__}\n")
        return 1
    return 0
