"""Time-outs: what a caller is told when its time is over is true, and its time is over when it should be.

`Unavailable` promises that nothing was applied, then or later; a seq that it was; `OutcomeUnknown` promises nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any

import pytest

import rqfast
from tests.cluster import Cluster, wait_until
from tests.contract.views import View, run_async
from tests.fault.calls import GROUP, rows, take
from tests.fault.conftest import FaultyQueue, faulty_queue
from tests.proxy import Exchange, contains

pytestmark = pytest.mark.cluster

NOT_LEADER = b'{"results":[],"error":"not leader"}'
SECONDS = 20.0  # of waits that only a failing test lasts out


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture(params=["sync", "async"])
def coloured(request: pytest.FixtureRequest, one_node: Cluster) -> Iterator[FaultyQueue]:
    """A queue on one node, in both colours."""
    with faulty_queue("one node", request.param, one_node) as q:
        yield q


def answer(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call returned, or the error of ours that it raised."""
    try:
        return call(*args, **kwargs)
    except rqfast.RqfastError as error:
        return error


def ends(futures: dict[str, Future[Any]]) -> dict[str, Any]:
    """The answers of calls in threads."""
    return {name: future.result(SECONDS) for name, future in futures.items()}


def check_told(q: FaultyQueue, told: dict[str, Any]) -> None:
    """What publishers of these events were told is what is in the queue, now that all is over."""
    found = rows(q, "event, seq")
    events = [event for event, _ in found]
    assert len(set(events)) == len(events), f"published twice: {events}"
    seqs = dict(found)
    for event, said in told.items():
        seq = seqs.get(f'"{event}"')
        if isinstance(said, rqfast.OutcomeUnknown):
            assert not isinstance(said, rqfast.Unavailable)
        elif isinstance(said, rqfast.Unavailable):
            assert seq is None, f"{event}: told that nothing was applied, and it is in"
        else:
            assert seq == said, f"{event}: told seq {said}"


def is_nodes(exchange: Exchange) -> bool:
    return exchange.path.startswith("/nodes")


def anything(exchange: Exchange) -> bool:
    return True


# -- nothing was applied -----------------------------------------------------------------------------------


def test_a_request_that_goes_on_for_another_caller(one: FaultyQueue, pool: ThreadPoolExecutor) -> None:
    """Two publishes wait behind a first and leave in one request, of which the one's time ends before the other's."""
    q = one
    view = q.open(timeout=2)
    view.publish(GROUP, "before")
    q.proxied.down()
    told = {"first": pool.submit(answer, view.publish, GROUP, "first")}
    time.sleep(0.3)
    told["early"] = pool.submit(answer, view.publish, GROUP, "early")
    time.sleep(1.4)
    told["late"] = pool.submit(answer, view.publish, GROUP, "late")
    wait_for([told["early"]], SECONDS)
    q.proxied.up()
    answers = ends(told)
    view.publish(GROUP, "after")
    check_told(q, answers)


@pytest.mark.parametrize("found", [True, False], ids=["found", "not found"])
def test_the_leader_is_looked_for_when_the_time_ends(one: FaultyQueue, pool: ThreadPoolExecutor, found: bool) -> None:
    view = one.open(timeout=1)
    view.publish(GROUP, "before")
    looking = one.proxy.delay(None if found else 1.2, match=is_nodes, count=None)
    one.proxy.answer(200, NOT_LEADER, contains("meanwhile"))
    told = {"meanwhile": pool.submit(answer, view.publish, GROUP, "meanwhile")}
    looking.wait()
    wait_for(told.values(), SECONDS)
    looking.release()
    one.proxied.clear()
    answers = ends(told)
    assert isinstance(answers["meanwhile"], rqfast.Unavailable)
    view.publish(GROUP, "after")
    check_told(one, answers)


# -- calls of many messages --------------------------------------------------------------------------------


def test_publish_many_of_which_one_half_waits_and_the_other_is_in_flight(one: FaultyQueue) -> None:
    """The half that waits stands behind a call with more time."""

    async def script() -> Any:
        # Over before a request that got no answer is sent again.
        async with rqfast.connect_async(one.url, timeout=1.5, max_batch=2, **one.options) as transport:
            await transport.publish("y", "before")
            proxy = await asyncio.to_thread(lambda: one.proxy)
            blocked = proxy.delay(match=contains("blocker"), reply=True)
            stalled = proxy.stall(contains("half one"))
            blocker = transport.publish("y", "blocker")
            await asyncio.to_thread(blocked.wait)
            # Full with these two, so that the second half is left; then comes a call for the same lane.
            beside = transport.publish("x", "beside")
            many = transport.publish_many([(GROUP, "half one"), (GROUP, "half two")])
            await asyncio.to_thread(stalled.wait)
            await asyncio.sleep(0.5)
            behind = transport.publish("x", "behind")
            await asyncio.sleep(0.1)
            blocked.release()
            outcome = (await asyncio.gather(many, return_exceptions=True))[0]
            await asyncio.gather(blocker, beside, behind, return_exceptions=True)
            await asyncio.to_thread(one.proxied.clear)
            await transport.publish(GROUP, "after")
            return outcome

    error = run_async(script(), "publish_many over two requests")
    assert isinstance(error, rqfast.PublishIncomplete)
    assert isinstance(error.__cause__, rqfast.OutcomeUnknown)
    assert (list(error.seqs), error.index) == ([], 0)
    found = [event for (event,) in rows(one, "event") if "half" in event]
    assert found == ['"half one"', '"half two"'][: len(found)]
    assert len(found) <= error.unknown


SETTLE: dict[str, Callable[[View, list[Any]], Any]] = {
    "ack_many": lambda view, leases: view.ack_many(leases),
    "claim_many": lambda view, leases: view.claim_many("w", 60, 1, ack=leases),
}


@pytest.mark.parametrize(
    ("settle", "in_line_first", "answered"),
    [
        ("ack_many", True, False),
        ("ack_many", True, True),
        ("claim_many", True, True),
        ("claim_many", False, True),
    ],
)
def test_acks_of_which_one_waits_in_line_and_the_other_is_out(
    coloured: FaultyQueue, pool: ThreadPoolExecutor, settle: str, in_line_first: bool, answered: bool
) -> None:
    """Nothing was applied to the one; that is not true of the call."""
    q = coloured
    view = q.open(timeout=0.6)
    view.publish_many([("in line", 1), ("out", 2)])
    leases = view.claim_many("w", 60, 2)
    leases.sort(key=lambda lease: lease.group_id, reverse=not in_line_first)
    blocked = q.proxy.stall(contains("blocker"), delivered=False, count=None)
    blocker = pool.submit(answer, view.publish, "in line", "blocker")
    blocked.wait()
    if not answered:
        q.proxy.stall(contains("out"), count=None)
    error = answer(SETTLE[settle], view, leases)
    ends({"blocker": blocker})
    q.proxied.clear()
    view.publish("out", "after")
    assert isinstance(error, rqfast.OutcomeUnknown)
    assert [group for (group,) in rows(q, "group_id")].count("out") == 1


# -- in time -----------------------------------------------------------------------------------------------


def test_a_reply_that_was_swallowed_is_asked_for_again(one: FaultyQueue, pool: ThreadPoolExecutor) -> None:
    """Delivered, applied, never answered, on a connection that stays open; and the lanes go on afterwards."""
    publisher, claimer, acker = (one.open(timeout=20) for _ in range(3))
    publisher.publish("acked", "old")
    lease = take(acker)
    publisher.publish("claimed", "old")
    proxy = one.proxy
    swallowed = [proxy.stall(contains(text)) for text in ("new", "claimer", lease.token)]
    start = time.monotonic()
    answers = ends(
        {
            "publish": pool.submit(publisher.publish, "published", "new"),
            "claim": pool.submit(claimer.claim, "claimer", 60),
            "ack": pool.submit(acker.ack, lease),
        }
    )
    assert time.monotonic() - start < 10
    assert [len(rule.hits) for rule in swallowed] == [1, 1, 1]
    claimed = answers["claim"]
    assert (claimed.group_id, claimed.attempts) == ("claimed", 1)
    held = [(claimed.seq, '"old"', claimed.token, 1), (answers["publish"], '"new"', None, 0)]
    assert rows(one, "seq, event, locked_by, attempts") == held
    start = time.monotonic()
    publisher.publish("published", "newer")
    claimer.ack(claimed)
    acker.ack(take(acker))
    assert time.monotonic() - start < 5
    assert rows(one, "event") == [('"newer"',)]


CALLS: dict[str, Callable[[View, Any], Any]] = {
    "claim": lambda view, lease: view.claim("w"),
    "claim with ack": lambda view, lease: view.claim("w", ack=lease),
    "publish": lambda view, lease: view.publish(GROUP, "new"),
    "ack": lambda view, lease: view.ack(lease),
}


def timed(call: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    start = time.monotonic()
    said = answer(call, *args)
    return time.monotonic() - start, said


def check_in_time(calls: dict[str, Future[Any]]) -> dict[str, Any]:
    """What all said, within their one or two seconds and little more."""
    answers = {}
    for name, (seconds, answers[name]) in ends(calls).items():
        assert seconds < 3, f"{name} took {seconds:.1f} s"
    return answers


def test_the_time_out_bounds_a_call(coloured: FaultyQueue, pool: ThreadPoolExecutor) -> None:
    """Nothing is answered any more."""
    q = coloured
    view, *views = [q.open(timeout=1) for _ in range(1 + len(CALLS))]
    view.publish_many([(f"g{n}", n) for n in range(len(CALLS))])
    leases = view.claim_many("w", 60, len(CALLS))
    view.publish("more", 0)
    q.proxy.stall(anything, count=None)
    each = zip(CALLS, views, leases, strict=True)
    answers = check_in_time({name: pool.submit(timed, CALLS[name], view, lease) for name, view, lease in each})
    for said in answers.values():
        assert isinstance(said, rqfast.OutcomeUnknown | rqfast.Unavailable)


def test_the_time_out_bounds_what_follows_a_claim(coloured: FaultyQueue, pool: ThreadPoolExecutor) -> None:
    """A reply comes late: a lease that has run down is extended, one that came with a lost `ack=` given back."""
    q = coloured
    view, extends, gives_back = [q.open(timeout=2) for _ in range(3)]
    view.publish_many([("a", 1), ("b", 2), ("c", 3)])
    stale = take(view)
    view.ack(stale)
    for worker in ("extends", "gives back"):
        q.proxy.delay(1.5, contains(worker), reply=True)
    q.proxy.stall(count=None)
    answers = check_in_time(
        {
            "extends": pool.submit(timed, extends.claim, "extends", 2),
            "gives back": pool.submit(timed, lambda: gives_back.claim("gives back", 60, ack=stale)),
        }
    )
    assert isinstance(answers["extends"], rqfast.OutcomeUnknown | None)
    assert isinstance(answers["gives back"], rqfast.LeaseLost | rqfast.OutcomeUnknown)


# -- a claim whose ack= was committed ----------------------------------------------------------------------


def acking(q: FaultyQueue, view: View, pool: ThreadPoolExecutor, wait: float) -> Future[Any]:
    """A claim that acknowledged, found nothing and waits."""
    view.publish(GROUP, "only")
    lease = take(view)
    claim = pool.submit(answer, view.claim, "w", 60, wait=wait, ack=lease)
    wait_until("the ack of a waiting claim", lambda: not rows(q))
    q.proxy.wait_for(lambda: q.proxy.exchanges[-1].answered, "its answer")
    return claim


def test_a_claim_that_acknowledged_is_not_told_that_nothing_was_applied(
    coloured: FaultyQueue, pool: ThreadPoolExecutor
) -> None:
    q = coloured
    view = q.open(timeout=1)
    claim = acking(q, view, pool, wait=3)
    q.proxied.down()
    assert claim.result(SECONDS) is None
    q.proxied.up()
    assert rows(q) == []


def test_closing_under_a_claim_that_acknowledged(coloured: FaultyQueue, pool: ThreadPoolExecutor) -> None:
    q = coloured
    view = q.open(timeout=1)
    claim = acking(q, view, pool, wait=60)
    view.close()
    assert isinstance(claim.result(SECONDS), rqfast.Closed)
    assert rows(q) == []
