"""Turns between groups, and min_priority (rule 6)."""

from collections import Counter

import pytest

from tests.contract.views import Clock, Lease, Queue, View


def take(view: View, min_priority: int = 0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", 30, min_priority)
    assert lease is not None
    return lease


def test_after_a_was_served_a_fresh_b_goes_first(q: Queue) -> None:
    view = q.open()
    view.publish("A", 1)
    view.publish("A", 2)
    view.ack(take(view))
    view.publish("B", 1)
    assert take(view).group_id == "B"


def test_a_fresh_group_goes_before_one_served_in_the_same_claim_and_acknowledgement(q: Queue) -> None:
    view = q.open()
    view.publish("A", 1)
    view.publish("A", 2)
    held = take(view)
    view.publish("B", 1)
    following = view.claim("w", ack=held)
    assert following is not None and following.group_id == "B"


def test_groups_are_served_in_turns(q: Queue) -> None:
    view = q.open()
    names = [f"g{n}" for n in range(13)]
    view.publish_many([(name, n) for name in names for n in range(2)])
    rounds = []
    for _ in range(2):
        served = []
        for _ in names:
            lease = take(view)
            served.append(lease.group_id)
            view.ack(lease)
        rounds.append(served)
    assert sorted(rounds[0]) == sorted(names)
    assert rounds[0] == rounds[1]


def test_a_backlog_gets_its_turns_beside_groups_that_trickle(q: Queue) -> None:
    view = q.open()
    view.publish_many([("backlog", n) for n in range(60)])
    view.publish("x", 0)
    view.publish("y", 0)
    served: Counter[str] = Counter()
    for n in range(90):
        lease = take(view)
        served[lease.group_id] += 1
        view.ack(lease)
        if lease.group_id != "backlog":
            view.publish(lease.group_id, n)
    assert min(served.values()) >= 29, served


def test_a_backlog_of_groups_is_served_evenly_beside_fresh_groups(q: Queue) -> None:
    view = q.open()
    backlog = [f"b{n}" for n in range(20)]
    view.publish_many([(name, n) for name in backlog for n in range(6)])
    served: Counter[str] = Counter(dict.fromkeys(backlog, 0))
    for n in range(10):
        view.publish_many([(f"fresh {n} {k}", k) for k in range(4)])
        leases = view.claim_many("w", 30, 8)
        assert len(leases) == 8
        served.update(lease.group_id for lease in leases if lease.group_id in served)
        assert view.ack_many(leases) == []
    counts = set(served.values())
    assert max(counts) - min(counts) <= 1 and min(counts) >= 1, served


def test_a_new_group_never_goes_before_one_that_has_waited_longer(q: Queue) -> None:
    view = q.open()
    view.publish_many([(name, n) for name in ("a", "b", "c") for n in range(2)])
    first = take(view)
    view.ack(first)
    view.publish("fresh", 0)
    waited = [name for name in ("a", "b", "c") if name != first.group_id]
    order = [take(view).group_id for _ in range(4)]
    assert sorted(order[:2]) == waited
    assert order[2:] == ["fresh", first.group_id]


def test_a_blocked_group_never_hides_others(q: Queue, clock: Clock) -> None:
    """Parked, delayed, in work, held by a delayed head: fifty of each stand in front of one that is free."""
    view = q.open(clock=clock)
    view.publish_many([(f"parked {n}", n) for n in range(50)])
    assert view.nack_many(view.claim_many("w", 30, 50), 600) == []
    view.publish_many([(f"in work {n}", n) for n in range(50)])
    assert len(view.claim_many("w", 600, 50)) == 50
    from rqfast import Message

    view.publish_many([Message(f"delayed {n}", n, delay=600) for n in range(50)])
    view.publish_many([Message(f"held {n}", n, delay=600, rank=-1) for n in range(50)])
    view.publish_many([(f"held {n}", n) for n in range(50)])
    view.publish("free", "me")
    assert take(view).group_id == "free"
    assert view.claim("w") is None


def test_empty_groups_in_front_stop_nothing(q: Queue) -> None:
    """Rows of groups without messages, as a foreign tool may leave them, stand first in every index."""
    view = q.open()
    for n in range(5):
        values = f"INSERT INTO {q.table('groups')}(group_id,priority,turn) VALUES(?,4,-5)"
        q.execute(values, f"empty {n}")
    view.publish("full", "me", 4)
    assert take(view).group_id == "full"
    assert view.claim("w") is None
    view.publish("also full", "me", 4)
    assert take(view, 4).group_id == "also full"


def test_groups_that_fall_due_together_all_come(q: Queue, clock: Clock) -> None:
    from rqfast import Message

    view = q.open(clock=clock)
    view.publish_many([Message(f"g{n}", n, delay=10) for n in range(100)])
    clock.advance(11)
    leases = view.claim_many("w", 30, 200)
    assert sorted(lease.event for lease in leases) == list(range(100))


def test_min_priority_filters_and_zero_takes_all(q: Queue) -> None:
    view = q.open()
    for priority in range(5):
        view.publish(f"p{priority}", priority, priority)
    assert {take(view, 3).group_id, take(view, 3).group_id} == {"p3", "p4"}
    assert view.claim("w", 30, 3) is None
    assert take(view, 2).group_id == "p2"
    assert view.claim("w", 30, 1) is not None
    assert view.claim("w", 30, 1) is None
    assert take(view, 0).group_id == "p0"


def test_a_priority_does_not_order(q: Queue) -> None:
    view = q.open()
    view.publish("low", 0, 0)
    view.publish("high", 0, 4)
    assert [take(view).group_id, take(view).group_id] == ["low", "high"]


def test_only_the_first_publish_sets_the_priority_of_a_group(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1, 1)
    view.publish("g", 2, 4)
    assert view.claim("w", 30, 2) is None
    lease = take(view, 1)
    assert lease.priority == 1
    view.ack(lease)
    assert view.claim("w", 30, 2) is None
    assert take(view).priority == 1


def test_a_priority_starts_anew_after_a_drain(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1, 4)
    view.ack(take(view, 4))
    view.publish("g", 2)
    assert view.claim("w", 30, 1) is None
    assert take(view).priority == 0


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_high_priority_group_is_found_behind_a_thousand_low_ones(q: Queue, level: int) -> None:
    view = q.open()
    view.publish_many([(f"low {n}", n, level - 1) for n in range(1000)])
    view.publish("high", "me", level)
    assert take(view, level).group_id == "high"
    assert view.claim("w", 30, level) is None


def test_turns_hold_among_priorities_above_the_least(q: Queue) -> None:
    view = q.open()
    for name, priority in (("a", 4), ("b", 1), ("c", 3), ("d", 2)):
        for n in range(2):
            view.publish(name, n, priority)
    served = []
    for _ in range(8):
        lease = take(view, 1)
        served.append(lease.group_id)
        view.ack(lease)
    assert served[:4] == served[4:]
    assert sorted(served[:4]) == ["a", "b", "c", "d"]


def test_claim_many_takes_heads_of_different_groups(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", k) for k in range(3) for n in range(5)])
    leases = view.claim_many("w", 30, 3)
    assert len({lease.group_id for lease in leases}) == len(leases) == 3
    rest = view.claim_many("w", 30, 100)
    assert {lease.group_id for lease in leases + rest} == {f"g{n}" for n in range(5)}
    assert {lease.event for lease in leases + rest} == {0}
    assert view.claim_many("w", 30, 100) == []


def test_claim_many_heeds_min_priority(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", n, n % 5) for n in range(20)])
    leases = view.claim_many("w", 30, 100, 3)
    assert {lease.priority for lease in leases} == {3, 4}
    assert len(leases) == 8
