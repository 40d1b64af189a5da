"""Order in a group (rules 1 to 3): seq, rank, due time, parking and deferring."""

import pytest

from tests.contract.views import Clock, Lease, Queue, View


def take(view: View, visibility: float = 30.0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def work_off(view: View) -> list[object]:
    """Claim and acknowledge until nothing comes: the events in the order in which they came."""
    events = []
    while (lease := view.claim("w")) is not None:
        events.append(lease.event)
        view.ack(lease)
    return events


def test_a_group_is_worked_in_the_order_of_its_publishes(q: Queue) -> None:
    view = q.open()
    seqs = [view.publish("g", n) for n in range(6)]
    assert seqs == sorted(set(seqs))
    assert work_off(view) == [0, 1, 2, 3, 4, 5]


def test_one_message_of_a_group_is_in_work_while_others_proceed(q: Queue) -> None:
    view = q.open()
    for event in ("a1", "a2"):
        view.publish("a", event)
    view.publish("b", "b1")
    held = {take(view).event, take(view).event}
    assert held == {"a1", "b1"}
    assert view.claim("w") is None


def test_an_acknowledgement_frees_the_next(q: Queue) -> None:
    view = q.open()
    view.publish("a", 1)
    view.publish("a", 2)
    first = take(view)
    assert view.claim("w") is None
    view.ack(first)
    assert take(view).event == 2


def test_a_seq_is_never_given_twice(q: Queue) -> None:
    view = q.open()
    seen = []
    for n in range(4):
        seen.append(view.publish("g", n))
        view.ack(take(view))
    assert seen == sorted(set(seen))


def test_a_smaller_rank_goes_first_and_seq_decides_among_equals(q: Queue) -> None:
    view = q.open()
    for rank, event in ((5, "5a"), (0, "0a"), (-3, "-3a"), (5, "5b"), (0, "0b"), (-3, "-3b")):
        view.publish("g", event, rank=rank)
    assert work_off(view) == ["-3a", "-3b", "0a", "0b", "5a", "5b"]


def test_a_smaller_rank_waits_until_the_one_in_work_settles(q: Queue) -> None:
    view = q.open()
    view.publish("g", "first")
    view.publish("g", "second")
    held = take(view)
    view.publish("g", "urgent", rank=-1)
    assert view.claim("w") is None
    view.ack(held)
    assert work_off(view) == ["urgent", "second"]


def test_a_smaller_rank_waits_until_the_lease_ahead_of_it_ends(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "first")
    take(view, 10)
    view.publish("g", "urgent", rank=-1)
    clock.advance(9)
    assert view.claim("w") is None
    clock.advance(2)
    assert work_off(view) == ["urgent", "first"]


def test_nack_gives_the_same_message_at_once(q: Queue) -> None:
    view = q.open()
    view.publish("g", "a")
    view.publish("g", "b")
    view.nack(take(view))
    assert work_off(view) == ["a", "b"]


def test_nack_keeps_the_place_in_the_order_of_ranks(q: Queue) -> None:
    view = q.open()
    view.publish("g", "a")
    view.publish("g", "b")
    held = take(view)
    view.publish("g", "urgent", rank=-1)
    view.nack(held)
    assert work_off(view) == ["urgent", "a", "b"]


def test_a_parked_message_blocks_its_group_and_keeps_its_place(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    view.publish("g", "b")
    view.nack(take(view), 5)
    assert view.claim("w") is None
    clock.advance(4)
    assert view.claim("w") is None
    clock.advance(2)
    assert work_off(view) == ["a", "b"]


def test_a_parked_group_waits_even_for_a_smaller_rank(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    view.nack(take(view), 5)
    view.publish("g", "urgent", rank=-1)
    assert view.claim("w") is None
    clock.advance(6)
    assert work_off(view) == ["urgent", "a"]


def test_a_delayed_message_is_not_handed_out_before_its_time(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "later", delay=10)
    assert view.claim("w") is None
    clock.advance(9)
    assert view.claim("w") is None
    clock.advance(2)
    assert take(view).event == "later"


def test_a_delayed_message_blocks_nobody_due_earlier(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "later", delay=10)
    view.publish("g", "now")
    assert work_off(view) == ["now"]
    clock.advance(11)
    assert work_off(view) == ["later"]


def test_a_delayed_message_of_a_larger_rank_blocks_nobody(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "later", delay=10, rank=1)
    view.publish("g", "now")
    assert work_off(view) == ["now"]
    clock.advance(11)
    assert work_off(view) == ["later"]


def test_the_due_time_orders_before_the_seq(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "due at 20", delay=20)
    view.publish("g", "due at 10", delay=10)
    clock.advance(5)
    view.publish("g", "due at 5")
    clock.advance(10)
    view.publish("g", "due at 15")
    clock.advance(10)
    view.publish("g", "due at 25")
    assert work_off(view) == ["due at 5", "due at 10", "due at 15", "due at 20", "due at 25"]


def test_rank_orders_before_the_due_time(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "rank 1, at once", rank=1)
    view.publish("g", "rank 0, in 5", delay=5)
    clock.advance(6)
    assert work_off(view) == ["rank 0, in 5", "rank 1, at once"]


def test_a_delayed_head_does_not_stop_the_message_in_work_from_settling(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    view.publish("g", "b")
    held = take(view)
    view.publish("g", "urgent, later", rank=-1, delay=10)
    view.ack(held)
    assert view.claim("w") is None
    clock.advance(11)
    assert work_off(view) == ["urgent, later", "b"]


def test_a_deferred_message_moves_behind_and_the_group_goes_on(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    for event in ("a", "b", "c"):
        view.publish("g", event)
    view.defer(take(view), 10)
    assert work_off(view) == ["b", "c"]
    clock.advance(9)
    assert view.claim("w") is None
    clock.advance(2)
    assert work_off(view) == ["a"]


def test_a_deferred_message_is_ahead_of_those_published_after_it_fell_due(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    view.defer(take(view), 10)
    clock.advance(5)
    view.publish("g", "due before")
    clock.advance(6)
    view.publish("g", "due after")
    assert work_off(view) == ["due before", "a", "due after"]


def test_defer_by_nothing_moves_behind_all_that_are_due(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    for event in ("a", "b", "c"):
        view.publish("g", event)
    view.publish("g", "later", delay=60)
    clock.advance(1)
    view.defer(take(view), 0)
    clock.advance(1)
    view.publish("g", "d")
    assert work_off(view) == ["b", "c", "a", "d"]


def test_defer_by_nothing_moves_behind_even_while_the_clock_stands(q: Queue, clock: Clock) -> None:
    """The queue's time may stand still for a client that is behind it: the place must not depend on that."""
    view = q.open(clock=clock)
    for event in ("a", "b", "c"):
        view.publish("g", event)
    view.defer(take(view), 0)
    assert work_off(view) == ["b", "c", "a"]


def test_defer_keeps_to_its_rank(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "low 1", rank=0)
    view.publish("g", "low 2", rank=0)
    view.publish("g", "high", rank=1)
    clock.advance(1)
    view.defer(take(view), 0)
    assert work_off(view) == ["low 2", "low 1", "high"]


def test_a_lapsed_message_is_claimed_again_ahead_of_those_behind_it(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    for event in ("a", "b"):
        view.publish("g", event)
    assert take(view, 10).event == "a"
    clock.advance(11)
    assert work_off(view) == ["a", "b"]


def test_rank_delay_and_place_hold_for_values_too(q: Queue, clock: Clock) -> None:
    from rqfast import Message

    view = q.open(clock=clock)
    view.publish_many(
        [
            Message("g", "rank 1", rank=1),
            Message("g", "later", delay=5),
            ("g", "plain"),
            Message("g", "rank -1", rank=-1),
        ]
    )
    assert work_off(view) == ["rank -1", "plain"]
    clock.advance(6)
    assert work_off(view) == ["later", "rank 1"]


@pytest.mark.parametrize("ranks", [(-(2**31), 0, 2**31), (-(2**63), 2**63 - 1)])
def test_ranks_of_any_size_order(q: Queue, ranks: tuple[int, ...]) -> None:
    view = q.open()
    for rank in reversed(ranks):
        view.publish("g", rank, rank=rank)
    assert work_off(view) == list(ranks)
