"""Dead letters come back: under their old seqs, in their old order, ahead of what was published later."""

from __future__ import annotations

import pytest

from tests.contract.operating import take
from tests.contract.views import Clock, Queue, View


def bury(view: View, group: str = "g", count: int = 5) -> list[int]:
    """Dead letters 0, 1, .. of a group; their seqs."""
    seqs = list(view.publish_many((group, n) for n in range(count)))
    for _ in range(count):
        view.dead_letter(take(view), "why")
    return seqs


def worked(view: View) -> list[object]:
    """The events of all that can be claimed, in the order of the claims."""
    events: list[object] = []
    while lease := view.claim("w"):
        events.append(lease.event)
        view.ack(lease)
    return events


def test_they_come_back_in_order_and_before_what_was_published_later(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    seqs = bury(view)
    clock.advance(60)
    view.publish_many(("g", n) for n in range(5, 8))
    assert view.redrive() == 5
    assert [message.seq for message in view.peek("g")][:5] == seqs
    assert worked(view) == list(range(8))
    assert view.redrive() == 0
    assert view.dead_letters() == []


def test_they_come_back_one_at_a_time(q: Queue) -> None:
    view = q.open()
    bury(view)
    view.redrive()
    assert len(view.claim_many("w", 60, 10)) == 1
    assert view.claim("w") is None


def test_they_come_back_as_they_were(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    seq = view.publish("g", {"n": 1}, 3, rank=2, headers={"h": "v"})
    published = clock.now
    clock.advance(5)
    for _ in range(3):
        view.nack(take(view))
    view.dead_letter(take(view), "why")
    clock.advance(5)
    assert view.redrive("g") == 1
    [message] = view.peek("g")
    assert (message.seq, message.event, message.rank, message.headers) == (seq, {"n": 1}, 2, {"h": "v"})
    assert (message.attempts, message.published_at, message.due_at) == (0, published, published)
    lease = view.claim("w", min_priority=3)
    assert lease is not None and (lease.priority, lease.attempts) == (3, 1)


def test_one_that_is_in_the_way_of_work_waits_for_it(q: Queue) -> None:
    view = q.open()
    bury(view, count=1)
    view.publish("g", "later")
    held = take(view)
    assert view.redrive() == 1
    assert view.claim("w") is None
    view.ack(held)
    assert worked(view) == [0]


def test_a_group_comes_back_with_the_highest_priority_it_had(q: Queue) -> None:
    view = q.open()
    for priority in (1, 4, 2):
        view.publish("g", priority, priority)
        view.dead_letter(take(view), "why")
    assert view.redrive() == 3
    assert view.groups()[0].priority == 4


def test_a_group_that_stands_keeps_its_priority(q: Queue) -> None:
    view = q.open()
    bury(view, count=1)
    view.publish("g", "later", 2)
    view.redrive()
    assert view.groups()[0].priority == 2


@pytest.mark.parametrize("what", ["g", None])
def test_into_what_is_paused(q: Queue, what: str | None) -> None:
    view = q.open()
    bury(view)
    view.pause(what)
    assert view.redrive() == 5
    assert view.claim("w") is None
    view.resume(what)
    assert worked(view) == list(range(5))


def test_a_limit_takes_the_smallest_seqs(q: Queue) -> None:
    view = q.open()
    bury(view)
    assert view.redrive(limit=2) == 2
    assert [message.event for message in view.peek("g")] == [0, 1]
    assert [letter.event for letter in view.dead_letters()] == [2, 3, 4]
    assert view.redrive("g", limit=100) == 3
    assert worked(view) == list(range(5))


def test_chosen_ones(q: Queue) -> None:
    view = q.open()
    seqs, others = bury(view), bury(view, "h", 2)
    assert view.redrive(seqs=[]) == 0
    assert view.redrive("h", seqs=[seqs[0], others[1], others[1], 4711]) == 1
    assert view.redrive(seqs=iter([seqs[3], seqs[1], -1])) == 2
    assert view.redrive(seqs=seqs, limit=1) == 1
    assert [message.event for message in view.peek("g")] == [0, 1, 3]
    assert [message.event for message in view.peek("h")] == [1]
    assert [letter.seq for letter in view.dead_letters()] == [seqs[2], seqs[4], others[0]]


def test_of_one_group(q: Queue) -> None:
    view = q.open()
    bury(view)
    bury(view, "h", 2)
    assert view.redrive("h") == 2
    assert view.redrive("nobody") == 0
    assert [letter.group_id for letter in view.dead_letters()] == ["g"] * 5


def test_again_and_again(q: Queue) -> None:
    view = q.open()
    seqs = bury(view, count=2)
    for _ in range(3):
        assert view.redrive() == 2
        for _ in seqs:
            lease = take(view)
            assert lease.attempts == 1
            view.dead_letter(lease, "again")
    assert [(letter.seq, letter.reason) for letter in view.dead_letters()] == [(seq, "again") for seq in seqs]
    assert view.drop_dead_letters(seqs[:1]) == 1
    assert view.redrive() == 1
    assert worked(view) == [1]


def test_the_dedup_id_of_a_dead_letter_stands(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock, dedup_window=100)
    seq = view.publish("g", 1, dedup_id="id")
    view.dead_letter(take(view), "why")
    assert view.publish("g", 2, dedup_id="id") == seq
    assert view.claim("w") is None
    view.redrive()
    assert view.publish("g", 2, dedup_id="id") == seq
    assert worked(view) == [1]
    clock.advance(101)
    assert view.publish("g", 2, dedup_id="id") > seq
    assert worked(view) == [2]


def test_many_go_in_steps(q: Queue, clock: Clock) -> None:
    """More than one commit takes (2,000), in groups of several sizes."""
    view = q.open(clock=clock)
    view.publish_many((f"g{n % 300}", n) for n in range(4500))
    clock.advance(1)
    seqs = []
    while leases := view.claim_many("w", 60, 1000):
        assert view.dead_letter_many(leases, "why") == []
        seqs += [lease.seq for lease in leases]
    assert view.redrive(limit=2100) == 2100
    assert view.redrive(seqs=seqs[:3000], limit=2050) <= 2050
    assert view.redrive() + view.stats().messages >= 4500
    assert view.stats().dead == 0
    assert [message.event for message in view.peek("g7", 100)] == list(range(7, 4500, 300))
    held = view.claim_many("w", 60, 10)
    assert view.purge(everything=True) == 4490
    assert view.ack_many(held) == []
    assert view.groups() == []


def test_a_large_group_is_purged_in_steps(q: Queue) -> None:
    view = q.open()
    view.publish_many(("g", n) for n in range(4100))
    view.publish("h", 1)
    held = view.claim_many("w", 60, 2)
    assert view.purge("g") == 4099
    assert view.stats().messages == 2
    assert view.ack_many(held) == []
    assert view.stats().groups == 0
