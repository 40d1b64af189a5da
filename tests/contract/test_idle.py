"""Idle costs nothing: a claim that finds nothing writes nothing; a waiting one wakes for work (rule 10)."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.processes import remotes
from tests.contract.views import Clock, Lease, Queue, View

WAIT = 30.0  # of claims that must be woken: only a failing test takes as long
NEVER = 600.0  # max_poll where only a wake-up, not a look by the clock, may help
LONG_PAUSE = 1.4  # after so long, the pause between two looks has grown to a second and more


def take(view: View, visibility: float = 600) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def nothing(view: View, q: Queue) -> None:
    """Nothing is there to claim."""


def in_work(view: View, q: Queue) -> None:
    view.publish_many([(f"g{n}", k, n % 5) for n in range(10) for k in range(2)])
    assert len(view.claim_many("w", 600, 100)) == 10


def in_work_elsewhere(view: View, q: Queue) -> None:
    in_work(q.open(), q)


def parked(view: View, q: Queue) -> None:
    view.publish_many([(f"g{n}", k, n % 5) for n in range(10) for k in range(2)])
    assert view.nack_many(view.claim_many("w", 600, 100), 600) == []


def delayed(view: View, q: Queue) -> None:
    for n in range(10):
        view.publish(f"g{n}", n, n % 5, delay=600)


def deferred(view: View, q: Queue) -> None:
    view.publish_many([(f"g{n}", n, n % 5) for n in range(10)])
    assert view.defer_many(view.claim_many("w", 600, 100), 600) == []


def held_by_a_delayed_head(view: View, q: Queue) -> None:
    for n in range(10):
        view.publish(f"g{n}", "head", n % 5, delay=600, rank=-1)
        view.publish(f"g{n}", "behind")


def drained(view: View, q: Queue) -> None:
    view.publish_many([(f"g{n}", n) for n in range(10)])
    assert view.ack_many(view.claim_many("w", 600, 100)) == []


def low(view: View, q: Queue) -> None:
    """Work is there, but of too low a priority for the claims below (which ask for 4)."""
    view.publish_many([(f"g{n}", n, n % 4) for n in range(10)])


REASONS: dict[str, Callable[[View, Queue], None]] = {
    "nothing": nothing,
    "in work": in_work,
    "in work elsewhere": in_work_elsewhere,
    "parked": parked,
    "delayed": delayed,
    "deferred": deferred,
    "held by a delayed head": held_by_a_delayed_head,
    "drained": drained,
    "of low priority": low,
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_claim_that_finds_nothing_writes_nothing(q: Queue, reason: str) -> None:
    view = q.open()
    view.publish("first", 0)
    view.ack(take(view))
    REASONS[reason](view, q)
    least = 4 if reason == "of low priority" else 0
    # What a claim that came back short puts in order, it puts in order once.
    for _ in range(3):
        assert view.claim("w", 30, least) is None
    entries = q.entries()
    for _ in range(20):
        assert view.claim("w", 30, least) is None
        assert view.claim_many("w", 30, 10, least) == []
    assert q.entries() == entries
    assert view.claim("w", 30, least, wait=0.3) is None
    assert view.claim_many("w", 30, 10, least, wait=0.3) == []
    assert q.entries() == entries


def test_many_waiting_claims_write_nothing(q: Queue) -> None:
    view = q.open()
    in_work(view, q)
    for _ in range(3):
        assert view.claim("w") is None
    entries = q.entries()
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(view.claim, "w", 30, wait=0.5) for _ in range(20)]
        assert [one.result(60) for one in waiting] == [None] * 20
    assert q.entries() == entries


def test_a_claim_waits_no_longer_than_it_was_told(q: Queue) -> None:
    view = q.open()
    assert view.claim("w", wait=0) is None
    assert view.claim("w", wait=0.05) is None
    assert view.claim_many("w", 30, 5, wait=0.05) == []


def test_a_claim_does_not_wait_where_there_is_work(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    view.publish("h", 1)
    lease = view.claim("w", wait=None)
    assert lease is not None
    assert len(view.claim_many("w", 30, 5, wait=None)) == 1


# -- waking ----------------------------------------------------------------------------------------------


def waiting(view: View, **how: Any) -> "Future[Lease | None]":
    """A claim that waits, in a thread of its own."""
    future: Future[Lease | None] = Future()

    def claim() -> None:
        try:
            future.set_result(view.claim("waiting", 600, **{"wait": WAIT, **how}))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=claim, daemon=True).start()
    return future


def woken(future: "Future[Lease | None]") -> Lease:
    lease = future.result(50)
    assert lease is not None, "it was not woken"
    return lease


def test_a_publish_of_this_process_wakes_a_waiting_claim(q: Queue) -> None:
    view = q.open(max_poll=NEVER)
    future = waiting(view)
    view.publish("g", 1)
    assert woken(future).event == 1


def test_a_claim_that_waits_for_ever_is_woken(q: Queue) -> None:
    view = q.open(max_poll=NEVER)
    future = waiting(view, wait=None)
    view.publish("g", 1)
    assert woken(future).event == 1


def test_a_publish_of_another_transport_is_found(q: Queue) -> None:
    view, other = q.open(), q.open()
    future = waiting(view)
    other.publish("g", 1)
    assert woken(future).event == 1


def test_a_publish_of_another_process_is_found(q: Queue) -> None:
    view = q.open()
    future = waiting(view)
    with remotes(q.address, 0) as (other,):
        other.call("publish", "g", 1)
        assert woken(future).event == 1


@pytest.mark.parametrize("how", ["ack", "nack", "defer", "dead letter"])
def test_a_settlement_wakes_a_waiting_claim(q: Queue, how: str) -> None:
    view = q.open(max_poll=NEVER)
    view.publish("g", 1)
    view.publish("g", 2)
    held = take(view)
    future = waiting(view)
    {
        "ack": lambda: view.ack(held),
        "nack": lambda: view.nack(held),
        "defer": lambda: view.defer(held, 0),
        "dead letter": lambda: view.dead_letter(held, "why"),
    }[how]()
    assert woken(future).group_id == "g"


@pytest.mark.parametrize("how", ["lease", "parking", "delay", "deferral"])
def test_the_end_of_what_holds_a_group_wakes_a_waiting_claim(q: Queue, how: str) -> None:
    view = q.open(max_poll=NEVER)
    if how == "delay":
        view.publish("g", 1, delay=0.5)
    else:
        view.publish("g", 1)
        lease = take(view, 0.5 if how == "lease" else 600)
        if how == "parking":
            view.nack(lease, 0.5)
        elif how == "deferral":
            view.defer(lease, 0.5)
    lease = woken(waiting(view))
    assert lease.event == 1
    assert lease.attempts == (1 if how == "delay" else 2)


def test_a_lease_that_ends_long_after_the_wait_wakes_nobody(q: Queue) -> None:
    view = q.open(max_poll=NEVER)
    view.publish("g", 1)
    take(view, 600)
    assert view.claim("w", wait=0.3) is None


def test_a_claim_that_waits_shortly_beside_one_that_waits_long(q: Queue) -> None:
    """It went out since there had been work, and came back while the other rests until a look that is far off."""
    if q.engine == "three nodes":
        pytest.skip("of nodes, one is enough")
    view, other = q.open(max_poll=NEVER), q.open()
    view.publish_many([("low", 1), ("low too", 1)])
    take(view)
    long = waiting(view, min_priority=4)
    time.sleep(LONG_PAUSE)
    take(other)
    start = time.monotonic()
    assert view.claim("w", wait=0.1) is None
    assert time.monotonic() - start < 0.8
    view.publish("high", 1, 4)
    assert woken(long).group_id == "high"


def test_each_waiting_claim_gets_one(q: Queue) -> None:
    view = q.open(max_poll=NEVER)
    futures = [waiting(view) for _ in range(20)]
    for n in range(20):
        view.publish(f"g{n}", n)
    assert sorted(woken(future).event for future in futures) == list(range(20))


def test_waiting_claims_of_two_transports_share_what_comes(q: Queue) -> None:
    views = [q.open(), q.open()]
    futures = [waiting(view) for view in views for _ in range(5)]
    views[0].publish_many([(f"g{n}", n) for n in range(10)])
    assert sorted(woken(future).event for future in futures) == list(range(10))


def test_a_waiting_claim_heeds_its_priority(q: Queue) -> None:
    view = q.open()
    high, low = waiting(view, min_priority=3), waiting(view, min_priority=0)
    view.publish("low", 0)
    assert woken(low).group_id == "low"
    view.publish("high", 0, 3)
    assert woken(high).group_id == "high"


def test_a_waiting_claim_with_ack_settles_first(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    held = take(view)
    future = waiting(view, ack=held)
    view.publish("g", 2)
    lease = woken(future)
    assert lease.event == 2
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(1,)]


def test_the_clock_moved_by_hand_is_seen_by_the_next_claim(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1, delay=10)
    for _ in range(3):
        assert view.claim("w") is None
    clock.advance(11)
    assert take(view).event == 1
