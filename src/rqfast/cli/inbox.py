"""`rqfast inbox`: whether a table of the user's own has what a subscription on it needs."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from ..address.inbox import Address, Inbox, as_address
from ..errors import ConfigError, SchemaError
from ..sql.inbox import WantedIndex
from ..transport.desk import Reads
from ..transport.schema import on_tables
from ..worker.inbox_check import Found, examine
from .console import json_line, make_console, say, show_rows
from .exits import FAILED, epilog
from .loading import load_object
from .options import Debug, Json, Url
from .queue import place

inbox = typer.Typer(
    name="inbox", help="Look after tables of your own that are worked.", no_args_is_help=True, rich_markup_mode=None
)


@inbox.callback()
def _commands() -> None:
    """Keeps `check` a command of its own, as the only one."""


@inbox.command(epilog=epilog("inbox check"))
def check(
    where: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="An Inbox, one of its groups, or its class.")],
    url: Url = None,
    table: Annotated[str | None, typer.Option(help="The table, where NAME is a class.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which column is for what, and which index is missing."""
    address = load(where, table)
    database, is_rqlite = place(url)

    async def look(read: Reads) -> Found:
        return await examine(address, read)

    try:
        found = asyncio.run(on_tables(database, is_rqlite, look))
        missing, error = found.missing, None
    except SchemaError as refused:
        missing, error = {}, str(refused)
    creates = {kind: index.create for kind, index in missing.items()}
    if json:
        json_line(
            {"table": address.inbox.table, "roles": dict(address.inbox.roles), "missing": creates, "error": error}
        )
    else:
        show(make_console(), address.inbox, missing, error)
    if missing or error:
        raise typer.Exit(FAILED)


def show(console: Console, box: Inbox, missing: dict[str, WantedIndex], error: str | None) -> None:
    """Print it for people."""
    show_rows(console, ("role", "column", ""), rows(box))
    if error is not None:
        say(console, f"Missing: {error}")
    for kind, index in missing.items():
        say(console, f"Missing: the index by which {'rows are claimed' if kind == 'claim' else 'leases are found'}:")
        say(console, f"{index.create};")
        if kind == "claim" and box.roles["id"] not in index.columns:
            say(console, f"({box.roles['id']} is the rowid, which ends each index of itself; it may be named as well.)")
    if not missing and error is None:
        say(console, "Nothing is missing.")


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
    module, found = load_object(where, "shop.jobs:SyncChange")
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
