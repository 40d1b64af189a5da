"""Two old workers and publishers and two new ones at once, on a database that the plain transport made."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from bench.reference import Event
from tests.contract.views import Clock
from tests.moving.conftest import MixedQueue

MESSAGES = 2000
GROUPS = 50
# What old publishers have put in before rqfast comes.
BEFORE = 200
SECONDS = 100.0


class Journal:
    """What all workers did; a worker that enters a group where another is at work is a clash."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: Counter[str] = Counter()
        self.clashes: list[str] = []
        self.done: defaultdict[str, list[tuple[int, Event]]] = defaultdict(list)
        self.by: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return sum(self.by.values())

    def enter(self, lease: Any, who: str) -> None:
        with self._lock:
            self._inside[lease.group_id] += 1
            if self._inside[lease.group_id] > 1:
                self.clashes.append(lease.group_id)
            self.done[lease.group_id].append((lease.seq, lease.event))
            self.by[who] += 1

    def leave(self, lease: Any) -> None:
        with self._lock:
            self._inside[lease.group_id] -= 1


class Crew:
    """Threads that stop together, and whatever was raised in them."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        def guard() -> None:
            try:
                work()
            except BaseException as error:
                self.errors.append(error)
                self.stop.set()

        self._threads.append(threading.Thread(target=guard, daemon=True))
        self._threads[-1].start()

    def join(self) -> None:
        end = time.monotonic() + SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self.stop.set()
        assert self.errors == []
        assert not any(thread.is_alive() for thread in self._threads), "still at work"


def work(transport: Any, who: str, journal: Journal, crew: Crew) -> None:
    """Claim one at a time; old and new workers call the same methods."""
    while not crew.stop.is_set() and journal.count < MESSAGES:
        lease = transport.claim(who, 60.0)
        if lease is None:
            time.sleep(0.005)
            continue
        journal.enter(lease, who)
        journal.leave(lease)
        transport.ack(lease)


@pytest.mark.timeout(240)
def test_old_and_new_workers_and_publishers_on_one_database(q: MixedQueue) -> None:
    plain = [q.open_plain() for _ in range(4)]
    for n in range(BEFORE):
        plain[0].publish(f"g{n % GROUPS}", Event(n))
    journal, crew = Journal(), Crew()
    share = (MESSAGES - BEFORE) // 4

    def publish(transport: Any, number: int) -> None:
        first = BEFORE + number * share
        for n in range(first, first + share):
            transport.publish(f"g{n % GROUPS}", Event(n))

    for number in range(2):
        crew.start(lambda n=number: publish(plain[n], n))  # type: ignore[misc]
        crew.start(lambda n=number: work(plain[2 + n], f"old {n}", journal, crew))  # type: ignore[misc]
    # The old ones are at work: now rqfast opens their database.
    views = [q.open(decode=Event.model_validate_json, lost="warn") for _ in range(4)]
    for number in range(2):
        crew.start(lambda n=number: publish(views[n], 2 + n))  # type: ignore[misc]
        crew.start(lambda n=number: work(views[2 + n], f"new {n}", journal, crew))  # type: ignore[misc]
    crew.join()
    assert journal.clashes == []
    numbers = [event.number for done in journal.done.values() for _, event in done]
    assert sorted(numbers) == list(range(MESSAGES))
    for group, done in journal.done.items():
        assert [seq for seq, _ in done] == sorted(seq for seq, _ in done), f"{group} is out of order"
    assert all(journal.by[who] > 0 for who in ("old 0", "old 1", "new 0", "new 1")), journal.by
    assert q.sql("SELECT count(*) FROM messages") == q.sql('SELECT count(*) FROM "groups"') == [(0,)]


def test_each_publishers_own_order_is_kept_in_a_group_that_both_share(q: MixedQueue, clock: Clock) -> None:
    """Threads of both kinds publish into one group at once."""
    plain, view = q.open_plain(clock), q.open(clock=clock, decode=Event.model_validate_json)
    crew = Crew()
    for who, transport in (("old", plain), ("new", view)):

        def publish(who: str = who, transport: Any = transport) -> None:
            for n in range(50):
                transport.publish("g", Event(n, who))

        crew.start(publish)
    crew.join()
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for _ in range(100):
        lease = view.claim("w", 60.0)
        assert lease is not None
        seen[lease.event.text].append(lease.event.number)
        view.ack(lease)
    assert seen == {"old": list(range(50)), "new": list(range(50))}
