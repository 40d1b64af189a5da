"""Paused groups and queues: nothing is claimed from them, by anyone, until they are resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import rqfast
from tests.contract.operating import take
from tests.contract.processes import remotes
from tests.contract.views import Clock, Lease, Queue, View

NEVER = 600.0
WAIT = 30.0
BOTH = pytest.mark.parametrize("what", ["g", None], ids=["group", "queue"])


def waiting(view: View) -> Future[Lease | None]:
    """A claim that waits, in a thread of its own."""
    future: Future[Lease | None] = Future()

    def claim() -> None:
        try:
            future.set_result(view.claim("waiting", 600, wait=WAIT))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=claim, daemon=True).start()
    return future


@BOTH
def test_a_pause_stays_when_the_group_drains(q: Queue, what: str | None) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = take(view)
    view.pause(what)
    view.ack(lease)
    view.publish("g", 2)
    assert view.claim("w") is None
    assert q.open().claim("w") is None
    view.resume(what)
    assert take(view).event == 2


def test_a_pause_of_a_group_does_not_hold_others(q: Queue) -> None:
    view = q.open()
    view.pause("g")
    view.publish_many([("g", 1), ("h", 2)])
    assert [lease.group_id for lease in view.claim_many("w", 60, 10)] == ["h"]
    assert [group.group_id for group in view.groups(state="paused")] == ["g"]


def test_a_group_that_is_resumed_without_messages_goes(q: Queue) -> None:
    view = q.open()
    view.pause("g")
    assert view.stats().groups == 1
    view.resume("g")
    assert view.stats().groups == 0
    view.resume("nobody")
    assert view.groups() == []


@pytest.mark.parametrize("full", [False, True])
def test_the_first_publish_sets_the_priority_of_a_paused_group_too(q: Queue, full: bool) -> None:
    view = q.open()
    view.pause("g")
    assert view.groups()[0].priority == 0
    view.publish("g", 1, 3, rank=int(full))
    view.publish("g", 2, 1, rank=int(full))
    assert view.groups()[0].priority == 3
    view.resume("g")
    lease = view.claim("w", min_priority=3)
    assert lease is not None and lease.priority == 3


SETTLE: dict[str, tuple[Callable[[View, Lease], object], list[int]]] = {
    "ack": (lambda view, lease: view.ack(lease), [1, 2]),
    "nack": (lambda view, lease: view.nack(lease), [0, 1, 2]),
    "defer": (lambda view, lease: view.defer(lease, 0), [1, 2, 0]),
    "dead letter": (lambda view, lease: view.dead_letter(lease, "why"), [1, 2]),
}


@BOTH
@pytest.mark.parametrize("how", SETTLE)
def test_what_is_in_work_may_settle(q: Queue, what: str | None, how: str, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish_many([("g", n) for n in range(3)])
    lease = take(view)
    view.pause(what)
    assert view.extend(lease, 120) == clock.now + 120
    settle, left = SETTLE[how]
    settle(view, lease)
    assert view.claim("w") is None
    assert [message.event for message in view.peek("g")] == left
    view.resume(what)
    assert take(view).event == left[0]


@BOTH
def test_an_ack_with_a_claim_settles_and_claims_nothing(q: Queue, what: str | None) -> None:
    view = q.open()
    view.publish_many([("g", 1), ("g", 2)])
    lease = take(view)
    view.pause(what)
    assert view.claim("w", ack=lease) is None
    assert [message.event for message in view.peek("g")] == [2]


@BOTH
def test_a_lapsed_lease_in_a_paused_group_is_not_claimed_again(q: Queue, what: str | None, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1)
    lease = take(view, 10)
    view.pause(what)
    clock.advance(20)
    assert view.claim("w") is None
    view.ack(lease)


@pytest.mark.parametrize("min_priority", [0, 1, 3])
def test_a_paused_queue_hides_all_priorities(q: Queue, min_priority: int) -> None:
    view, other = q.open(), q.open()
    view.publish_many((f"g{n}", n, n % 5) for n in range(10))
    view.pause()
    for each in (view, other):
        assert each.claim_many("w", 60, 10, min_priority) == []
    view.resume()
    assert len(other.claim_many("w", 60, 10, min_priority)) == 2 * (5 - min_priority)


@BOTH
def test_idle_claims_write_nothing_while_paused(q: Queue, what: str | None) -> None:
    view, other = q.open(), q.open()
    view.publish_many([("g", n) for n in range(3)])
    view.pause(what)
    for _ in range(3):
        assert view.claim("w") is None
        assert other.claim("w") is None
    entries = q.entries()
    for each in (view, other):
        for _ in range(10):
            assert each.claim("w") is None
            assert each.claim_many("w", 30, 10, 1) == []
        assert each.claim("w", wait=0.3) is None
    assert q.entries() == entries


@BOTH
def test_many_groups_that_are_paused_cost_an_idle_claim_nothing(q: Queue, what: str | None) -> None:
    view = q.open()
    view.publish_many((f"g{n}", n) for n in range(20))
    for n in range(20):
        view.pause(what and f"g{n}")
    for _ in range(2):
        view.claim("w")
    entries = q.entries()
    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(lambda _: view.claim("w", wait=0.3), range(5))) == [None] * 5
    assert q.entries() == entries


@BOTH
def test_resume_wakes_a_claim_that_waits_in_this_process(q: Queue, what: str | None) -> None:
    view, other = q.open(max_poll=NEVER), q.open()
    view.publish("g", 1)
    view.pause(what)
    future = waiting(view)
    other.resume(what)
    lease = future.result(50)
    assert lease is not None and lease.event == 1


@pytest.mark.parametrize("how", ["release", "delete", "purge", "redrive"])
def test_other_calls_that_free_a_message_wake_too(q: Queue, how: str) -> None:
    view = q.open(max_poll=NEVER)
    view.publish_many([("g", 1), ("g", 2)])
    held = take(view)
    if how == "redrive":
        view.dead_letter(held, "why")
        view.delete(view.peek("g")[0].seq)
    elif how in ("delete", "purge"):
        view.nack(held, 600)
    future = waiting(view)
    {
        "release": lambda: view.release("g"),
        "delete": lambda: view.delete(held.seq),
        "purge": lambda: (view.purge("g"), view.publish("g", 2)),
        "redrive": lambda: view.redrive(),
    }[how]()
    lease = future.result(50)
    assert lease is not None and lease.event == (2 if how in ("delete", "purge") else 1)


@BOTH
def test_a_pause_holds_in_all_processes(q: Queue, what: str | None) -> None:
    view = q.open()
    view.publish_many([("g", 1), ("g", 2)])
    with remotes(q.address, 0, 0) as (one, other):
        held = one.call("claim", "one", 60)
        view.pause(what)
        one.call("ack", held)
        for remote in (one, other):
            assert remote.call("claim", "w", 60) is None
        other.call("resume", what)
        assert one.call("claim", "one", 60, wait=WAIT).event == 2


def test_a_pause_outlives_the_process_that_made_it(q: Queue) -> None:
    with remotes(q.address, 0) as (one,):
        one.call("pause", "g")
        one.call("pause")
        one.kill()
    view = q.open()
    view.publish("g", 1)
    assert view.stats().queue_paused
    view.resume()
    assert view.claim("w") is None
    view.resume("g")
    assert take(view).event == 1


def test_each_call_from_another_process_than_the_one_that_holds_the_leases(q: Queue) -> None:
    view = q.open()
    view.publish_many((name, k) for name in ("a", "b", "c", "d") for k in range(2))
    with remotes(q.address, 0) as (worker,):
        leases: dict[str, Any] = {lease.group_id: lease for lease in worker.call("claim_many", "worker", 60, 10)}
        assert sorted(leases) == ["a", "b", "c", "d"]
        assert {group.worker_id for group in view.groups(state="in_work")} == {"worker"}
        assert view.stats().in_work == 4
        assert view.delete(leases["a"].seq) is False
        assert view.purge("a") == 1
        assert view.release("b") is True
        view.pause("c")
        with pytest.raises(rqfast.LeaseLost):
            worker.call("ack", leases["b"])
        for name in ("a", "c"):
            worker.call("ack", leases[name])
        worker.call("dead_letter", leases["d"], "why")
        assert view.redrive("d") == 1
        assert [message.event for message in view.peek("d")] == [0, 1]
        again = worker.call("claim_many", "worker", 60, 10)
        assert {(lease.group_id, lease.event, lease.attempts) for lease in again} == {("b", 0, 2), ("d", 0, 1)}
        assert view.purge(everything=True) == 3
        assert worker.call("ack_many", again) == []
        assert [group.group_id for group in view.groups()] == ["c"]
