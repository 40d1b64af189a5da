"""`rqfast delete`: one message goes."""

from __future__ import annotations

from typing import Annotated

import typer

from .advice import advised
from .console import json_line, make_console, say, tell
from .exits import FAILED
from .options import Debug, Json, Queue, Url
from .queue import named, open_queue


def delete(
    seq: Annotated[int, typer.Argument(help="Its number, as `rqfast peek` shows it.", metavar="SEQ")],
    url: Url = None,
    queue: Queue = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete a message for good, unless it is in work."""
    with open_queue(url, queue) as transport:
        done = transport.delete(seq)
    if json:
        json_line({"deleted": done, "seq": seq, "queue": queue or ""})
    elif done:
        say(make_console(), f"Deleted message {seq}.")
    if not done:
        tell(
            f"rqfast: no message {seq} in {named(queue)} that is not in work "
            f"({advised(queue, 'release')} ends a lease; {advised(queue, 'dead', 'drop')} deletes dead letters)"
        )
        raise typer.Exit(FAILED)
