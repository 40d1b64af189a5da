"""Calls made together: they share requests, and still take effect as if made one by one (rules 8 and 9)."""

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import rqfast
from rqfast import InvalidMessage, LeaseLost, Message
from tests.contract.views import Clock, Lease, Queue, View, run_async

Step = Callable[[Any], Any]


def together(q: Queue, steps: Sequence[Step], **options: Any) -> list[Any]:
    """Make all calls on one transport in one go, in order; what each gave or raised.

    Async: in one turn of the loop, so that they meet in as few requests as may be. Sync: one after another.
    """
    merged = {**q.options, **options}

    def outcome(step: Step, transport: Any) -> Any:
        try:
            return step(transport)
        except rqfast.RqfastError as error:
            return error

    if q.colour == "sync":
        with rqfast.connect(q.url, **merged) as transport:
            return [outcome(step, transport) for step in steps]

    async def script() -> list[Any]:
        async with rqfast.connect_async(q.url, **merged) as transport:
            futures = [step(transport) for step in steps]
            outcomes: list[Any] = []
            for future in futures:
                try:
                    outcomes.append(await future)
                except rqfast.RqfastError as error:
                    outcomes.append(error)
            return outcomes

    return run_async(script(), "calls made together")


def in_threads(calls: Sequence[Callable[[], Any]], seconds: float = 60) -> list[Any]:
    """Make all calls at once, each in a thread of its own; what each gave, or the first error."""
    start = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            start.wait(30)
            results[number] = calls[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), f"still at work after {seconds:g} s"
    if errors:
        raise errors[0]
    return results


def take(view: View, min_priority: int = 0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", 600, min_priority)
    assert lease is not None
    return lease


def work_off(view: View) -> list[Any]:
    """Claim and acknowledge until nothing comes: the events in the order in which they came."""
    events = []
    while (lease := view.claim("w")) is not None:
        events.append(lease.event)
        view.ack(lease)
    return events


def ways(outcomes: Sequence[Any]) -> list[str]:
    """Each outcome by its kind: ok, lost or the name of another error."""
    return [type(one).__name__ if isinstance(one, Exception) else "ok" for one in outcomes]


# -- order of calls for one group ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"max_batch": 3}, {"max_in_flight": 2}], ids=str)
def test_publishes_made_together_keep_their_order(q: Queue, options: dict[str, Any]) -> None:
    steps: list[Step] = [lambda t, n=n: t.publish(f"g{n % 3}", n) for n in range(60)]
    seqs = together(q, steps, **options)
    for group in range(3):
        assert seqs[group::3] == sorted(set(seqs[group::3]))
    view = q.open()
    seen: dict[str, list[int]] = defaultdict(list)
    while (lease := view.claim("w")) is not None:
        seen[lease.group_id].append(lease.event)
        view.ack(lease)
    assert dict(seen) == {f"g{group}": list(range(group, 60, 3)) for group in range(3)}


def test_plain_publishes_and_those_with_more_keep_their_order(q: Queue) -> None:
    steps: list[Step] = [
        lambda t: t.publish("g", 0),
        lambda t: t.publish("g", 1, headers={"a": "b"}),
        lambda t: t.publish("g", 2),
        lambda t: t.publish("g", 3, dedup_id="three"),
        lambda t: t.publish_many([("g", 4), Message("g", 5, rank=0), ("g", 6)]),
        lambda t: t.publish("g", 7),
        lambda t: t.publish("g", 8, 2),
        lambda t: t.publish("g", -1, rank=-1),
    ]
    outcomes = together(q, steps)
    seqs = [seq for one in outcomes for seq in (one if not isinstance(one, int) else [one])]
    assert seqs == sorted(set(seqs))
    assert work_off(q.open()) == [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_publish_then_ack_of_the_last_keeps_the_group(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = take(view)
    outcomes = together(q, [lambda t: t.publish("g", 2, 3), lambda t: t.ack(lease)])
    assert ways(outcomes) == ["ok", "ok"]
    assert view.claim("w", 30, 1) is None, "the group was there: its priority stays 0"
    assert take(view).priority == 0


def test_ack_of_the_last_then_publish_makes_the_group_anew(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = take(view)
    outcomes = together(q, [lambda t: t.ack(lease), lambda t: t.publish("g", 2, 3)])
    assert ways(outcomes) == ["ok", "ok"]
    assert take(view, 3).event == 2


def test_ack_then_claim_takes_the_next_of_the_group(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    view.publish("g", 2)
    lease = take(view)
    _, following = together(q, [lambda t: t.ack(lease), lambda t: t.claim("w")])
    assert following is not None and following.event == 2


def test_publish_then_claim_takes_what_was_published(q: Queue) -> None:
    seq, lease = together(q, [lambda t: t.publish("g", 1), lambda t: t.claim("w")])
    assert lease is not None and lease.seq == seq


def test_ack_publish_and_claim_of_a_drained_group(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = take(view)
    steps: list[Step] = [lambda t: t.ack(lease), lambda t: t.publish("g", 2), lambda t: t.publish("g", 3)]
    assert ways(together(q, steps)) == ["ok", "ok", "ok"]
    assert work_off(view) == [2, 3]


SETTLE: dict[str, Callable[[Any, Any], Any]] = {
    "ack": lambda t, lease: t.ack(lease),
    "nack": lambda t, lease: t.nack(lease),
    "park": lambda t, lease: t.nack(lease, 600),
    "defer": lambda t, lease: t.defer(lease, 600),
    "extend": lambda t, lease: t.extend(lease, 600),
    "dead letter": lambda t, lease: t.dead_letter(lease, "why"),
}


@pytest.mark.parametrize("first", SETTLE)
def test_of_two_settlements_made_together_the_first_counts(q: Queue, first: str) -> None:
    view = q.open()
    for second in SETTLE:
        view.publish(f"then {second}", 1)
        lease = take(view)
        assert lease.group_id == f"then {second}"
        steps: list[Step] = [
            lambda t, lease=lease: SETTLE[first](t, lease),
            lambda t, lease=lease, second=second: SETTLE[second](t, lease),
        ]
        assert ways(together(q, steps)) == ["ok", "ok" if first == "extend" else "LeaseLost"], second
        if first == "nack" or (first, second) == ("extend", "nack"):
            view.ack(take(view))


def random_steps(seed: int, held: dict[str, Lease]) -> list[Step]:
    """Calls for two groups of which one message each is held; the same for the same seed."""
    chance = random.Random(seed)
    steps: list[Step] = []
    for n in range(14):
        group = chance.choice("ab")
        how = chance.choice([*SETTLE, "publish", "publish", "publish", "ranked"])
        if how == "publish":
            steps.append(lambda t, g=group, n=n: t.publish(g, 100 + n, n % 5))
        elif how == "ranked":
            steps.append(lambda t, g=group, n=n: t.publish(g, 100 + n, n % 5, rank=n % 3 - 1))
        else:
            steps.append(lambda t, g=group, how=how: SETTLE[how](t, held[g]))
    return steps


def prepared(view: View) -> dict[str, Lease]:
    """Two messages in each of two groups, the first of each in work."""
    view.publish_many([(group, n, 1) for n in range(2) for group in ("a", "b")])
    held = {lease.group_id: lease for lease in view.claim_many("w", 60, 2)}
    assert set(held) == {"a", "b"}
    return held


def one_by_one(view: View, steps: Sequence[Step]) -> list[Any]:
    outcomes: list[Any] = []
    for step in steps:
        try:
            outcomes.append(step(view))
        except LeaseLost as error:
            outcomes.append(error)
    return outcomes


def ends(view: View) -> dict[str, list[Any]]:
    """What comes now of each group, in order."""
    seen: dict[str, list[Any]] = defaultdict(list)
    while (lease := view.claim("w")) is not None:
        seen[lease.group_id].append((lease.event, lease.attempts, lease.priority))
        view.ack(lease)
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_any_calls_made_together_end_as_if_made_one_by_one(q: Queue, clock: Clock, seed: int) -> None:
    """The same random calls for two groups, together here, one by one in a second queue."""
    options: dict[str, Any] = [{}, {"max_batch": 2}, {"max_in_flight": 1}][seed % 3]
    shared, single = q.open(clock=clock), q.open(clock=clock, queue=f"{q.queue}_1")
    first = together(q, random_steps(seed, prepared(shared)), clock=clock, **options)
    second = one_by_one(single, random_steps(seed, prepared(single)))
    assert ways(first) == ways(second)
    for _ in range(2):
        clock.advance(601)
        assert ends(shared) == ends(single)


# -- claims together -------------------------------------------------------------------------------------


def test_claims_made_together_get_different_groups(q: Queue) -> None:
    q.open().publish_many([(f"g{n}", k) for k in range(2) for n in range(20)])
    leases = together(q, [lambda t: t.claim("w", 600)] * 25)
    held = [lease.group_id for lease in leases if lease is not None]
    assert len(held) == len(set(held)) == 20


def test_nothing_is_leased_that_no_caller_asked_for(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", n) for n in range(20)])
    together(q, [lambda t: t.claim("w", 600)] * 3 + [lambda t: t.claim_many("w", 600, 2)])
    in_threads([lambda: view.claim("w", 600)] * 4)
    held = f"SELECT count(*) FROM {q.table('messages')} WHERE locked_by IS NOT NULL"
    assert q.sql(held) == [(9,)]
    assert len(view.claim_many("w", 600, 100)) == 11


def test_claims_of_different_kinds_made_together_each_get_their_own(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish_many([(f"g{n}", n, n) for n in range(5)])
    steps: list[Step] = [
        lambda t: t.claim("first", 10, 4),
        lambda t: t.claim("second", 100, 3),
        lambda t: t.claim_many("third", 1000, 2, 1),
        lambda t: t.claim("fourth", 10),
    ]
    first, second, third, fourth = together(q, steps, clock=clock)
    assert (first.group_id, first.worker_id) == ("g4", "first")
    assert (second.group_id, second.worker_id) == ("g3", "second")
    assert {lease.group_id for lease in third} == {"g1", "g2"}
    assert {lease.worker_id for lease in third} == {"third"}
    assert (fourth.group_id, fourth.worker_id) == ("g0", "fourth")
    ends = [lease.expires_at - clock() for lease in (first, second, *third, fourth)]
    assert ends == pytest.approx([10, 100, 1000, 1000, 10], abs=0.01)


def test_claims_made_together_are_settled_each_for_itself(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", n) for n in range(10)])
    leases = together(q, [lambda t, n=n: t.claim(f"worker {n}", 600) for n in range(10)])
    assert len({lease.group_id for lease in leases}) == 10
    steps: list[Step] = [lambda t, one=one: t.ack(one) for one in leases[:5]]
    assert ways(together(q, steps)) == ["ok"] * 5
    assert view.ack_many(leases) == leases[:5]


def test_a_lost_lease_fails_no_other_call(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", n) for n in range(6)])
    leases = view.claim_many("w", 600, 6)
    view.ack_many(leases[::2])
    assert ways(together(q, [lambda t, one=one: t.ack(one) for one in leases])) == ["LeaseLost", "ok"] * 3


# -- groups in work --------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True], ids=["plain", "with rank"])
def test_a_hundred_published_into_a_group_in_work_do_not_free_it(q: Queue, full: bool) -> None:
    view = q.open()
    view.publish("g", 0)
    held = take(view)
    view.publish_many([Message("g", n, rank=-n) if full else ("g", n) for n in range(1, 51)])
    assert view.claim("w") is None
    steps: list[Step] = [lambda t, n=n: t.publish("g", n, rank=-n if full else 0) for n in range(51, 101)]
    together(q, steps)
    assert view.claim("w") is None
    view.ack(held)
    assert work_off(view) == (list(range(100, 0, -1)) if full else list(range(1, 101)))


def test_a_hundred_published_into_a_parked_group_do_not_free_it(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 0)
    view.nack(take(view), 50)
    view.publish_many([("g", n) for n in range(1, 101)])
    clock.advance(49)
    assert view.claim("w") is None
    clock.advance(2)
    assert work_off(view) == list(range(101))


# -- threads ---------------------------------------------------------------------------------------------


def test_threads_share_a_transport(q: Queue) -> None:
    """Sixteen threads publish, claim and acknowledge at once: each message is done once, in order."""
    view = q.open()
    done: dict[str, list[int]] = defaultdict(list)
    lock = threading.Lock()

    def publish(number: int) -> None:
        for n in range(20):
            view.publish(f"g{number}", n)

    def work() -> None:
        while (lease := view.claim("w", 600, wait=2)) is not None:
            with lock:
                done[lease.group_id].append(lease.event)
            view.ack(lease)

    in_threads([lambda n=n: publish(n) for n in range(8)] + [work] * 8)
    assert dict(done) == {f"g{n}": list(range(20)) for n in range(8)}


def test_twenty_claims_in_threads_get_twenty_groups(q: Queue) -> None:
    view = q.open()
    view.publish_many([(f"g{n}", k) for k in range(2) for n in range(20)])
    leases = in_threads([lambda: view.claim("w", 600)] * 20)
    assert len({lease.group_id for lease in leases}) == 20
    in_threads([lambda one=one: view.ack(one) for one in leases])
    assert len(view.claim_many("w", 30, 100)) == 20


def test_bytes_that_are_no_json_are_refused_while_the_999_others_land(q: Queue) -> None:
    view = q.open()
    refused: list[InvalidMessage] = []

    def publish(first: int) -> None:
        for n in range(first, first + 20):
            try:
                view.publish(f"g{n % 7}", n if n != 500 else b'"\xff"')
            except InvalidMessage as error:
                refused.append(error)

    in_threads([lambda first=first: publish(first) for first in range(0, 1000, 20)])
    assert len(refused) == 1
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(999,)]
