"""`rqfast inbox`: whether a table of the user's own has what a subscription on it needs."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Annotated, Any

import typer

from ..address.inbox import Address, Inbox, as_address
from ..connect import locate
from ..errors import ConfigError, SchemaError
from ..transport.desk import Reads
from ..transport.schema import on_tables
from ..worker.inbox_check import Found, examine
from .console import make_console, say, show_rows
from .options import Debug

inbox = typer.Typer(
    name="inbox", help="Look after tables of your own that are worked.", no_args_is_help=True, rich_markup_mode=None
)


@inbox.callback()
def _commands() -> None:
    """Keeps `check` a command of its own, as the only one."""


@inbox.command()
def check(
    url: Annotated[str, typer.Argument(help="Database: http://host:4001 for rqlite, or a file.")],
    where: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="An Inbox, one of its groups, or its class.")],
    table: Annotated[str | None, typer.Option(help="The table, where NAME is a class.")] = None,
    debug: Debug = False,
) -> None:
    """Show which column is for what, and which index is missing; exit status 1 when something is."""
    address = load(where, table)
    place, is_rqlite = locate(url)

    async def look(read: Reads) -> Found:
        return await examine(address, read)

    console = make_console()
    show_rows(console, ("role", "column", ""), rows(address.inbox))
    try:
        found = asyncio.run(on_tables(place, is_rqlite, look))
    except SchemaError as error:
        say(console, f"Missing: {error}")
        raise typer.Exit(1) from None
    if not found.missing:
        say(console, "Nothing is missing.")
        return
    for kind, index in found.missing.items():
        say(console, f"Missing: the index by which {'rows are claimed' if kind == 'claim' else 'leases are found'}:")
        say(console, f"{index.create};")
    raise typer.Exit(1)


def rows(box: Inbox) -> list[tuple[str, str, str]]:
    """Each role, its column, and what is said of it; then the columns without a role."""
    kind = "one row in work, in order" if box.fifo else "one row in work" if box.exclusive else "side by side"
    told = []
    for role, column in box.roles.items():
        said = [kind] if role == "group" else []
        said += ["generated"] if column in box.generated else []
        said += ["ISO 8601 text"] if column in box.iso_text else []
        told.append((role, column, ", ".join(said)))
    plain = [column for column in box.attributes.values() if column not in box.roles.values()]
    return told + [("", column, "generated" if column in box.generated else "") for column in plain]


def load(where: str, table: str | None) -> Address:
    """The address that MODULE:NAME means.

    Raises:
        ConfigError: there is none.
    """
    module_name, _, name = where.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{where!r}: module:Name, as in shop.jobs:SyncChange")
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"module {module_name} cannot be imported: {error}") from error
    found: Any = getattr(module, name, None)
    if isinstance(found, Inbox | Address):
        return as_address(found)
    if not isinstance(found, type):
        raise ConfigError(f"{where}: an Inbox, an address of one, or its class, not {type(found).__name__}")
    if table is not None:
        return as_address(Inbox(found, table))
    for value in vars(module).values():
        if isinstance(value, Inbox | Address) and as_address(value).inbox.row_class is found:
            return as_address(value)
    raise ConfigError(f"{where} is a class, and no Inbox of it stands in that module: say --table")
