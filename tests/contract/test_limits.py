"""The limits of docs/limits.md: what is refused or split, what is bounded, what is taken away again."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rqfast
from rqfast import InvalidMessage, Message, PublishIncomplete
from tests.contract.conftest import ENGINES
from tests.contract.test_left_behind import memory
from tests.contract.views import Clock, Queue, queue_name

MOST = 16 << 20
GROUPS = 100_000
STARTED = 100_000
DAY = 86_400.0


@pytest.fixture(params=["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))])
def sq(request: pytest.FixtureRequest) -> Iterator[Queue]:
    q = Queue(request.param, "sync", ENGINES[request.param](request), queue_name())
    yield q
    q.close()


def count(q: Queue, table: str) -> int:
    found: int = q.sql(f"SELECT count(*) FROM {q.table(table)}")[0][0]
    return found


# -- sizes -------------------------------------------------------------------------------------------------


def test_the_largest_event(sq: Queue) -> None:
    """16 MiB of JSON text; it comes back as it was, and goes alone."""
    view = sq.open(timeout=60) if sq.engine == "one node" else sq.open()
    event = b'"' + b"x" * (MOST - 2) + b'"'
    view.publish("g", event)
    lease = view.claim("w", 600)
    assert lease is not None and len(lease.raw) == MOST
    view.ack(lease)


LARGER: dict[str, Callable[[Any, bytes], Any]] = {
    "publish": lambda view, event: view.publish("g", event),
    "publish a str": lambda view, event: view.publish("g", event.decode()),
    "publish with more": lambda view, event: view.publish("g", event, rank=1, dedup_id="d"),
    "publish_soon": lambda view, event: view.publish_soon("g", event),
    "publish_many, atomic": lambda view, event: view.publish_many([("g", 1), ("g", event)], atomic=True),
    "ack": lambda view, event: view.ack(view.claim("w", 600), publish=[("g", event)]),
    "together": lambda view, event: view.ack(view.claim("w", 600), publish=[("g", event[: MOST // 2] + b'"')] * 2),
    "statement": lambda view, event: view.publish("g", 1, with_statements=[["SELECT ?", event.decode()]]),
    "statements": lambda view, event: view.publish("g", 1, with_statements=[["SELECT ?", event[: MOST // 2]]] * 3),
}


@pytest.mark.parametrize("name", LARGER)
def test_what_is_larger_is_refused_before_anything_is_sent(sq: Queue, name: str) -> None:
    view = sq.open()
    view.publish("lease", 0)
    event = b'"' + b"x" * (MOST - 1) + b'"'
    before = sq.entries()
    with pytest.raises(InvalidMessage, match="16,777,216"):
        LARGER[name](view, event)
    assert sq.entries() - before <= 1, "more than the claim of the lease"
    assert count(sq, "messages") == 1


def test_an_item_that_is_larger_stops_publish_many(sq: Queue) -> None:
    view = sq.open()
    with pytest.raises(PublishIncomplete) as caught:
        view.publish_many([("g", 0), Message("g", "x" * MOST), ("g", 2)])
    assert isinstance(caught.value.__cause__, InvalidMessage) and caught.value.__cause__.item == 1
    assert (len(caught.value.seqs), caught.value.index, caught.value.unknown) == (1, 1, 0)


def test_publish_many_of_large_events_is_split(sq: Queue) -> None:
    """Into requests of about 1 MiB (8 on SQLite); the publishes of others go in between."""
    view, other = sq.open(), sq.open()
    between: list[int] = []

    def items() -> Iterator[tuple[str, str]]:
        for n in range(24):
            if n % 8 == 7:
                between.append(other.publish("other", n))
            yield f"g{n % 2}", f"{n}" + "x" * (700 << 10)

    before = sq.entries()
    seqs = view.publish_many(items())
    assert len(seqs) == 24
    assert sq.entries() - before >= (2 if sq.engine == "embedded" else 12) + len(between)
    rows = sq.sql(f"SELECT seq FROM {sq.table('messages')} WHERE group_id='other' ORDER BY seq")
    assert [row[0] for row in rows] == between
    assert between[0] < max(seqs)


def test_headers_and_numbers_at_their_limits(sq: Queue) -> None:
    view = sq.open()
    most = (64 << 10) - len('{"h":""}')
    view.publish("g", 1, headers={"h": "x" * most})
    with pytest.raises(InvalidMessage, match="64 KiB at most"):
        view.publish("g", 1, headers={"h": "x" * (most + 1)})
    for claim in (view.claim_many, view.claim_run):
        with pytest.raises(InvalidMessage, match="1 to 100,000"):
            claim("w", 600, 100_001)
    [lease] = view.claim_many("w", 600, 100_000)
    assert len(str(lease.headers["h"])) == most


# -- numbers -----------------------------------------------------------------------------------------------


def test_a_hundred_thousand_groups(sq: Queue) -> None:
    view = sq.open()
    view.publish_many((f"g{n}", n) for n in range(GROUPS))
    stats = view.stats()
    assert (stats.messages, stats.claimable, stats.groups) == (GROUPS, GROUPS, GROUPS)
    # Those that came first, in turn, by claims of one and of many.
    first = view.claim("w", 600)
    assert first is not None
    leases = [first, *view.claim_many("w", 600, 500)]
    assert len({lease.group_id for lease in leases}) == 501
    assert view.claim("w", 600, 1) is None
    assert len(view.groups(limit=100)) == 100
    assert view.ack_many(leases) == []
    assert count(sq, "groups") == GROUPS - 501
    assert view.purge(everything=True) == GROUPS - 501
    assert count(sq, "groups") == 0


def test_publishes_started_all_at_once(sq: Queue) -> None:
    """They wait in line: no more requests and tasks than otherwise, all in order, and the memory comes back."""

    async def script() -> tuple[int, int, int]:
        async with rqfast.connect_async(sq.url, **sq.options) as transport:
            await transport.publish("g0", -1)
            before, most = memory(), 0
            futures = [transport.publish(f"g{n % 10}", n) for n in range(STARTED)]
            while not futures[-1].done():
                most = max(most, len(asyncio.all_tasks()))
                await asyncio.wait((futures[-1],), timeout=0.05)
            at_end = memory()
            seqs = [await future for future in futures]
            for group in range(10):
                assert seqs[group::10] == sorted(seqs[group::10])
            del futures, seqs
            gc.collect()
            return most, at_end - before, len(asyncio.all_tasks())

    most, grown, left = asyncio.run(script())
    assert most <= 12 and left <= 12
    assert grown < STARTED * 1500
    assert count(sq, "messages") == STARTED + 1


# -- bookkeeping -------------------------------------------------------------------------------------------


def test_lanes_of_clients_that_are_gone(sq: Queue) -> None:
    """After a day of silence on the queue's clock, when another opens; one that was only silent goes on."""
    clock = Clock()
    silent = sq.open(clock=clock)
    silent.publish("g", 1)
    for _ in range(5):
        sq.open(clock=clock).close()
    lanes = count(sq, "lane")
    assert lanes >= 6
    clock.advance(DAY + 1)
    sq.open(clock=clock).publish("g", 2)
    sq.open(clock=clock)
    assert count(sq, "lane") == lanes // 6 * 2
    assert silent.publish("g", 3) > 0
    assert count(sq, "messages") == 3


def test_ids_beyond_their_window_are_forgotten(sq: Queue) -> None:
    """2,000 of them with each request that has an id."""
    clock = Clock()
    view = sq.open(clock=clock, dedup_window=60)
    view.publish_many([Message("g", n, dedup_id=f"d{n}") for n in range(3000)])
    clock.advance(59)
    view.publish("g", 0, dedup_id="kept")
    assert count(sq, "dedup") == 3001
    clock.advance(2)
    for n in range(2):
        view.publish("g", 0, dedup_id=f"new{n}")
    assert count(sq, "dedup") == 3


def test_groups_without_messages_are_gone(sq: Queue) -> None:
    view = sq.open()
    view.publish_many((f"g{n}", n) for n in range(300))
    assert count(sq, "groups") == 300
    while leases := view.claim_many("w", 600, 100):
        assert view.ack_many(leases) == []
    assert count(sq, "groups") == 0
