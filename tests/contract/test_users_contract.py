"""The contract tests of the plain transport's users: each by its sentence, each on every engine."""

import threading
import time
from collections import defaultdict

import pytest

from rqfast import LeaseLost
from tests.contract.views import Clock, Lease, Queue, View


def take(view: View, visibility: float = 30.0, min_priority: int = 0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("worker", visibility, min_priority)
    assert lease is not None
    return lease


def test_fifo_in_a_group(q: Queue) -> None:
    view = q.open()
    for n in range(5):
        view.publish("g", {"n": n})
    for n in range(5):
        lease = take(view)
        assert lease.event == {"n": n}
        view.ack(lease)


def test_one_in_flight_a_group_while_others_proceed(q: Queue) -> None:
    view = q.open()
    for group in ("a", "b"):
        for n in range(2):
            view.publish(group, n)
    first, second = take(view), take(view)
    assert {first.group_id, second.group_id} == {"a", "b"}
    assert view.claim("worker") is None


def test_ack_frees_the_next(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    view.publish("g", 2)
    view.ack(take(view))
    assert take(view).event == 2


def test_nack_0_gives_the_same_message_at_once(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    view.publish("g", 2)
    first = take(view)
    view.nack(first)
    assert take(view).seq == first.seq


def test_nack_with_a_delay_hides_it_until_the_clock_passes(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    first = take(view)
    view.nack(first, delay=5)
    assert view.claim("worker") is None
    clock.advance(6)
    assert take(view).seq == first.seq


def test_a_lapsed_lease_is_claimable_again_and_not_before(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    first = take(view, 10)
    clock.advance(9)
    assert view.claim("worker") is None
    clock.advance(2)
    assert take(view).seq == first.seq


def test_four_threads_four_groups_five_messages(q: Queue) -> None:
    view = q.open()
    for n in range(5):
        for group in range(4):
            view.publish(f"g{group}", n)
    lock = threading.Lock()
    inside: set[str] = set()
    clashes: list[str] = []
    done: dict[str, list[int]] = defaultdict(list)
    end = time.monotonic() + 60

    def work() -> None:
        while time.monotonic() < end:
            with lock:
                if sum(map(len, done.values())) == 20:
                    return
            lease = view.claim("worker", 60, wait=0.1)
            if lease is None:
                continue
            with lock:
                if lease.group_id in inside:
                    clashes.append(lease.group_id)
                inside.add(lease.group_id)
                done[lease.group_id].append(lease.event)
            with lock:
                inside.discard(lease.group_id)
            view.ack(lease)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(70)
    assert clashes == []
    assert dict(done) == {f"g{group}": [0, 1, 2, 3, 4] for group in range(4)}


def test_after_a_was_served_a_fresh_b_goes_first(q: Queue) -> None:
    view = q.open()
    view.publish("A", 1)
    view.publish("A", 2)
    view.ack(take(view))
    view.publish("B", 1)
    assert take(view).group_id == "B"


def test_min_priority_filters_and_0_takes_all(q: Queue) -> None:
    view = q.open()
    view.publish("low", 1, 0)
    view.publish("high", 1, 2)
    assert take(view, min_priority=1).group_id == "high"
    assert view.claim("worker", 30.0, 1) is None
    assert take(view, min_priority=0).group_id == "low"


def test_priority_starts_anew_after_a_drain(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1, 3)
    view.ack(take(view, min_priority=3))
    view.publish("g", 2, 0)
    assert view.claim("worker", 30.0, 1) is None
    assert take(view).event == 2


def test_13_groups_are_all_served_in_13_claims(q: Queue) -> None:
    view = q.open()
    for n in range(3):
        for group in range(13):
            view.publish(f"g{group}", n)
    served = set()
    for _ in range(13):
        lease = take(view)
        served.add(lease.group_id)
        view.ack(lease)
    assert len(served) == 13


def test_a_high_priority_group_is_found_behind_1000_low_ones(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"low {n}", n) for n in range(1000)])
    view.publish("high", 1, 4)
    assert take(view, min_priority=4).group_id == "high"


def test_20_claims_at_once_get_20_different_groups(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n % 20}", n) for n in range(60)])
    got: list[Lease | None] = []
    start = threading.Barrier(20)

    def claim() -> None:
        start.wait(30)
        got.append(view.claim("worker", 60))

    threads = [threading.Thread(target=claim, daemon=True) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({lease.group_id for lease in got if lease is not None}) == 20


@pytest.mark.parametrize("lost", ["raise", "warn"])
def test_a_late_ack_by_a_former_owner_changes_nothing(
    q: Queue, clock: Clock, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    former, owner = q.open(clock=clock, lost=lost), q.open(clock=clock)
    former.publish("g", 1)
    former.publish("g", 2)
    late = take(former, 10)
    clock.advance(11)
    held = take(owner, 60)
    if lost == "raise":
        with pytest.raises(LeaseLost):
            former.ack(late)
    else:
        former.ack(late)
        assert len([record for record in caplog.records if record.name.startswith("rqfast")]) == 1
    assert former.claim("worker") is None
    owner.ack(held)
    assert take(owner).event == 2


def test_publishers_alternating_in_one_group_are_worked_in_order_of_commit(q: Queue) -> None:
    """Of rqfast only: those of the plain transport come with the next issue."""
    one, two = q.open(), q.open()
    for n in range(20):
        (one, two)[n % 2].publish("g", n)
    for n in range(20):
        lease = take(one)
        assert lease.event == n
        one.ack(lease)
