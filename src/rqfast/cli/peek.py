"""`rqfast peek`: the first messages of a group."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..model import StoredMessage
from .console import Column, json_line, make_console, one_line, say, show_rows
from .options import Debug, Group, Json, Payload, Queue, Url
from .queue import open_queue
from .wording import brief

HEADS = (
    Column("seq", right=True),
    Column("attempts", right=True),
    Column("rank", right=True),
    Column("published (UTC)"),
    Column("due (UTC)", spare=True),
    Column("bytes", right=True, spare=True),
)
WITH_PAYLOAD = (*HEADS, Column("payload", fold=True))


def peek(
    group: Group,
    url: Url = None,
    queue: Queue = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 10,
    payload: Payload = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the first messages of a group, in the order in which they are claimed; takes none."""
    with open_queue(url, queue) as transport:
        found = transport.peek(group, limit)
    if json:
        for message in found:
            json_line(fields(message, payload))
        return
    console = make_console()
    if not found:
        say(console, f"Group {one_line(group)} has no messages.")
        return
    show_rows(console, WITH_PAYLOAD if payload else HEADS, [row(message, payload) for message in found])
    if len(found) == limit:
        say(console, f"The first {limit:,}; --limit shows more.")


def row(message: StoredMessage[Any], payload: bool) -> list[str]:
    """A message as people read it."""
    told = [
        str(message.seq),
        str(message.attempts),
        str(message.rank),
        brief(message.published_at),
        brief(message.due_at),
        f"{len(message.raw.encode()):,}",
    ]
    return [*told, message.raw] if payload else told


def fields(message: StoredMessage[Any], payload: bool) -> dict[str, Any]:
    """A message for programs; its text as it is stored, so that no digit of it changes."""
    told: dict[str, Any] = {
        name: getattr(message, name)
        for name in ("seq", "group_id", "priority", "attempts", "rank", "published_at", "due_at", "headers")
    }
    told["bytes"] = len(message.raw.encode())
    return told | {"raw": message.raw} if payload else told
