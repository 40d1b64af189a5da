"""What `rqfast top` shows: looked at again and again in a thread, so that keys are heard while a cluster does not
answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..api import Transport
from ..errors import RqfastError
from ..model import GroupInfo, Stats
from ..observe.overview import Overview, look
from ..verify.found import NodeState
from .queue import place

# A look may cost this part of the time at most: it is work for the database.
SHARE = 0.25
HISTORY = 60
# Figures are old after so many intervals.
OLD = 2
GROUPS = 100


@dataclass(slots=True)
class Seen:
    """What was seen last.

    Attributes:
        stats, groups, overview: of the queue; None before the first look.
        nodes: of the cluster, as they were when they could be looked at last.
        at: when, on this process's monotonic clock.
        every: seconds between two looks, in force since then.
        published, done: messages a second since the look before; None before the second look.
        trouble: why the last look failed; "" when it did not.
        of_nodes: why the nodes could not be looked at, though the queue could; "" when they could.
        looks: how many there were.
        history: published and done of the looks before, the newest last.
    """

    stats: Stats | None = None
    groups: list[GroupInfo] = field(default_factory=list)
    overview: Overview | None = None
    nodes: list[NodeState] = field(default_factory=list)
    at: float = 0.0
    every: float = 1.0
    published: float | None = None
    done: float | None = None
    trouble: str = ""
    of_nodes: str = ""
    looks: int = 0
    history: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def is_old(self, now: float) -> bool:
        """Whether a look is overdue, at this time of the monotonic clock."""
        return self.stats is not None and now - self.at > OLD * self.every

    def knows_nodes(self, now: float) -> bool:
        """Whether what was seen of the nodes may still be so."""
        return not self.trouble and not self.of_nodes and not self.is_old(now)


def trouble(error: Exception) -> str:
    """What an error says, in a line (str)."""
    text = " ".join(str(error).split())
    if text and isinstance(error, RqfastError | OSError):
        return text
    return f"{type(error).__name__}: {text} (a fault of rqfast)"


class Feed:
    """Looks at a queue each `every` seconds.

    Attributes:
        seen: what was seen last; whoever looks at it holds `lock`.
        news: set after each look.
        order: of the groups.

    Args:
        timeout: bounds each question about the queue, in seconds.
        now: the monotonic clock.
    """

    def __init__(
        self,
        transport: Transport[Any],
        url: str | None,
        queue: str | None,
        every: float,
        timeout: float = 4.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._where, self._is_rqlite = place(url)
        self._queue = queue or None
        self._every = every
        self._timeout = timeout
        self.now = now
        self._ended = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rqfast-top", daemon=True)
        self.lock = threading.Lock()
        self.news = threading.Event()
        self.seen = Seen(every=every)
        self.order = "oldest"

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a look that is on its way is not waited for."""
        self._ended.set()
        self._hurry.set()

    def hurry(self) -> None:
        """Look now."""
        self._hurry.set()

    def look(self) -> None:
        """Once."""
        began = self.now()
        try:
            stats = self._transport.stats()
            groups = self._transport.groups(order=self.order, limit=GROUPS)
            # The nodes are waited for, which is no work for the database.
            worked = self.now() - began
            overview = asyncio.run(look(self._where, self._is_rqlite, self._queue, self._timeout))
        except Exception as error:  # whatever it is, it is shown, and the next look may do better
            with self.lock:
                self.seen.trouble = trouble(error)
        else:
            every = max(self._every, worked / SHARE, self.now() - began)
            self._take_in(stats, groups, overview, every)
        self.seen.looks += 1
        self.news.set()

    def _take_in(self, stats: Stats, groups: list[GroupInfo], overview: Overview, every: float) -> None:
        now = self.now()
        with self.lock:
            seen = self.seen
            if seen.stats is not None and seen.overview is not None:
                seconds = max(now - seen.at, 1e-3)
                published = overview.last_seq - seen.overview.last_seq
                left = published - (stats.messages - seen.stats.messages) - (stats.dead - seen.stats.dead)
                seen.published, seen.done = published / seconds, max(0, left) / seconds
                seen.history.append((seen.published, seen.done))
            seen.stats, seen.groups, seen.overview, seen.at, seen.every = stats, groups, overview, now, every
            seen.trouble, seen.of_nodes = "", overview.trouble
            seen.nodes = seen.nodes if overview.trouble else overview.nodes

    def _run(self) -> None:
        while not self._ended.is_set():
            began = self.now()
            self._hurry.clear()
            self.look()
            # One that failed was no work for the database, and the next may do better.
            every = self._every if self.seen.trouble else self.seen.every
            self._hurry.wait(max(0.0, every - (self.now() - began)))
