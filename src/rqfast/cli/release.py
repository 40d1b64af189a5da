"""`rqfast release`: a lease or a parking ends now."""

from __future__ import annotations

import typer

from .console import json_line, make_console, one_line, say, tell
from .exits import FAILED
from .options import Debug, Group, Json, Queue, Url
from .queue import named, open_queue


def release(group: Group, url: Url = None, queue: Queue = None, json: Json = False, debug: Debug = False) -> None:
    """End the lease or the parking that holds a group, now: for a worker that hangs.

    Its holder is told that the lease is lost; attempts stay.
    """
    with open_queue(url, queue) as transport:
        done = transport.release(group)
    if json:
        json_line({"released": done, "group_id": group, "queue": queue or ""})
    elif done:
        say(make_console(), f"Released group {one_line(group)}: its head can be claimed.")
    if not done:
        tell(f"rqfast: nothing holds group {one_line(group)} of {named(queue)}: no lease, no parking")
        raise typer.Exit(FAILED)
