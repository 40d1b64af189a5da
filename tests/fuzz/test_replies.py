"""Replies that no server should send: the caller is told the truth or a typed error, and never waits for ever.

What a reply may do to the core alone, byte by byte: tests/unit/test_core.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rqfast
from rqfast import OutcomeUnknown, RqfastError, Unavailable
from tests.cluster import wait_until
from tests.fuzz.damage import damages
from tests.proxy import Change, Exchange, Proxy, is_write

FUZZ = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
GROUP = "g"
# What bounds a call, in seconds, and when a test says that it hangs.
SHORT = 0.3
HANGS = 30.0

Queue = rqfast.Transport[Any]


def is_read(exchange: Exchange) -> bool:
    """A read of the queue."""
    return exchange.path.startswith("/db/query")


@pytest.fixture(scope="module")
def queue(proxy: Proxy) -> Iterator[Queue]:
    """A client that is patient."""
    with rqfast.connect(proxy.url, timeout=HANGS) as queue:
        yield queue


@pytest.fixture(scope="module")
def hasty(proxy: Proxy, queue: Queue) -> Iterator[Queue]:
    """A client that soon gives up."""
    with rqfast.connect(proxy.url, timeout=SHORT) as queue:
        yield queue


def publishes(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    seq = queue.publish("new", 1)
    assert [message.seq for message in queue.peek("new", 9)] == [seq]


def publishes_once(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    seqs = {queue.publish("new", n, 1, rank=2, delay=9, headers={"a": 1}, dedup_id=f"{lease.seq}") for n in range(2)}
    assert [message.seq for message in queue.peek("new", 9)] == list(seqs)


def publishes_many(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    seqs = queue.publish_many([("new", 1), ("new", 2)], atomic=True)
    assert [message.seq for message in queue.peek("new", 9)] == list(seqs)


def acks(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    queue.ack(lease)
    assert queue.peek(GROUP, 1)[0].seq > lease.seq


def acks_and_claims(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    following = queue.claim("w", 60, ack=lease)
    assert following is not None and (following.event, following.attempts) == (2, 1)
    queue.extend(following, 90)


def hands_on(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    queue.ack(lease, publish=[("new", 1)])
    assert len(queue.peek("new", 9)) == 1 and queue.peek(GROUP, 1)[0].seq > lease.seq


def nacks(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    queue.nack(lease)
    again = queue.claim("w", 60)
    assert again is not None and (again.seq, again.attempts) == (lease.seq, 2)


def buries(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    queue.dead_letter(lease, "why")
    assert [letter.seq for letter in queue.dead_letters()] == [lease.seq]
    assert queue.redrive() == 1


def claims_a_run(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    queue.nack(lease)
    run = queue.claim_run("w", 60, 9)
    assert [one.event for one in run] == [1, 2]
    queue.ack_many(run)
    assert queue.peek(GROUP, 1) == []


def operates(queue: Queue, lease: rqfast.Lease[Any]) -> None:
    queue.pause(GROUP)
    assert queue.stats().paused == 1
    queue.resume(GROUP)
    assert queue.release(GROUP) is True
    assert queue.purge(GROUP) == 2


CALLS: list[Callable[[Queue, rqfast.Lease[Any]], None]] = [
    publishes, publishes_once, publishes_many, acks, acks_and_claims, hands_on, nacks, buries, claims_a_run, operates,
]  # fmt: skip


def prepared(queue: Queue, proxy: Proxy) -> rqfast.Lease[Any]:
    """Nothing but two messages of one group, the first one in work."""
    proxy.clear()
    for group in queue.groups(limit=1000):
        queue.release(group.group_id)
        queue.resume(group.group_id)
    queue.purge(everything=True)
    queue.publish_many([(GROUP, 1), (GROUP, 2)])
    lease = queue.claim("w", 600)
    assert lease is not None and lease.event == 1
    return lease


@settings(FUZZ, max_examples=150)
@given(st.sampled_from(CALLS), damages, st.integers(0, 2), st.sampled_from([is_write, is_read]))
def test_a_damaged_reply_changes_nothing_of_what_a_call_does(
    queue: Queue,
    proxy: Proxy,
    call: Callable[[Queue, rqfast.Lease[Any]], None],
    damage: Change,
    skip: int,
    which: Callable[[Exchange], bool],
) -> None:
    lease = prepared(queue, proxy)
    proxy.rewrite(damage, which, skip=skip)
    start = time.monotonic()
    call(queue, lease)
    assert time.monotonic() - start < HANGS


def published(queue: Queue, lease: rqfast.Lease[Any]) -> bool:
    """Whether a message gets through by now: the pauses between two tries have grown."""
    with suppress(OutcomeUnknown, Unavailable):
        return queue.publish("later", 2) > lease.seq
    return False


@settings(FUZZ, max_examples=20)
@given(damages)
def test_no_reply_but_damaged_ones_is_an_error_that_says_what_is_known(
    queue: Queue, hasty: Queue, proxy: Proxy, damage: Change
) -> None:
    lease = prepared(queue, proxy)
    rule = proxy.rewrite(damage, lambda exchange: True, count=None)
    start = time.monotonic()
    for call in (lambda: hasty.publish("new", 1), lambda: hasty.ack(lease), hasty.stats):
        with pytest.raises((OutcomeUnknown, Unavailable)) as found:
            call()
        assert "rqfast" not in str(found.value.__cause__ or "")
    assert time.monotonic() - start < HANGS
    rule.remove()
    # What was unknown happened once or never, and the client goes on.
    assert len(queue.peek("new", 9)) <= 1
    wait_until("the client to come back", lambda: published(hasty, lease), HANGS)


@settings(FUZZ, max_examples=25)
@given(damages, st.integers(0, 12))
def test_a_client_that_opens_is_told_nonsense(queue: Queue, proxy: Proxy, damage: Change, skip: int) -> None:
    proxy.clear()
    proxy.rewrite(damage, lambda exchange: True, skip=skip, count=2)
    start = time.monotonic()
    with (
        suppress(RqfastError),
        rqfast.connect(proxy.url, timeout=SHORT, connect_retries=1, retry_delay=SHORT) as other,
    ):
        other.publish("new", 1)
    assert time.monotonic() - start < HANGS
