"""`rqfast groups`: the groups of a queue, what holds them back, and who."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from ..model import GroupInfo
from .console import Column, json_line, make_console, say, show_rows
from .options import Debug, Json, Queue, Url
from .queue import open_queue
from .wording import age, brief

HEADS = (
    Column("group", middle=True),
    Column("state"),
    Column("depth", right=True),
    Column("age", right=True),
    Column("attempts", right=True),
    Column("head", right=True),
    Column("priority", right=True, spare=True),
    Column("held back (UTC)", fold=True),
)


class Order(StrEnum):
    """By what groups are sorted."""

    oldest = "oldest"
    depth = "depth"
    attempts = "attempts"


class State(StrEnum):
    """What a group is."""

    claimable = "claimable"
    in_work = "in_work"
    parked = "parked"
    delayed = "delayed"
    paused = "paused"


def groups(
    url: Url = None,
    queue: Queue = None,
    state: Annotated[State | None, typer.Option(help="Only those that are so.")] = None,
    order: Annotated[
        Order, typer.Option(help="By the age of the head, the number of messages, or the attempts of the head.")
    ] = Order.oldest,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 100,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the groups of a queue: what holds each back, until when, and who works it."""
    wanted = None if state is None else state.value
    with open_queue(url, queue) as transport:
        found = transport.groups(state=wanted, order=order.value, limit=limit)
    if json:
        for group in found:
            json_line(asdict(group))
        return
    console = make_console()
    if not found:
        say(console, "No groups." if wanted is None else f"No groups that are {wanted}.")
        return
    show_rows(console, HEADS, [row(group) for group in found])
    if len(found) == limit:
        say(console, f"The first {limit:,}; --limit shows more.")


def row(group: GroupInfo) -> list[str]:
    """A group as people read it."""
    return [
        group.group_id,
        group.state,
        f"{group.depth:,}",
        "" if group.oldest_age is None else age(group.oldest_age),
        str(group.head_attempts),
        "" if group.head_seq is None else str(group.head_seq),
        str(group.priority),
        why(group),
    ]


def why(group: GroupInfo) -> str:
    """What holds it back, until when (str); "" where nothing does."""
    until = brief(group.until)
    if group.state == "in_work":
        return f"until {until} by {group.worker_id or 'a worker'}"
    if group.state in ("parked", "delayed"):
        return f"until {until}"
    if group.state == "paused":
        worker = f"; {group.worker_id} works on" if group.worker_id else ""
        return f"until it is resumed{worker}"
    return ""
