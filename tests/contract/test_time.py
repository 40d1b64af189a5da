"""The queue's time: one, only forward; no wall clock of a worker or publisher decides anything (rule 7)."""

import threading
from typing import Any

import pytest

from rqfast import RqfastError
from tests.contract.processes import remotes
from tests.contract.views import Clock, Lease, Queue, View

HOUR = 3600.0


def take(view: View, visibility: float = 30.0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def work_off(view: View) -> list[Any]:
    """Claim and acknowledge until nothing comes: the events in the order in which they came."""
    events = []
    while (lease := view.claim("w")) is not None:
        events.append(lease.event)
        view.ack(lease)
    return events


def test_workers_an_hour_apart_never_take_each_others_leases(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    with remotes(q.address, HOUR, -HOUR) as (fast, slow):
        held = slow.call("claim", "slow", 600)
        assert fast.call("claim", "fast", 600) is None
        assert view.claim("w") is None
        slow.call("nack", held)
        held = fast.call("claim", "fast", 600)
        assert held.attempts == 2
        assert slow.call("claim", "slow", 600) is None
        assert view.claim("w") is None
        fast.call("ack", held)
        assert slow.call("claim", "slow", 600) is None


def test_a_worker_that_starts_an_hour_ahead_takes_no_lease(q: Queue) -> None:
    """Its wall clock may carry the queue's time over idle hours, but not while others move it."""
    view = q.open()
    view.publish("g", 1)
    lease = take(view, 600)
    opened = threading.Event()

    def keep_moving() -> None:
        while not opened.wait(0.05):
            view.publish("other", 1, delay=600)

    thread = threading.Thread(target=keep_moving, daemon=True)
    thread.start()
    try:
        with remotes(q.address, HOUR) as (fast,):
            assert fast.call("claim", "fast", 600) is None
    finally:
        opened.set()
        thread.join(30)
    view.ack(lease)


def test_a_lease_ends_for_workers_an_hour_apart(q: Queue) -> None:
    """Neither too early nor an hour late, whoever took it and whoever comes next."""
    view = q.open()
    view.publish("g", 1)
    with remotes(q.address, HOUR, -HOUR) as (fast, slow):
        ends = [0.0]
        for attempt, worker in enumerate([fast, slow, fast, slow], start=1):
            lease = worker.call("claim", "w", 1, wait=30)
            assert lease is not None, "the lease before it never ended"
            assert lease.attempts == attempt
            assert lease.expires_at - 1 >= ends[-1] - 0.001, "the lease before it had not ended"
            ends.append(lease.expires_at)
        assert ends[-1] - ends[1] < 60, "an hour went by"


def test_delays_and_parking_hold_across_workers_an_hour_apart(q: Queue) -> None:
    view = q.open()
    with remotes(q.address, HOUR, -HOUR) as (fast, slow):
        slow.call("publish", "late", 1, delay=600)
        fast.call("publish", "later", 1, delay=600)
        fast.call("publish", "parked", 1)
        slow.call("nack", slow.call("claim", "w", 600), 600)
        for worker in (fast, slow):
            assert worker.call("claim", "w", 600) is None
        assert view.claim("w") is None
        slow.call("publish", "soon", 2, delay=1)
        lease = fast.call("claim", "w", 600, wait=30)
        assert lease is not None and lease.event == 2


def test_publishers_whose_clocks_differ_are_worked_in_order_of_commit(q: Queue) -> None:
    view = q.open()
    with remotes(q.address, 1.0, -1.0) as (fast, slow):
        for n in range(20):
            (fast, slow)[n % 2].call("publish", "g", n)
    assert work_off(view) == list(range(20))


def test_publishers_an_hour_apart_are_worked_in_order_of_commit(q: Queue) -> None:
    view = q.open()
    with remotes(q.address, HOUR, -HOUR) as (fast, slow):
        for n in range(20):
            (fast, slow)[n % 2].call("publish", "g", n)
    assert work_off(view) == list(range(20))


def test_what_others_did_is_seen_by_the_next_claim(q: Queue) -> None:
    """However far a clock is behind: a call that has returned there has taken effect for a claim here."""
    view = q.open()
    assert view.claim("w") is None
    with remotes(q.address, 0, HOUR) as others:
        for n in range(20):
            other = others[n % 2]
            seq = other.call("publish", "g", n)
            lease = take(view, 600)
            assert lease.seq == seq
            other.call("nack", lease)
            lease = take(view, 600)
            assert (lease.seq, lease.attempts) == (seq, 2)
            other.call("ack", lease)
            assert view.claim("w") is None


def test_transports_of_one_process_see_each_other_at_once(q: Queue) -> None:
    one, two = q.open(), q.open()
    for n in range(30):
        one.publish("g", n)
        lease = take(two, 600)
        assert lease.event == n
        one.defer(lease, 0)
        lease = take(two, 600)
        assert lease.event == n
        one.ack(lease)
        assert two.claim("w") is None
        one, two = two, one


def test_transports_of_one_process_are_worked_in_order_of_commit(q: Queue) -> None:
    """Plain, with headers and with an id: by whichever request, the order is that of the commits."""
    views = [q.open() for _ in range(3)]
    for n in range(30):
        extra: dict[str, Any] = [{}, {"headers": {"n": str(n)}}, {"dedup_id": f"id {n}"}][n % 3]
        views[n % len(views)].publish("g", n, **extra)
    assert work_off(views[0]) == list(range(30))


def test_a_wall_clock_stepped_back_stops_nothing(q: Queue) -> None:
    view = q.open()
    with remotes(q.address, HOUR) as (worker,):
        worker.call("publish", "g", 0)
        worker.call("skew", -HOUR)
        worker.call("publish", "g", 1)
        worker.call("publish", "g", 2, delay=1)
        lease = worker.call("claim", "w", 1)
        assert lease.event == 0
        again = view.claim("w", 600, wait=30)
        assert again is not None and (again.event, again.attempts) == (0, 2)
        view.ack(again)
        lease = worker.call("claim", "w", 600)
        assert lease.event == 1
        worker.call("ack", lease)
        lease = worker.call("claim", "w", 600, wait=30)
        assert lease is not None and lease.event == 2


def test_a_wall_clock_stepped_forward_takes_no_lease(q: Queue) -> None:
    view = q.open()
    view.publish("g", 0)
    with remotes(q.address, -HOUR) as (worker,):
        worker.call("publish", "other", 0, delay=600)
        lease = take(view, 600)
        worker.call("skew", HOUR)
        assert worker.call("claim", "w", 600) is None
        worker.call("publish", "g", 1)
        assert worker.call("claim", "w", 600) is None
        view.ack(lease)


def test_the_patched_clock_is_an_hour_off(q: Queue) -> None:
    """Of the tools here: what the child reads as its wall clock is what the test said."""
    with remotes(q.address, HOUR) as (worker,):
        wall, true = worker.call("skew", HOUR)
        assert abs(wall - true - HOUR) < 60


# -- the clock moved by hand -----------------------------------------------------------------------------


def test_time_never_runs_backwards(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    view.publish("g", "b", delay=5)
    first = take(view, 10)
    clock.advance(-HOUR)
    assert view.claim("w") is None
    view.publish("h", "c")
    lease = take(view)
    assert lease.event == "c"
    assert lease.expires_at >= first.expires_at
    clock.advance(HOUR + 11)
    assert take(view, 600).event == "a"


def test_two_transports_whose_clocks_differ_share_one_time(q: Queue, clock: Clock) -> None:
    behind = Clock(clock() - HOUR)
    ahead_view, behind_view = q.open(clock=clock), q.open(clock=behind)
    for n in range(10):
        (ahead_view, behind_view)[n % 2].publish("g", n)
    held = take(behind_view, 600)
    assert ahead_view.claim("w") is None
    assert held.expires_at >= clock() + 599, "counted from the queue's time, not from a clock that is behind"
    behind_view.nack(held)
    assert work_off(ahead_view) == list(range(10))


def test_a_clock_that_is_behind_sees_leases_end(q: Queue, clock: Clock) -> None:
    """It counts on from the time that it was told: what is left of a lease is the same for all."""
    behind = Clock(clock() - HOUR)
    ahead_view, behind_view = q.open(clock=clock), q.open(clock=behind)
    ahead_view.publish("g", 1)
    take(ahead_view, 10)
    assert behind_view.claim("w") is None
    for one in (clock, behind):
        one.advance(11)
    ahead_view.publish("other", 2, delay=1)
    assert take(behind_view).attempts == 2


def test_a_deferred_message_is_worked_under_endless_publishing(q: Queue, clock: Clock) -> None:
    """One message comes for each that is worked: the deferred one has its turn behind those due before."""
    view = q.open(clock=clock)
    view.publish("g", "deferred")
    view.defer(take(view), 10)
    view.publish_many([("g", n) for n in range(3)])
    for step in range(40):
        clock.advance(1)
        view.publish("g", 100 + step)
        lease = take(view)
        view.ack(lease)
        if lease.event == "deferred":
            assert 9 <= step <= 10 + 3
            return
    raise AssertionError("it was overtaken for ever")


def test_a_delayed_message_is_worked_under_endless_publishing(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "delayed", delay=10)
    for step in range(40):
        clock.advance(1)
        view.publish("g", step)
        lease = take(view)
        view.ack(lease)
        if lease.event == "delayed":
            assert step in (9, 10)
            return
    raise AssertionError("it was overtaken for ever")


def test_a_delayed_message_of_a_smaller_rank_holds_larger_ranks(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "rank 0")
    view.publish("g", "rank 1", rank=1)
    view.publish("g", "rank -1, in 10", rank=-1, delay=10)
    view.publish("g", "rank -2", rank=-2)
    assert work_off(view) == ["rank -2"]
    clock.advance(9)
    assert view.claim("w") is None
    clock.advance(2)
    assert work_off(view) == ["rank -1, in 10", "rank 0", "rank 1"]


def test_a_deferred_message_of_a_smaller_rank_holds_larger_ranks(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "rank -1", rank=-1)
    view.publish("g", "rank 0")
    view.defer(take(view), 10)
    assert view.claim("w") is None
    clock.advance(11)
    assert work_off(view) == ["rank -1", "rank 0"]


def test_a_publish_into_a_group_that_waits_for_a_delay_is_ready_at_once(q: Queue, clock: Clock) -> None:
    """The hint of when a group can be claimed may be early, never late."""
    view = q.open(clock=clock)
    view.publish("g", "later", delay=600)
    assert view.claim("w") is None
    view.publish("g", "now")
    assert take(view).event == "now"


def test_a_shorter_delay_brings_the_group_forward(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "in 600", delay=600)
    view.publish("g", "in 5", delay=5)
    clock.advance(6)
    assert work_off(view) == ["in 5"]
    clock.advance(600)
    assert work_off(view) == ["in 600"]


def test_a_clock_that_raises_fails_the_call_and_nothing_else(q: Queue, clock: Clock) -> None:
    """A fault nobody foresaw: the callers are told, nobody hangs, and the next call works."""
    broken = False

    def source() -> float:
        return 1 / 0 if broken else clock()

    view = q.open(clock=source)
    view.publish("g", 1)
    broken = True
    with pytest.raises((ZeroDivisionError, RqfastError)):
        view.publish("g", 2)
    with pytest.raises((ZeroDivisionError, RqfastError)):
        view.claim("w")
    broken = False
    view.publish("g", 3)
    assert work_off(view) == [1, 3]


def test_a_clock_that_raises_as_a_reply_is_taken(q: Queue, clock: Clock) -> None:
    """At each place where a call asks for the time, in turn."""
    good = -1

    def source() -> float:
        nonlocal good
        good -= 1
        return 1 / 0 if good == 0 else clock()

    view = q.open(clock=source)
    view.publish_many([(f"g{n}", n) for n in range(20)])

    def call_all(place: int) -> list[BaseException]:
        nonlocal good
        errors: list[BaseException] = []
        calls = (lambda: view.publish("new", 0), lambda: view.claim("w"), lambda: view.claim("w", wait=0.05))
        for call in calls:
            good = place
            try:
                call()
            except (ZeroDivisionError, RqfastError) as error:
                errors.append(error)
        good = -1
        return errors

    failed = [len(call_all(place)) for place in range(1, 8)]
    assert sum(failed) > 2
    seq = view.publish("last", 1)
    leases = view.claim_many("w", 30, 100)
    assert seq in {lease.seq for lease in leases}
    assert view.ack_many(leases) == []
