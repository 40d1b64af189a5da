"""`rqfast top`: a queue, live.  What is looked at is in top_feed.py, how it is shown in top_screen.py."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from ..api import Transport
from .advice import advised
from .console import json_line, make_console, one_line, without_password
from .exits import Misused
from .keys import DOWN, ESCAPE, UP, Keys
from .options import Debug, Json, Queue, Url
from .pause import is_paused
from .queue import named, open_queue, place
from .top_feed import Feed, trouble
from .top_screen import View, draw, has_footer
from .wording import count

# How long a key is waited for before the screen is looked at again, in seconds.
BEAT = 0.1
# How often it is shown how old the figures are, in seconds.
AGES = 0.5
# How long a look or a key may take on a cluster, in seconds.
TIMEOUT = 4.0
TOO_SMALL = "Too small a terminal to act"
ORDERS = ("oldest", "depth", "attempts")


def top(
    url: Url = None,
    queue: Queue = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    times: Annotated[int | None, typer.Option(min=1, help="With --json: so many looks.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Watch a queue: rates, depth, the oldest, what is held back, the nodes; with keys to pause, resume and redrive.

    With --json a line for each look, until it is stopped. Looking costs the database as much as `rqfast stats` and
    `rqfast groups`; in a large queue it looks less often.
    """
    if not json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Misused(f"top needs a terminal; --json writes lines, and {advised(queue, 'stats')} figures")
    if times is not None and not json:
        raise Misused("--times goes with --json")
    with open_queue(url, queue, timeout=TIMEOUT) as transport:
        feed = Feed(transport, url, queue, every, TIMEOUT)
        try:
            if json:
                _lines(feed, times)
            else:
                title = f"{named(queue)} on {without_password(place(url)[0])}"
                _Screen(transport, feed, View(title)).run()
        except KeyboardInterrupt:
            return
        finally:
            feed.stop()


def _lines(feed: Feed, times: int | None) -> None:
    """A line for each look."""
    feed.start()
    while times is None or times > 0:
        feed.news.wait()
        feed.news.clear()
        with feed.lock:
            seen = feed.seen
            told: dict[str, Any] = {} if seen.stats is None else asdict(seen.stats)
            now = feed.now()
            told |= {"published_a_second": seen.published, "done_a_second": seen.done}
            told |= {"error": seen.trouble or seen.of_nodes or None}
            if seen.overview is not None:
                told["age"] = round(now - seen.at, 1)
                told["nodes"] = [asdict(node) for node in seen.nodes] if seen.knows_nodes(now) else None
        json_line(told)
        sys.stdout.flush()
        times = None if times is None else times - 1


class _Screen:
    """The screen and its keys."""

    def __init__(self, transport: Transport[Any], feed: Feed, view: View) -> None:
        self._transport = transport
        self._feed = feed
        self._view = view
        self._console: Console = make_console()
        self._question: Callable[[], str] | None = None
        self._size = (0, 0)
        self._may_act = False
        self._drawn = 0.0

    def run(self) -> None:
        """Until q."""
        self._feed.start()
        with Keys() as keys, Live(console=self._console, screen=True, auto_refresh=False) as live:
            changed = True
            while True:
                size = (self._console.width, self._console.height)
                now = self._feed.now()
                ages = now >= self._drawn + AGES and (self._feed.seen.trouble or self._feed.seen.is_old(now))
                if changed or ages or self._feed.news.is_set() or size != self._size:
                    self._feed.news.clear()
                    self._size, self._drawn = size, now
                    with self._feed.lock:
                        now = self._feed.now()
                        self._may_act = has_footer(self._feed.seen, *size, now)
                        live.update(draw(self._feed.seen, self._view, *size, now), refresh=True)
                key = keys.get(BEAT)
                changed = key is not None
                if key is not None and not self._pressed(key):
                    return

    def _pressed(self, key: str) -> bool:
        """Whether to go on."""
        view = self._view
        if self._question is not None:
            self._answered(key)
            return True
        view.line = ""
        if key in ("q", "Q"):
            return False
        if key in (UP, DOWN, "k", "j"):
            self._choose(-1 if key in (UP, "k") else 1)
        elif key == ESCAPE:
            view.chosen = None
        elif key == "s":
            view.order = ORDERS[(ORDERS.index(view.order) + 1) % len(ORDERS)]
            self._feed.order = view.order
            self._feed.hurry()
        else:
            self._ask(key)
        return True

    def _choose(self, step: int) -> None:
        with self._feed.lock:
            names = [group.group_id for group in self._feed.seen.groups]
        if not names:
            return
        chosen = self._view.chosen
        at = names.index(chosen) + step if chosen in names else 0
        self._view.chosen = names[max(0, min(at, len(names) - 1))]

    def _ask(self, key: str) -> None:
        """What is done to all of a queue is asked for first; what is done to one group is done."""
        group, transport = self._view.chosen, self._transport
        what = "the whole queue" if group is None else f"group {one_line(group)}"
        does: dict[str, tuple[str, Callable[[], str]]] = {
            "p": (f"Pause {what}?", lambda: _paused(transport, group, what)),
            "r": (f"Resume {what}?", lambda: _resumed(transport, group, what)),
            "d": (f"Redrive the dead letters of {what}?", lambda: _redriven(transport, group)),
        }
        if group is not None:
            does["l"] = (f"Release {what}?", lambda: _released(transport, group, what))
        if key not in does:
            return
        if not self._may_act:
            self._view.line = TOO_SMALL
            return
        question, does_it = does[key]
        self._question = does_it
        if group is not None and key != "d":
            self._answered("y")
            return
        self._view.line, self._view.asks = f"{question} y/n", True

    def _answered(self, key: str) -> None:
        question, self._question = self._question, None
        self._view.asks = False
        if question is None or key not in ("y", "Y") or not self._may_act:
            self._view.line = "Nothing was done." if self._may_act else TOO_SMALL
            return
        self._view.line = "…"
        threading.Thread(target=self._do, args=(question,), daemon=True).start()

    def _do(self, action: Callable[[], str]) -> None:
        try:
            self._view.line = action()
        except Exception as error:
            self._view.line = trouble(error)
        self._feed.hurry()
        self._feed.news.set()


def _paused(transport: Transport[Any], group: str | None, what: str) -> str:
    transport.pause(group)
    return f"Paused {what}."


def _resumed(transport: Transport[Any], group: str | None, what: str) -> str:
    was = is_paused(transport, group)
    transport.resume(group)
    if was:
        return f"Resumed {what}."
    return f"{what[:1].upper()}{what[1:]} was not paused."


def _redriven(transport: Transport[Any], group: str | None) -> str:
    return f"Redriven {count(transport.redrive(group), 'dead letter')}."


def _released(transport: Transport[Any], group: str, what: str) -> str:
    return f"Released {what}." if transport.release(group) else f"Nothing holds {what}."
