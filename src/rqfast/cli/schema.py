"""`rqfast schema`: what stands in a database, and the end of moving over from the plain transport."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from ..connect import connect
from ..sql.names import TRIGGERS
from ..transport.schema import Schema, check_schema, finish, read_schema
from .advice import advised
from .console import json_line, make_console, say, show, without_password
from .exits import FAILED, epilog
from .options import Debug, Json, Url
from .queue import named, place

OneQueue: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--queue", "-q", help="Just this queue; '' is the one without a name. By default all.", metavar="NAME"
    ),
]

schema = typer.Typer(
    name="schema", help="Look after the tables of a database.", no_args_is_help=True, rich_markup_mode=None
)


@schema.command("show", epilog=epilog("schema show"))
def show_schema(url: Url = None, json: Json = False, debug: Debug = False) -> None:
    """Show the queues of a database, and whether workers of the plain transport may share the default one."""
    where, is_rqlite = place(url)
    found = asyncio.run(read_schema(where, is_rqlite))
    if json:
        json_line({"database": without_password(where)} | asdict(found))
    else:
        show(make_console(), rows(where, found))


@schema.command("check", epilog=epilog("schema check"))
def check_tables(url: Url = None, queue: OneQueue = None, json: Json = False, debug: Debug = False) -> None:
    """Check that the tables of all queues are complete and of the version that this rqfast knows.

    What is in the tables is checked by `rqfast verify`.
    """
    where, is_rqlite = place(url)
    found = asyncio.run(check_schema(where, is_rqlite, queue))
    console = make_console()
    for name, faults in found.items():
        if json:
            json_line({"queue": name, "faults": faults})
            continue
        say(console, f"{named(name).capitalize()}: {'; '.join(faults) or 'complete'}.")
    if not json and not found:
        say(console, "No queue of rqfast is in this database.")
    if not json and any(found.values()):
        mends = advised(queue, "verify", "--repair")
        say(console, f"{mends} makes indexes and views anew; tables come from a backup.")
    if any(found.values()):
        raise typer.Exit(FAILED)


@schema.command("upgrade", epilog=epilog("schema upgrade"))
def upgrade_schema(url: Url = None, json: Json = False, debug: Debug = False) -> None:
    """Take over the tables of the plain transport as the default queue, in place; may be repeated.

    Its workers may go on meanwhile. Whatever opens the default queue does the same; this does it and nothing else.
    """
    where, is_rqlite = place(url)
    found = asyncio.run(read_schema(where, is_rqlite))
    if found.plain:
        connect(where).close()
    if json:
        json_line({"upgraded": found.plain})
    elif found.plain:
        say(make_console(), "Done: the tables of the plain transport are the default queue of rqfast.")
    else:
        say(make_console(), "Nothing to do: no tables of an older version, nor of the plain transport alone.")


@schema.command("finish", epilog=epilog("schema finish"))
def finish_schema(url: Url = None, json: Json = False, debug: Debug = False) -> None:
    """Let no worker of the plain transport in any more. When the last one is gone; may be repeated."""
    where, is_rqlite = place(url)
    found = asyncio.run(finish(where, is_rqlite))
    if json:
        json_line({"finished": bool(found.triggers), "old_leases": found.old_leases})
        return
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
    elif found.plain:
        told["plain tables"] = "of the plain transport; `rqfast schema upgrade` takes them over"
    return told


def old_workers(found: Schema) -> str:
    """Whether they are let in (str)."""
    if not found.triggers:
        return "not let in: `rqfast schema finish` was run"
    if len(found.triggers) < len(TRIGGERS):
        return f"not safe: only {len(found.triggers)} of {len(TRIGGERS)} triggers stand; run `rqfast schema finish`"
    return f"let in: all {len(TRIGGERS)} triggers stand; {found.old_leases:,} messages are in their work"
