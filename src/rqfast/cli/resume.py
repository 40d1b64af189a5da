"""`rqfast resume`: a group, or the queue, goes on."""

from __future__ import annotations

from .advice import advised
from .console import json_line, make_console, say
from .options import Debug, GroupOrAll, Json, Queue, Url
from .pause import is_paused, which
from .queue import named, open_queue


def resume(
    group: GroupOrAll = None, url: Url = None, queue: Queue = None, json: Json = False, debug: Debug = False
) -> None:
    """End the pause of a group, or of the whole queue; groups that were paused by name stay so."""
    with open_queue(url, queue) as transport:
        was = is_paused(transport, group)
        transport.resume(group)
        left = transport.stats() if group is None else None
    if json:
        json_line({"resumed": group, "queue": queue or ""})
        return
    console = make_console()
    if was:
        say(console, f"Resumed {which(group, queue)}.")
    else:
        say(console, f"Nothing to do: {named(queue) if group is None else which(group, queue)} was not paused.")
    if left is not None and left.paused:
        say(
            console,
            f"Still paused by name: {left.paused:,}; {advised(queue, 'groups', '--state', 'paused')} shows them.",
        )
