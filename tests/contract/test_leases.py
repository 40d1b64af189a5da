"""Leases: how long they hold, what they count, who holds them, what a claim tells (rules 4 and 5)."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from rqfast import LeaseLost
from tests.contract.views import Clock, Lease, Queue, View


def take(view: View, visibility: float | timedelta = 30.0, worker_id: str | None = "w") -> Lease:
    """Claim what must be there."""
    lease = view.claim(worker_id, visibility)
    assert lease is not None
    return lease


def test_a_claim_tells_what_was_published(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    seq = view.publish("g", {"a": [1, 2]}, 3, rank=-7, headers={"trace": "abc", "n": "1"})
    clock.advance(5)
    lease = view.claim("worker 1", 30, 2)
    assert lease is not None
    assert (lease.seq, lease.group_id, lease.event) == (seq, "g", {"a": [1, 2]})
    assert (lease.priority, lease.rank, lease.attempts, lease.worker_id) == (3, -7, 1, "worker 1")
    assert lease.headers == {"trace": "abc", "n": "1"}
    assert lease.published_at == pytest.approx(clock() - 5, abs=0.01)
    assert lease.expires_at == pytest.approx(clock() + 30, abs=0.01)


def test_headers_are_empty_where_none_were_given(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    assert not take(view).headers


def test_a_claim_of_an_empty_queue_is_none(q: Queue) -> None:
    view = q.open()
    assert view.claim("w") is None
    assert view.claim() is None
    assert view.claim_many("w", 30, 10) == []


def test_a_lapsed_lease_is_claimable_again_and_not_before(q: Queue, clock: Clock) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", "a")
    view.publish("g", "b")
    first = take(view, 10)
    clock.advance(9.5)
    assert other.claim("w") is None
    clock.advance(1)
    second = take(other)
    assert (second.seq, second.event, second.attempts) == (first.seq, "a", 2)
    assert second.token != first.token


def test_each_lease_lapses_by_its_own_visibility(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    for group in ("short", "long"):
        view.publish(group, group)
    held = {take(view, 10).event, take(view, 100).event}
    assert held == {"short", "long"}
    clock.advance(11)
    assert take(view).event == "short"
    assert view.claim("w") is None
    clock.advance(90)
    assert view.claim("w") is not None


def test_a_visibility_may_be_a_timedelta(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1, delay=timedelta(seconds=5))
    assert view.claim("w") is None
    clock.advance(6)
    lease = take(view, timedelta(minutes=1))
    assert lease.expires_at == pytest.approx(clock() + 60, abs=0.01)
    view.extend(lease, timedelta(minutes=2))
    assert lease.expires_at == pytest.approx(clock() + 120, abs=0.01)
    view.nack(lease, timedelta(seconds=10))
    clock.advance(9)
    assert view.claim("w") is None
    clock.advance(2)
    view.defer(take(view), timedelta(seconds=10))
    clock.advance(9)
    assert view.claim("w") is None
    clock.advance(2)
    assert view.claim("w") is not None


def test_extend_sets_the_end_and_tells_it(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    lease = take(view, 10)
    clock.advance(5)
    told = view.extend(lease, 100)
    assert told == lease.expires_at == pytest.approx(clock() + 100, abs=0.01)
    clock.advance(99)
    assert view.claim("w") is None
    clock.advance(2)
    assert take(view).attempts == 2


def test_extend_may_shorten(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    view.extend(take(view, 100), 5)
    clock.advance(4)
    assert view.claim("w") is None
    clock.advance(2)
    assert take(view).attempts == 2


def test_an_extended_lease_is_not_spent(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    lease = take(view, 10)
    for _ in range(5):
        clock.advance(8)
        view.extend(lease, 10)
    view.ack(lease)
    assert view.claim("w") is None


def test_extend_many_tells_each_end(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish_many([(f"g{n}", n) for n in range(3)])
    leases = view.claim_many("w", 10, 3)
    clock.advance(5)
    assert view.extend_many(leases, 50) == []
    for lease in leases:
        assert lease.expires_at == pytest.approx(clock() + 50, abs=0.01)
    clock.advance(49)
    assert view.claim_many("w", 30, 3) == []
    clock.advance(2)
    assert len(view.claim_many("w", 30, 3)) == 3


def test_attempts_count_at_the_claim(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    lease = take(view)
    seen = [lease.attempts]
    view.nack(lease)
    seen.append(take(view, 10).attempts)
    clock.advance(11)
    lease = take(view)
    seen.append(lease.attempts)
    view.nack(lease, 5)
    clock.advance(6)
    lease = take(view)
    seen.append(lease.attempts)
    view.defer(lease, 5)
    clock.advance(6)
    seen.append(take(view).attempts)
    assert seen == [1, 2, 3, 4, 5]


def test_attempts_belong_to_the_message(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    view.publish("g", 2)
    view.nack(take(view))
    view.ack(take(view))
    assert take(view).attempts == 1


def test_a_worker_id_may_be_left_out(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = take(view, worker_id=None)
    assert socket.gethostname() in lease.worker_id
    assert str(os.getpid()) in lease.worker_id


def test_each_claim_of_a_batch_tells_its_own_worker(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", n) for n in range(6)])
    leases = [take(view, worker_id=f"worker {n}") for n in range(6)]
    assert [lease.worker_id for lease in leases] == [f"worker {n}" for n in range(6)]


def test_the_fence_rises_with_every_claim(q: Queue, clock: Clock) -> None:
    one, two = q.open(clock=clock), q.open(clock=clock)
    fences = []
    one.publish("g", 1)
    one.publish("h", 1)
    for view in (one, two, one, two):
        lease = take(view, 10)
        fences.append(lease.fence)
        view.nack(lease)
    fences.append(take(one, 10).fence)
    clock.advance(11)
    fences.append(take(two, 10).fence)
    assert all(isinstance(fence, int) for fence in fences)
    assert fences == sorted(set(fences))


def test_the_fence_rises_although_the_group_was_drained(q: Queue) -> None:
    view = q.open()
    fences = []
    for n in range(4):
        view.publish("g", n)
        lease = take(view)
        fences.append(lease.fence)
        view.ack(lease)
    assert fences == sorted(set(fences))


def test_remaining_counts_down_from_the_visibility(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = take(view, 10_000)
    assert 9_000 < lease.remaining() <= 10_000
    view.extend(lease, 20_000)
    assert 19_000 < lease.remaining() <= 20_000


def test_claim_with_ack_settles_and_takes_the_next(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    view.publish("g", 2)
    second = view.claim("w", ack=take(view))
    assert second is not None and second.event == 2
    assert view.claim("w", ack=second) is None
    assert view.claim("w") is None


def test_claim_with_a_lost_ack_leaves_nothing_claimed(q: Queue, clock: Clock) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", 1)
    stale = take(view, 10)
    clock.advance(11)
    take(other, 60)
    view.publish("free", 2)
    with pytest.raises(LeaseLost):
        view.claim("w", ack=stale)
    lease = take(other)
    assert (lease.group_id, lease.attempts) == ("free", 1)


def test_claim_many_with_acks_settles_and_takes_the_next(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", k) for k in range(2) for n in range(5)])
    first = view.claim_many("w", 30, 5)
    assert {lease.event for lease in first} == {0}
    second = view.claim_many("w", 30, 5, ack=first)
    assert {lease.event for lease in second} == {1}
    assert view.claim_many("w", 30, 5, ack=second) == []


def test_claim_many_with_a_lost_ack_leaves_nothing_claimed(q: Queue, clock: Clock) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", 1)
    stale = take(view, 10)
    clock.advance(11)
    take(other, 60)
    view.publish("good", 2)
    good = take(view, 60)
    view.publish("free", 3)
    with pytest.raises(LeaseLost):
        view.claim_many("w", 30, 5, ack=[good, stale])
    lease = take(other)
    assert (lease.group_id, lease.attempts) == ("free", 1)


def test_dead_letter_takes_the_message_out_and_the_group_goes_on(q: Queue) -> None:
    view = q.open()
    view.publish("g", "bad")
    view.publish("g", "good")
    view.dead_letter(take(view), "cannot be read")
    lease = take(view)
    assert lease.event == "good"
    view.ack(lease)
    assert view.claim("w") is None


def test_dead_letter_many(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", k) for k in range(2) for n in range(5)])
    assert view.dead_letter_many(view.claim_many("w", 30, 5), "why") == []
    leases = view.claim_many("w", 30, 5)
    assert {lease.event for lease in leases} == {1}


@pytest.mark.parametrize("visibility", [0.5, 1, 3600, 10**9])
def test_any_visibility_holds(q: Queue, clock: Clock, visibility: float) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    lease = take(view, visibility)
    assert lease.expires_at == pytest.approx(clock() + visibility, abs=0.01)
    clock.advance(visibility - 0.25)
    assert view.claim("w") is None
    clock.advance(0.5)
    assert view.claim("w") is not None


@pytest.mark.parametrize("visibility", [1e-9, 1e-6, 1e-4, 1e-3])
def test_a_claim_returns_however_soon_its_lease_ends(q: Queue, visibility: float) -> None:
    """Embedded, it may have ended by then; over a network, nothing may come of it."""
    view = q.open(timeout=2) if q.engine != "embedded" else q.open()
    view.publish_many([("g", 1), ("h", 1)])
    with ThreadPoolExecutor(1) as pool:
        lease = pool.submit(view.claim, "w", visibility).result(30)
        leases = pool.submit(view.claim_many, "w", visibility, 2).result(30)
    if q.engine == "embedded":
        assert lease is not None
        assert {each.event for each in leases} == {1}
    following = view.claim("w", 60, wait=10)
    assert following is not None and following.event == 1
