"""`rqfast stats`: a queue in figures."""

from __future__ import annotations

from dataclasses import asdict

from ..model import Stats
from ..observe.states import states
from .console import json_line, make_console, show
from .options import Debug, Json, Queue, Url
from .queue import open_queue
from .wording import age, count


def stats(url: Url = None, queue: Queue = None, json: Json = False, debug: Debug = False) -> None:
    """Show how many messages a queue has, in which state, and how long the oldest has waited.

    Each message is in one of the lines from claimable to waiting. So delayed counts messages, where
    `rqfast groups --state delayed` shows the groups whose head is delayed.
    """
    with open_queue(url, queue) as transport:
        found = transport.stats()
    if json:
        json_line(asdict(found))
    else:
        show(make_console(), rows(found))


def rows(stats: Stats) -> dict[str, str]:
    """The figures as people read them: what -> how much."""
    waiting = states(stats)["waiting"]
    told = {
        "messages": f"{stats.messages:,} in {count(stats.groups, 'group')}",
        "claimable": _aged(stats.claimable, stats.oldest_claimable_age),
        "in work": _aged(stats.in_work, stats.oldest_in_work_age),
        "parked": f"{stats.parked:,}",
        "delayed": f"{stats.delayed:,}",
        "waiting": f"{waiting:,} behind the head of their group, or paused" if waiting else "0",
        "paused": count(stats.paused, "group"),
        "dead": count(stats.dead, "dead letter"),
    }
    if stats.queue_paused:
        told["paused"] = "the whole queue"
    return told


def _aged(number: int, seconds: float | None) -> str:
    return f"{number:,}" if seconds is None else f"{number:,}, the oldest for {age(seconds)}"
