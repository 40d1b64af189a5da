"""Old and new side by side: what rule 13 of the queue promises, one sentence each."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.reference import Event
from bench.reference import Lease as PlainLease
from rqfast import LeaseLost, Message
from tests.contract.views import Clock, Lease, View
from tests.moving.conftest import MixedQueue
from tests.plain import Plain

HELD = 30


def take(view: View, visibility: float = 60.0) -> Lease:
    lease = view.claim("new", visibility)
    assert lease is not None
    return lease


def take_plainly(plain: Plain, visibility: float = 60.0) -> PlainLease:
    lease = plain.claim("old", visibility)
    assert lease is not None
    return lease


def open_new(q: MixedQueue, clock: Clock, lost: str = "raise") -> View:
    return q.open(clock=clock, decode=Event.model_validate_json, lost=lost)


def pause(q: MixedQueue, group: str, paused: bool = True) -> None:
    ready_at = 9e15 if paused else 0
    q.execute('UPDATE "groups" SET paused=?, ready_at=? WHERE group_id=?', int(paused), ready_at, group)


# -- publishers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["old", "new"])
def test_publishers_alternating_in_one_group_are_worked_in_order_of_commit(
    q: MixedQueue, clock: Clock, by: str
) -> None:
    plain = q.open_plain(clock)
    view = open_new(q, clock)
    for n in range(20):
        (view, plain)[n % 2].publish("g", Event(n))
        clock.advance(0.5)
    for n in range(20):
        if by == "new":
            lease = take(view)
            assert (lease.event, lease.attempts) == (Event(n), 1)
            view.ack(lease)
        else:
            old = take_plainly(plain)
            assert old.event == Event(n)
            plain.ack(old)


def test_a_row_of_an_old_publisher_does_not_overtake_a_message_that_fell_due_before(
    q: MixedQueue, clock: Clock
) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    view.publish("g", Event(1), delay=10)
    clock.advance(20)
    view.publish("other", Event(0))
    plain.publish("g", Event(2))
    events = [take(view) for _ in range(2)]
    assert {lease.group_id: lease.event.number for lease in events} == {"g": 1, "other": 0}


def test_a_row_of_an_old_publisher_is_worked_before_a_message_that_is_not_due(q: MixedQueue, clock: Clock) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    view.publish("g", Event(1), delay=100)
    plain.publish("g", Event(2))
    assert take(view).event == Event(2)
    assert view.claim("new") is None


def test_groups_of_old_publishers_wait_their_turn(q: MixedQueue, clock: Clock) -> None:
    """With the plain transport alone, the backlog gets 1 of these claims."""
    plain, view = q.open_plain(clock), open_new(q, clock)
    view.publish_many([("backlog", Event(n)) for n in range(30)])
    for group in ("trickle 1", "trickle 2"):
        plain.publish(group, Event(0))
    served: Counter[str] = Counter()
    for n in range(30):
        lease = take(view)
        served[lease.group_id] += 1
        view.ack(lease)
        if lease.group_id != "backlog":
            plain.publish(lease.group_id, Event(n))
    assert served == {"backlog": 10, "trickle 1": 10, "trickle 2": 10}


# -- what is held from old workers -------------------------------------------------------------------


def test_a_paused_group_is_held_from_old_workers_too_and_stays_when_it_drains(q: MixedQueue, clock: Clock) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    for n in range(2):
        plain.publish("g", Event(n))
    held = take_plainly(plain)
    pause(q, "g")
    plain.ack(held)
    assert plain.claim("old", 60.0) is None
    assert view.claim("new") is None
    pause(q, "g", False)
    last = take_plainly(plain)
    pause(q, "g")
    plain.ack(last)
    assert q.sql('SELECT group_id, paused FROM "groups"') == [("g", 1)]


@pytest.mark.parametrize("how", ["delayed", "deferred"])
def test_what_is_not_due_is_held_from_old_workers_too(q: MixedQueue, clock: Clock, how: str) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    if how == "delayed":
        view.publish("g", Event(1), delay=10)
    else:
        view.publish("g", Event(1))
        view.defer(take(view), 10)
    assert plain.claim("old", 60.0) is None
    clock.advance(11)
    view.publish("other", Event(0))  # the queue's time goes on with rqfast's requests
    got = {lease.group_id: lease.event for lease in (take_plainly(plain), take_plainly(plain))}
    assert got["g"] == Event(1)


def test_what_old_workers_cannot_see_the_order_of_is_left_to_rqfast(q: MixedQueue, clock: Clock) -> None:
    """They would take the smallest seq: of a group whose head is another message they get nothing."""
    plain, view = q.open_plain(clock), open_new(q, clock)
    view.publish("g", Event(2))
    view.publish("g", Event(1), rank=-1)
    for _ in range(3):
        clock.advance(100)
        assert plain.claim("old", 60.0) is None
    view.ack(take(view))
    assert take_plainly(plain).event == Event(2)


def test_old_workers_find_their_way_past_what_is_held(q: MixedQueue, clock: Clock) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    view.publish_many([Message(f"held {n}", Event(n), delay=1000) for n in range(HELD // 2)])
    for n in range(HELD // 2, HELD):
        plain.publish(f"held {n}", Event(n))
        pause(q, f"held {n}")
    view.publish("free", Event(HELD))
    found = []
    for _ in range(HELD + 1):
        clock.advance(0.005)
        lease = plain.claim("old", 60.0)
        if lease is not None:
            found.append(lease.event)
    assert found == [Event(HELD)]


def test_an_old_worker_does_not_enter_a_group_where_rqfast_works(q: MixedQueue, clock: Clock) -> None:
    """Its clock is an hour ahead; once what is in work is the head, once a redriven message has come before it."""
    plain, view = q.open_plain(lambda: clock() + 3600), open_new(q, clock)
    view.publish("g", Event(1))
    view.ack(take(view))
    view.publish("g", Event(2))
    held = take(view)
    assert plain.claim("fast", 60.0) is None
    insert = "INSERT INTO messages(seq,group_id,event,rank,due,published_at) VALUES(?,'g',?,0,1,1)"
    q.execute(insert, held.seq - 1, Event(1).model_dump_json())
    assert plain.claim("fast", 60.0) is None
    view.ack(held)
    assert take(view).event == Event(1)


# -- leases ------------------------------------------------------------------------------------------


def test_a_stale_ack_or_nack_of_an_old_worker_does_not_break_a_live_lease(q: MixedQueue, clock: Clock) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    for n in range(2):
        plain.publish("g", Event(n))
    stale = take_plainly(plain, 10)
    clock.advance(11)
    held = take(view)
    assert (held.seq, held.attempts) == (stale.seq, 2)
    for how in ("nack", "park", "ack"):
        if how == "ack":
            plain.ack(stale)
        else:
            plain.nack(stale, 5 if how == "park" else 0)
        assert q.sql("SELECT locked_by FROM messages WHERE seq=?", held.seq) == [(held.token,)]
        assert view.claim("new") is None
        assert plain.claim("old", 60.0) is None
    view.ack(held)
    assert take(view).event == Event(1)


def test_rqfasts_own_settlements_are_not_taken_for_an_old_workers(q: MixedQueue, clock: Clock) -> None:
    view = open_new(q, clock)
    view.publish("g", Event(1))
    view.nack(take(view))
    view.nack(take(view), 1)
    clock.advance(2)
    view.defer(take(view), 1)
    clock.advance(2)
    lease = take(view)
    view.extend(lease, 100)
    view.ack(lease)
    assert q.sql("SELECT count(*) FROM messages") == [(0,)]
    assert q.sql('SELECT count(*) FROM "groups"') == [(0,)]
    view.publish("g", Event(2))
    view.dead_letter(take(view), "why")
    assert q.sql(f"SELECT count(*) FROM {q.table('dead')}") == [(1,)]
    assert q.sql(f"SELECT busy FROM {q.table('state')}") == [(0,)]


@pytest.mark.parametrize("lost", ["raise", "warn"])
def test_a_lease_that_lapsed_and_went_to_an_old_worker_is_lost(
    q: MixedQueue, clock: Clock, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock, lost)
    view.publish("g", Event(1))
    late = take(view, 10)
    clock.advance(11)
    view.publish("other", Event(0))
    held = {lease.group_id: lease for lease in (take_plainly(plain), take_plainly(plain))}["g"]
    if lost == "raise":
        with pytest.raises(LeaseLost, match=str(late.seq)):
            view.ack(late)
    else:
        view.ack(late)
        assert len([record for record in caplog.records if record.name.startswith("rqfast")]) == 1
    assert q.sql("SELECT locked_by FROM messages WHERE seq=?", held.seq) == [(held.token,)]
    plain.ack(held)


def test_rqfast_waits_for_what_old_workers_hold_and_takes_it_when_it_lapses(q: MixedQueue, clock: Clock) -> None:
    plain, view = q.open_plain(clock), open_new(q, clock)
    for group in ("in work", "parked", "freed", "done"):
        plain.publish(group, Event(1))
        plain.publish(group, Event(2))
    leases = {lease.group_id: lease for lease in (take_plainly(plain, 100) for _ in range(4))}
    plain.nack(leases["parked"], 50)
    plain.nack(leases["freed"])
    plain.ack(leases["done"])
    assert {lease.group_id: lease.event.number for lease in view.claim_many("new", 1000, 10)} == {"freed": 1, "done": 2}
    clock.advance(51)
    assert [lease.group_id for lease in view.claim_many("new", 1000, 10)] == ["parked"]
    clock.advance(50)
    (lease,) = view.claim_many("new", 1000, 10)
    assert (lease.group_id, lease.attempts) == ("in work", 2)


# -- joining and leaving -----------------------------------------------------------------------------


def test_an_old_worker_joins_a_queue_that_rqfast_made(q: MixedQueue, clock: Clock) -> None:
    view = open_new(q, clock)
    view.publish("g", Event(1), 3)
    view.publish("g", Event(2))
    plain = q.open_plain(clock)
    first = take_plainly(plain)
    assert first.event == Event(1)
    assert view.claim("new") is None
    plain.ack(first)
    second = take(view)
    assert second.event == Event(2)
    assert plain.claim("old", 60.0) is None
    view.ack(second)
    assert q.sql('SELECT count(*) FROM "groups"') == [(0,)]
