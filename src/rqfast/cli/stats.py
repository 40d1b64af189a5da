"""`rqfast stats`: a queue in figures."""

from __future__ import annotations

from dataclasses import asdict

import orjson
import typer

from ..model import Stats
from .console import make_console, show
from .options import Debug
from .queue import Json, Queue, Url, open_queue


def stats(url: Url = None, queue: Queue = None, json: Json = False, debug: Debug = False) -> None:
    """Show how many messages a queue has, in which state, and how long the oldest has waited."""
    with open_queue(url, queue) as transport:
        found = transport.stats()
    if json:
        typer.echo(orjson.dumps(asdict(found)).decode())
    else:
        show(make_console(), rows(found))


def rows(stats: Stats) -> dict[str, str]:
    """The figures as people read them: what -> how much."""
    told = {
        "messages": f"{stats.messages:,} in {stats.groups:,} groups",
        "claimable": _aged(stats.claimable, stats.oldest_claimable_age),
        "in work": _aged(stats.in_work, stats.oldest_in_work_age),
        "parked": f"{stats.parked:,}",
        "delayed": f"{stats.delayed:,}",
        "paused": f"{stats.paused:,} groups",
        "dead": f"{stats.dead:,} dead letters",
    }
    if stats.queue_paused:
        told["paused"] = "the whole queue"
    return told


def _aged(count: int, age: float | None) -> str:
    return f"{count:,}" if age is None else f"{count:,}, the oldest for {age:,.1f} s"
