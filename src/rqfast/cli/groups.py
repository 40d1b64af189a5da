"""`rqfast groups`: the groups of a queue, what holds them back, and who."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import orjson
import typer

from ..model import GroupInfo
from .console import make_console, say, show_rows
from .options import Debug
from .queue import Json, Queue, Url, open_queue

HEADS = ("group", "state", "until (UTC)", "depth", "priority", "head", "attempts", "worker", "age")


def groups(
    url: Url = None,
    queue: Queue = None,
    state: Annotated[
        str | None, typer.Option(help="Only those that are claimable, in_work, parked, delayed or paused.")
    ] = None,
    order: Annotated[str, typer.Option(help="oldest, depth or attempts.")] = "oldest",
    limit: Annotated[int, typer.Option(help="So many at most.")] = 100,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the groups of a queue: what holds each back, until when, and who works it."""
    with open_queue(url, queue) as transport:
        found = transport.groups(state=state, order=order, limit=limit)
    if json:
        for group in found:
            typer.echo(orjson.dumps(asdict(group)).decode())
        return
    console = make_console()
    if found:
        show_rows(console, HEADS, [row(group) for group in found])
        if len(found) == limit:
            say(console, f"the first {limit:,}; --limit shows more")
    else:
        say(console, "no groups" if state is None else f"no groups that are {state}")


def row(group: GroupInfo) -> list[str]:
    """A group as people read it."""
    until = ""
    if group.until is not None:
        try:
            until = datetime.fromtimestamp(group.until, UTC).strftime("%Y-%m-%d %H:%M:%S")
        except (ValueError, OverflowError, OSError):
            until = "never"
    return [
        group.group_id,
        group.state,
        until,
        f"{group.depth:,}",
        str(group.priority),
        "" if group.head_seq is None else str(group.head_seq),
        str(group.head_attempts),
        group.worker_id or "",
        "" if group.oldest_age is None else f"{group.oldest_age:,.0f} s",
    ]
