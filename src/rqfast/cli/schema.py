"""`rqfast schema`: what stands in a database, and the end of moving over from the plain transport."""

from __future__ import annotations

import asyncio
from typing import Annotated, TypeAlias

import typer

from ..connect import locate
from ..sql.names import TRIGGERS
from ..transport.schema import Schema, finish, read_schema
from .console import make_console, say, show, without_password
from .options import Debug

Url: TypeAlias = Annotated[
    str | None, typer.Option(help="Database: http://host:4001 for rqlite, or a file. By default RQFAST_URL.")
]

schema = typer.Typer(
    name="schema", help="Look after the tables of a database.", no_args_is_help=True, rich_markup_mode=None
)


@schema.command("show")
def show_schema(url: Url = None, debug: Debug = False) -> None:
    """Show the queues of a database, and whether workers of the plain transport may share the default one."""
    where, is_rqlite = locate(url)
    show(make_console(), rows(where, asyncio.run(read_schema(where, is_rqlite))))


@schema.command("finish")
def finish_schema(url: Url = None, debug: Debug = False) -> None:
    """Let no worker of the plain transport in any more. When the last one is gone; may be repeated."""
    where, is_rqlite = locate(url)
    found = asyncio.run(finish(where, is_rqlite))
    console = make_console()
    if not found.triggers:
        say(console, "Nothing to do: no worker of the plain transport is let in.")
        return
    say(console, "Done: the triggers are gone. No worker of the plain transport may use this queue from now on.")
    if found.old_leases:
        say(console, f"Warning: one or more of them still held {found.old_leases:,} messages. Stop them.")


def rows(where: str, found: Schema) -> dict[str, str]:
    """What stands there: what -> how."""
    told = {"database": without_password(where)}
    told["queues"] = ", ".join(f"{name or '(default)'} (version {n})" for name, n in found.queues.items()) or "none"
    if "" in found.queues:
        told["old workers"] = old_workers(found)
    return told


def old_workers(found: Schema) -> str:
    """Whether they are let in (str)."""
    if not found.triggers:
        return "not let in: `rqfast schema finish` was run"
    if len(found.triggers) < len(TRIGGERS):
        return f"not safe: only {len(found.triggers)} of {len(TRIGGERS)} triggers stand; run `rqfast schema finish`"
    return f"let in: all {len(TRIGGERS)} triggers stand; {found.old_leases:,} messages are in their work"
