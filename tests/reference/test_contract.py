"""The contract tests of the plain transport's users, on the transport itself: what is true of it."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from bench.reference import Event, Lease, RqliteTransport
from tests.contract.views import Clock
from tests.plain import Plain
from tests.reference.conftest import PlainQueue


def take(plain: Plain, visibility: float = 30.0, min_priority: int = 0) -> Lease:
    """Claim what must be there."""
    lease = plain.claim("worker", visibility, min_priority)
    assert lease is not None
    return lease


def test_fifo_in_a_group(plain: PlainQueue) -> None:
    view = plain.open()
    for n in range(5):
        view.publish("g", Event(n, "text"))
    for n in range(5):
        lease = take(view)
        assert (lease.group_id, lease.event) == ("g", Event(n, "text"))
        view.ack(lease)
    assert view.claim("worker", 30.0) is None


def test_one_in_flight_a_group_while_others_proceed(plain: PlainQueue) -> None:
    view = plain.open()
    for group in ("a", "b"):
        view.publish(group, Event(0))
        view.publish(group, Event(1))
    assert {take(view).group_id, take(view).group_id} == {"a", "b"}
    assert view.claim("worker", 30.0) is None


def test_ack_frees_the_next(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("g", Event(1))
    view.publish("g", Event(2))
    view.ack(take(view))
    assert take(view).event == Event(2)


def test_nack_0_gives_the_same_message_at_once(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("g", Event(1))
    view.publish("g", Event(2))
    first = take(view)
    view.nack(first)
    assert take(view).seq == first.seq


def test_nack_with_a_delay_hides_it_until_the_clock_passes(plain: PlainQueue, clock: Clock) -> None:
    view = plain.open(clock)
    view.publish("g", Event(1))
    first = take(view)
    view.nack(first, delay=5)
    assert view.claim("worker", 30.0) is None
    clock.advance(6)
    assert take(view).seq == first.seq


def test_a_lapsed_lease_is_claimable_again_and_not_before(plain: PlainQueue, clock: Clock) -> None:
    view = plain.open(clock)
    view.publish("g", Event(1))
    first = take(view, 10)
    clock.advance(9)
    assert view.claim("worker", 30.0) is None
    clock.advance(2)
    assert take(view).seq == first.seq


def test_four_threads_four_groups_five_messages(plain: PlainQueue) -> None:
    view = plain.open()
    for n in range(5):
        for group in range(4):
            view.publish(f"g{group}", Event(n))
    lock, inside, clashes = threading.Lock(), Counter[str](), []
    done: dict[str, list[int]] = defaultdict(list)
    end = time.monotonic() + 60

    def work() -> None:
        while time.monotonic() < end and sum(map(len, done.values())) < 20:
            lease = view.claim("worker", 60)
            if lease is None:
                time.sleep(0.005)
                continue
            with lock:
                inside[lease.group_id] += 1
                if inside[lease.group_id] > 1:
                    clashes.append(lease.group_id)
                done[lease.group_id].append(lease.event.number)
            with lock:
                inside[lease.group_id] -= 1
            view.ack(lease)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(70)
    assert clashes == []
    assert done == {f"g{group}": [0, 1, 2, 3, 4] for group in range(4)}


def test_after_a_was_served_a_fresh_b_goes_first(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("A", Event(1))
    view.publish("A", Event(2))
    view.ack(take(view))
    view.publish("B", Event(1))
    assert take(view).group_id == "B"


def test_min_priority_filters_and_0_takes_all(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("low", Event(1), 0)
    view.publish("high", Event(1), 2)
    assert take(view, min_priority=1).group_id == "high"
    assert view.claim("worker", 30.0, 1) is None
    assert take(view).group_id == "low"


def test_only_the_first_publish_sets_the_priority_and_it_starts_anew_after_a_drain(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("g", Event(1), 3)
    view.publish("g", Event(2), 0)
    view.ack(take(view, min_priority=3))
    view.ack(take(view, min_priority=3))
    view.publish("g", Event(3), 0)
    assert view.claim("worker", 30.0, 1) is None
    assert take(view).event == Event(3)


def test_13_groups_are_all_served_in_13_claims(plain: PlainQueue) -> None:
    view = plain.open()
    for n in range(26):
        view.publish(f"g{n % 13}", Event(n))
    served = set()
    for _ in range(13):
        lease = take(view)
        served.add(lease.group_id)
        view.ack(lease)
    assert len(served) == 13


def test_a_high_priority_group_is_found_behind_1000_low_ones(plain: PlainQueue) -> None:
    view = plain.open()
    plain.cluster.execute_many(
        [
            [f"WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1000) {insert}"]
            for insert in (
                "INSERT INTO messages(group_id,event) SELECT 'low '||i, '{\"number\":1}' FROM n",
                "INSERT INTO \"groups\"(group_id) SELECT 'low '||i FROM n",
            )
        ]
    )
    view.publish("high", Event(1), 4)
    assert take(view, min_priority=4).group_id == "high"


def test_20_claims_at_once_get_20_different_groups(plain: PlainQueue) -> None:
    view = plain.open()
    for n in range(40):
        view.publish(f"g{n % 20}", Event(n))
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


# -- shapes ----------------------------------------------------------------------------------------


def test_a_lease_is_a_dataclass_of_four_fields(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("g", Event(1, "t"))
    lease = take(view)
    assert lease.token.startswith("worker:") and len(lease.token) == len("worker:") + 32
    assert lease == Lease(lease.seq, "g", Event(1, "t"), lease.token) == copy.copy(lease)
    assert pickle.loads(pickle.dumps(lease)) == lease
    assert replace(lease, token="other") != lease
    assert repr(lease).startswith(f"Lease(seq={lease.seq}, group_id='g', event=")


def test_the_column_holds_the_events_text_as_it_is(plain: PlainQueue) -> None:
    view = plain.open()
    view.publish("g", Event(1, "naïve"))
    assert plain.cluster.query("SELECT event FROM messages") == [(Event(1, "naïve").model_dump_json(),)]


def test_an_sql_error_is_a_runtime_error(plain: PlainQueue) -> None:
    view = plain.open()
    plain.cluster.execute("DROP TABLE messages")
    with pytest.raises(RuntimeError, match="no such table"):
        view.publish("g", Event(1))


def test_opening_adds_a_row_for_every_group_that_has_messages(plain: PlainQueue) -> None:
    plain.open()
    plain.cluster.execute("INSERT INTO messages(group_id,event) VALUES('orphan',?)", Event(1).model_dump_json())
    view = plain.open()
    assert take(view).group_id == "orphan"


@pytest.mark.cluster("one node")
def test_from_url_tries_again_and_gives_up() -> None:
    with pytest.raises(OSError, match="refused"):
        RqliteTransport.from_url("http://127.0.0.1:1", connect_retries=3, retry_delay=0.01)
