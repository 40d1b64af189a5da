"""`rqfast pause`: nothing is claimed from a group, or from the queue, until it is resumed."""

from __future__ import annotations

from typing import Any

from ..api import Transport
from .advice import advised
from .console import json_line, make_console, one_line, say
from .options import Debug, GroupOrAll, Json, Queue, Url
from .queue import named, open_queue

PAGE = 10_000


def pause(
    group: GroupOrAll = None, url: Url = None, queue: Queue = None, json: Json = False, debug: Debug = False
) -> None:
    """Let nothing be claimed from a group, or the whole queue, by any process, until `rqfast resume`.

    What is in work may settle, publishing goes on. It holds whether the group has messages or not.
    """
    with open_queue(url, queue) as transport:
        transport.pause(group)
        is_empty = group is not None and not json and not transport.peek(group, 1)
    if json:
        json_line({"paused": group, "queue": queue or ""})
    else:
        none = " (it has no messages now)" if is_empty else ""
        say(make_console(), f"Paused {which(group, queue)}{none}; {advised(queue, 'resume', group=group)} ends it.")


def is_paused(transport: Transport[Any], group: str | None) -> bool:
    """Whether the group is paused by name; without one, the whole queue."""
    if group is None:
        return transport.stats().queue_paused
    page = transport.groups(state="paused", limit=PAGE)
    while page:
        if any(one.group_id == group for one in page):
            return True
        page = transport.groups(state="paused", limit=PAGE, after=page[-1]) if len(page) == PAGE else []
    return False


def which(group: str | None, queue: str | None) -> str:
    """The group, or the queue, in a sentence (str)."""
    return f"all of {named(queue)}" if group is None else f"group {one_line(group)} of {named(queue)}"
