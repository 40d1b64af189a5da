"""`rqfast pause`: nothing is claimed from a group, or from the queue, until it is resumed."""

from __future__ import annotations

from .console import json_line, make_console, one_line, say
from .options import Debug, GroupOrAll, Json, Queue, Url
from .queue import named, open_queue


def pause(
    group: GroupOrAll = None, url: Url = None, queue: Queue = None, json: Json = False, debug: Debug = False
) -> None:
    """Let nothing be claimed from a group, or the whole queue, by any process, until `rqfast resume`.

    What is in work may settle, publishing goes on. It holds whether the group has messages or not.
    """
    with open_queue(url, queue) as transport:
        transport.pause(group)
    if json:
        json_line({"paused": group, "queue": queue or ""})
    else:
        say(make_console(), f"Paused {which(group, queue)}; `rqfast resume` ends it.")


def which(group: str | None, queue: str | None) -> str:
    """The group, or the queue, in a sentence (str)."""
    return f"all of {named(queue)}" if group is None else f"group {one_line(group)} of {named(queue)}"
