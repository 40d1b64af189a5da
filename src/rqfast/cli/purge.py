"""`rqfast purge`: the messages of a group, or of the queue, go."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..api import Transport
from ..model import GroupInfo
from .asking import must_agree
from .console import json_line, make_console, one_line, say, tell
from .exits import Misused
from .options import Debug, Json, Queue, Url, Yes
from .progress import watched
from .queue import named, open_queue
from .wording import count, every

PAGE = 10_000


def purge(
    group: Annotated[
        str | None,
        typer.Argument(help="The group; for the whole queue say --all.", metavar="GROUP", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All messages of the queue.")] = False,
    url: Url = None,
    queue: Queue = None,
    yes: Yes = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete the messages of a group, or of the whole queue, for good; asks before.

    What is in work stays, and so do dead letters, and what is published meanwhile. Interrupted, the rest is there.
    """
    if everything == (group is not None):
        raise Misused("say which: a GROUP, or --all")
    with open_queue(url, queue) as transport:
        before = transport.stats().messages
        agreed = must_agree(lambda: _question(transport, group, queue), yes)
        try:
            with watched("Purging", before, "messages", lambda: before - transport.stats().messages):
                done = transport.purge(group, everything=group is None) if agreed else 0
        except KeyboardInterrupt:
            left = count(transport.stats().messages, "message is", "messages are")
            tell(f"rqfast: interrupted; {left} still in the queue")
            raise
    if json:
        json_line({"purged": done, "queue": queue or ""})
    else:
        say(make_console(), f"Deleted {count(done, 'message')}.")


def _question(transport: Transport[Any], group: str | None, queue: str | None) -> str:
    if group is None:
        found = transport.stats()
        number, is_worked, of = found.messages, found.in_work > 0, named(queue)
    else:
        there = _found(transport, group)
        is_worked = there is not None and there.worker_id is not None
        number = there.depth if there is not None else len(transport.peek(group, PAGE))
        of = f"group {one_line(group)} of {named(queue)}"
    stays = ", but for what is in work," if is_worked else ""
    return f"Delete {every(number, 'message')} of {of}{stays} for good?" if number else ""


def _found(transport: Transport[Any], group: str) -> GroupInfo | None:
    page = transport.groups(limit=PAGE)
    while page:
        for one in page:
            if one.group_id == group:
                return one
        page = transport.groups(limit=PAGE, after=page[-1]) if len(page) == PAGE else []
    return None
