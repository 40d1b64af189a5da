"""`rqfast queues`: which queues a database has."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from ..transport.schema import read_schema
from .console import Column, json_line, make_console, say, show_rows
from .options import Debug, Json, Url
from .queue import open_queue, place

HEADS = (
    Column("queue"),
    *(Column(head, right=True) for head in ("messages", "groups", "claimable", "in work", "parked", "dead")),
    Column(""),
)


def queues(url: Url = None, json: Json = False, debug: Debug = False) -> None:
    """Show the queues of a database, and how much is in each."""
    where, is_rqlite = place(url)
    rows = []
    for name in asyncio.run(read_schema(where, is_rqlite)).queues:
        with open_queue(url, name) as transport:
            found = transport.stats()
        if json:
            json_line({"queue": name} | asdict(found))
            continue
        figures = (found.messages, found.groups, found.claimable, found.in_work, found.parked, found.dead)
        paused = "paused" if found.queue_paused else ""
        rows.append([name or "(default)", *(f"{number:,}" for number in figures), paused])
    if json:
        return
    console = make_console()
    if rows:
        show_rows(console, HEADS, rows)
    else:
        say(console, "No queues.")
