"""`rqfast purge`: the messages of a group, or of the queue, go."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import typer

from ..api import Transport
from ..errors import RqfastError
from .asking import must_agree
from .console import json_line, make_console, say, tell
from .exits import Misused
from .options import Debug, GroupOrAll, Json, Queue, Url, Yes
from .pause import which
from .progress import Bar
from .queue import open_queue
from .wording import count

# How often the bar moves, in seconds; it costs a look at the queue.
LOOK = 1.0


def purge(
    group: GroupOrAll = None,
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
        what = f"the {count(before, 'message')}" if group is None else "the messages"
        must_agree(f"Delete {what} of {which(group, queue)} for good?", yes)
        try:
            done = _purge(transport, group, before)
        except KeyboardInterrupt:
            tell(f"rqfast: interrupted; {count(transport.stats().messages, 'message is', 'messages are')} still there")
            raise
    if json:
        json_line({"purged": done})
    else:
        say(make_console(), f"Deleted {count(done, 'message')}.")


def _purge(transport: Transport[Any], group: str | None, before: int) -> int:
    """Purge, with a bar that looks at the queue now and then."""
    ended = threading.Event()
    with Bar("Purging", before if group is None else None) as bar:

        def look() -> None:
            while not ended.wait(LOOK):
                try:
                    bar.update(max(0, before - transport.stats().messages))
                except RqfastError:  # the call itself says it
                    return

        threading.Thread(target=look, daemon=True).start()
        try:
            return transport.purge(group, everything=group is None)
        finally:
            ended.set()
