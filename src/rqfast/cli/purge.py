"""`rqfast purge`: the messages of a group, or of the queue, go."""

from __future__ import annotations

from typing import Annotated

import typer

from .asking import must_agree
from .console import json_line, make_console, say, tell
from .exits import Misused
from .options import Debug, GroupOrAll, Json, Queue, Url, Yes
from .pause import which
from .progress import watched
from .queue import open_queue
from .wording import count


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
            with watched("Purging", before, "messages", lambda: before - transport.stats().messages):
                done = transport.purge(group, everything=group is None)
        except KeyboardInterrupt:
            left = count(transport.stats().messages, "message is", "messages are")
            tell(f"rqfast: interrupted; {left} still in the queue")
            raise
    if json:
        json_line({"purged": done})
    else:
        say(make_console(), f"Deleted {count(done, 'message')}.")
