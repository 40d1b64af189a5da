"""Runs: consecutive messages of one group in the hands of one worker (`claim_run`)."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Any

import pytest

import rqfast
from rqfast import LeaseLost, OutOfOrder
from tests.contract.conftest import ENGINES
from tests.contract.runs import events, fill, left, rows, take
from tests.contract.views import Clock, Lease, Queue, queue_name, run_async

# -- what a run is -----------------------------------------------------------------------------------------


def test_a_run_is_the_beginning_of_a_group_in_order_under_one_token(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = view.claim_run("w", 30, 3)
    assert events(run) == [0, 1, 2]
    assert len({lease.token for lease in run}) == len({lease.fence for lease in run}) == 1
    assert {(lease.group_id, lease.worker_id, lease.attempts) for lease in run} == {("g", "w", 1)}
    assert len({lease.expires_at for lease in run}) == 1
    assert left(view) == [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0)]


def test_a_run_of_what_is_there(q: Queue) -> None:
    view = q.open()
    assert view.claim_run("w", 30, 10) == []
    fill(view, 2)
    assert events(view.claim_run("w", 30, 10)) == [0, 1]
    assert view.claim_run("w", 30, 10) == []


def test_one_message_by_default(q: Queue) -> None:
    view = q.open()
    fill(view, 2)
    assert events(view.claim_run()) == [0]


def test_nobody_gets_a_message_of_a_group_in_which_a_run_is(q: Queue) -> None:
    view, other = q.open(), q.open()
    fill(view, 5)
    run = take(view, 2)
    for _ in range(2):
        assert other.claim("x") is None
        assert other.claim_many("x", 30, 10) == other.claim_run("x", 30, 10) == []
        view.ack(run.pop(0))
    assert events(other.claim_run("x", 30, 10)) == [2, 3, 4]


def test_a_run_is_of_the_group_whose_turn_it_is(q: Queue) -> None:
    view = q.open()
    for group in "abc":
        fill(view, 3, group)
    assert [[lease.group_id for lease in view.claim_run("w", 30, 2)] for _ in range(3)] == [
        ["a"] * 2,
        ["b"] * 2,
        ["c"] * 2,
    ]


def test_a_run_comes_in_the_order_of_rank_and_due_time(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "late", delay=5)
    view.publish("g", "behind", rank=1)
    view.publish("g", "plain")
    view.publish("g", "ahead", rank=-1)
    clock.advance(6)
    view.publish("g", "last")
    run = view.claim_run("w", 30, 10)
    assert events(run) == ["ahead", "plain", "late", "last", "behind"]
    assert view.ack_many(run) == []
    assert left(view) == []


def test_a_run_ends_where_a_message_is_not_due(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "first")
    view.publish("g", "delayed", delay=20)
    view.publish("g", "second")
    view.publish("g", "of a later rank", rank=1)
    run = view.claim_run("w", 100, 10)
    assert events(run) == ["first", "second"]
    view.ack_many(run)
    assert view.claim_run("w", 100, 10) == []
    clock.advance(21)
    assert events(view.claim_run("w", 100, 10)) == ["delayed", "of a later rank"]


def test_a_message_that_comes_ahead_of_a_run_waits(q: Queue) -> None:
    view = q.open()
    fill(view, 3)
    run = take(view, 2)
    view.publish("g", "ahead", rank=-1)
    assert view.claim("w") is None
    assert view.ack_many(run) == []
    assert events(view.claim_run("w", 30, 10)) == ["ahead", 2]


def test_min_priority(q: Queue) -> None:
    view = q.open()
    view.publish_many([("low", 1, 0), ("high", 2, 3), ("high", 3), ("low", 4)])
    assert view.claim_run("w", 30, 10, 4) == []
    assert events(view.claim_run("w", 30, 10, 2)) == [2, 3]
    assert view.claim_run("w", 30, 10, 1) == []
    assert events(view.claim_run("w", 30, 10)) == [1, 4]


def test_paused(q: Queue) -> None:
    view = q.open()
    fill(view, 4)
    run = take(view, 2)
    view.pause("g")
    assert view.ack_many(run) == []
    assert view.claim_run("w", 30, 2) == []
    view.resume("g")
    view.pause()
    assert view.claim_run("w", 30, 2) == []
    view.resume()
    assert events(view.claim_run("w", 30, 2)) == [2, 3]


def test_waiting(q: Queue) -> None:
    view, other = q.open(), q.open()
    came: list[list[Lease]] = []
    thread = threading.Thread(target=lambda: came.append(view.claim_run("w", 30, 5, wait=30)))
    thread.start()
    fill(other, 3)
    thread.join(30)
    assert came and events(came[0]) in ([0], [0, 1], [0, 1, 2])
    assert view.claim_run("w", 30, 5, wait=0.05) == []


def test_runs_and_other_claims_of_one_batch(q: Queue) -> None:
    """Each run has a token of its own, and no group is given twice."""
    if q.colour == "sync":
        pytest.skip("one thread has one call at a time")
    view = q.open()
    for group in "abcdef":
        fill(view, 2, group)

    async def script(transport: Any) -> list[Any]:
        claims = [transport.claim_run("w", 30, 2) for _ in range(3)] + [transport.claim("w") for _ in range(3)]
        return list(await asyncio.gather(*claims))

    *runs, one, two, three = run_async(script(view.transport))  # type: ignore[attr-defined]
    assert [events(run) for run in runs] == [[0, 1]] * 3
    assert len({run[0].token for run in runs}) == 3
    groups = [run[0].group_id for run in runs] + [lease.group_id for lease in (one, two, three)]
    assert sorted(groups) == list("abcdef")
    for run in runs:
        assert view.ack_many(run) == []
    assert view.ack_many([one, two, three]) == []


@pytest.mark.parametrize("limit", [0, -1, 100_001, 1.5, "2", None, True])
def test_a_limit_that_is_none(embedded_q: Queue, limit: Any) -> None:
    view = embedded_q.open()
    with pytest.raises((TypeError, ValueError)):
        view.claim_run("w", 30, limit)


# -- acknowledging -----------------------------------------------------------------------------------------


def test_acks_one_by_one(q: Queue) -> None:
    view = q.open()
    fill(view, 4)
    for lease in take(view, 3):
        view.ack(lease)
    assert left(view) == [(3, 0)]
    assert view.claim_run("w", 30, 3)[0].event == 3


def test_acks_one_by_one_that_share_a_batch(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("one thread has one call at a time")
    view = q.open()
    fill(view, 100)
    run = take(view, 100)

    async def script(transport: Any) -> None:
        await asyncio.gather(*(transport.ack(lease) for lease in run))

    run_async(script(view.transport))  # type: ignore[attr-defined]
    assert left(view) == []


@pytest.mark.parametrize("step", [1, 3, 50])
def test_acks_as_lists(q: Queue, step: int) -> None:
    view = q.open(max_batch=20)
    fill(view, 50)
    run = take(view, 50)
    for start in range(0, 50, step):
        assert view.ack_many(run[start : start + step]) == []
    assert left(view) == []


def test_an_ack_before_that_of_an_earlier_one_is_refused(q: Queue) -> None:
    view = q.open()
    fill(view, 4)
    run = take(view, 3)
    before = rows(q)
    for number in (2, 1):
        with pytest.raises(OutOfOrder) as caught:
            view.ack(run[number])
        assert (caught.value.seq, caught.value.group_id) == (run[number].seq, "g")
        assert pickle.loads(pickle.dumps(caught.value)).seq == run[number].seq
    with pytest.raises(OutOfOrder):
        view.ack_many([run[1], run[0]][:1])
    assert rows(q) == before
    assert view.ack_many(run) == []
    assert left(view) == [(3, 0)]


def test_a_list_out_of_order_goes_as_far_as_it_is_in_order(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = take(view, 4)
    with pytest.raises(OutOfOrder) as caught:
        view.ack_many([run[0], run[2], run[1], run[3]])
    assert caught.value.seq == run[2].seq
    # As one by one: what was refused stays in work.
    assert [event for event, _ in left(view)] == [2, 3, 4]
    assert view.ack_many(run[2:]) == []


def test_late_acks_warn_and_acks_out_of_order_raise(q: Queue) -> None:
    view = q.open(lost="warn")
    fill(view, 3)
    run = take(view, 2)
    with pytest.raises(OutOfOrder):
        view.ack(run[1])
    view.ack(run[0])
    view.ack(run[0])
    view.ack(run[1])
    assert left(view) == [(2, 0)]


def test_ack_and_claim_of_the_next_run(q: Queue) -> None:
    view = q.open()
    fill(view, 25)
    run = view.claim_run("w", 30, 10)
    found = []
    while run:
        found += events(run)
        run = view.claim_run("w", 30, 10, ack=run)
    assert found == list(range(25))
    assert left(view) == []


def test_a_claim_whose_ack_is_out_of_order_claims_nothing(q: Queue) -> None:
    view = q.open()
    fill(view, 3)
    view.publish("h", "other")
    run = take(view, 3)
    for ack in (run[1:], [run[0], run[2]]):
        with pytest.raises(OutOfOrder):
            view.claim_run("w", 30, 10, ack=ack)
    with pytest.raises(OutOfOrder):
        view.claim("w", ack=run[2])
    again = view.claim("w")
    assert again is not None and (again.event, again.attempts) == ("other", 1)
    assert view.ack_many(run[1:]) == []


@pytest.mark.parametrize("lost", [0, 2])
def test_a_claim_whose_ack_is_lost_claims_nothing(q: Queue, clock: Clock, lost: int) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    fill(view, 3)
    run = view.claim_run("w", 10, 3)
    clock.advance(11)
    assert other.claim_run("x", 100, 3)
    view.publish("h", "other")
    with pytest.raises(LeaseLost):
        view.claim_run("w", 30, 10, ack=run[lost:])
    again = view.claim("w")
    assert again is not None and (again.event, again.attempts) == ("other", 1)


def test_acks_by_leases_built_by_hand(q: Queue) -> None:
    view, other = q.open(), q.open()
    fill(view, 4)
    run = [rqfast.Lease(lease.seq, lease.group_id, None, lease.token) for lease in take(view, 3)]
    assert [lease.worker_id for lease in run] == ["w"] * 3
    with pytest.raises(OutOfOrder):
        other.ack(run[1])
    other.ack(run[0])
    assert other.ack_many(pickle.loads(pickle.dumps(run[1:]))) == []
    assert left(view) == [(3, 0)]


def test_acks_that_hand_on(q: Queue) -> None:
    view = q.open()
    fill(view, 4)
    run = take(view, 4)
    view.ack(run[0], publish=[("h", "of 0")])
    with pytest.raises(OutOfOrder):
        view.ack(run[2], publish=[("h", "of 2")])
    with pytest.raises(OutOfOrder):
        view.ack_many(run[2:], publish=[("h", "of 2 and 3")])
    assert view.ack_many(run[1:], publish=[("h", "of the rest")]) == []
    assert [message.event for message in view.peek("h")] == ["of 0", "of the rest"]
    assert left(view) == []


def test_acks_with_statements(q: Queue) -> None:
    view = q.open()
    fill(view, 3)
    run = take(view, 3)
    table = q.table("lane").replace("lane", "own")

    def own(mark: str) -> list[list[Any]]:
        return [[f"CREATE TABLE IF NOT EXISTS {table}(mark TEXT)"], [f"INSERT INTO {table} VALUES(?)", mark]]

    view.ack(run[0], with_statements=own("0"))
    for refused in (
        lambda: view.ack(run[2], with_statements=own("2")),
        lambda: view.ack_many(run[2:], with_statements=own("2")),
    ):
        with pytest.raises(OutOfOrder):
            refused()
    assert view.ack_many(run[1:], with_statements=own("1 and 2")) == []
    assert q.sql(f"SELECT mark FROM {table} ORDER BY rowid") == [("0",), ("1 and 2",)]
    q.execute(f"DROP TABLE {table}")


# -- cancelled ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["embedded", "dev server", pytest.param("one node", marks=pytest.mark.cluster("one node"))])
def aq(request: pytest.FixtureRequest) -> Any:
    q = Queue(request.param, "async", ENGINES[request.param](request), queue_name())
    yield q
    q.close()


@pytest.mark.parametrize("turns", [*range(6), None])
def test_a_run_whose_claim_is_cancelled_goes_back_unspent(aq: Queue, turns: int | None) -> None:
    """After so many turns of the loop; None: when its result has come, and before its task took it."""

    async def take_it(claim: Any) -> Any:
        return await claim

    async def script() -> None:
        async with rqfast.connect_async(aq.url, **aq.options) as transport:
            await transport.publish_many([("g", n) for n in range(20)])
            claim = transport.claim_run("w", 600, 10)
            tasks: list[asyncio.Task[Any]] = []
            if turns is None:
                claim.add_done_callback(lambda _: tasks[0].cancel())
            tasks.append(asyncio.ensure_future(take_it(claim)))
            if turns is not None:
                for _ in range(turns):
                    await asyncio.sleep(0 if aq.engine == "embedded" else 0.0005)
                tasks[0].cancel()
            came = await asyncio.gather(*tasks, return_exceptions=True)
            if isinstance(came[0], list):
                return  # it was too late to cancel it
            tasks.clear()
            del claim
            run = await transport.claim_run("other", 600, 20, wait=20)
            assert [(lease.event, lease.attempts) for lease in run] == [(n, 1) for n in range(20)]

    run_async(script(), "a claim of a run that is cancelled")


def test_a_run_that_nobody_took_goes_back_in_one_commit(aq: Queue) -> None:
    async def script() -> None:
        async with rqfast.connect_async(aq.url, **aq.options) as transport:
            await transport.publish_many([("g", n) for n in range(50)])
            before = aq.entries()
            claim = transport.claim_run("w", 600, 50)
            await asyncio.wait((claim,))
            del claim
            run = await transport.claim_run("other", 600, 50, wait=20)
            assert [(lease.event, lease.attempts) for lease in run] == [(n, 1) for n in range(50)]
            assert aq.entries() - before <= 4

    run_async(script(), "a run that nobody took")
