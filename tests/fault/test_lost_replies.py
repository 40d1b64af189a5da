"""Requests and replies that the network loses, doubles, delays or spoils: one effect, the right answer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

import rqfast
from tests.contract.views import View
from tests.fault.calls import EACH, GROUP, Call, check_once, empty, own_rows, rows, take
from tests.fault.conftest import FaultyQueue
from tests.proxy import Exchange, Proxy, Rule, contains, is_write

pytestmark = pytest.mark.cluster

NOT_LEADER = b'{"results":[],"error":"not leader"}'
LOST_LEADERSHIP = b'{"results":[],"error":"leadership lost while committing log"}'
PROXIED = b'{"results":[],"error":"node failed to process Execute on remote node at x: read protobuf length: EOF"}'


def on_database(exchange: Exchange) -> bool:
    return exchange.path.startswith("/db/")


LOSE: dict[str, Callable[[Proxy, int, int], Rule]] = {
    "not delivered": lambda proxy, skip, count: proxy.cut_before(on_database, skip=skip, count=count),
    "reply lost": lambda proxy, skip, count: proxy.cut_after(on_database, skip=skip, count=count),
    "half a reply": lambda proxy, skip, count: proxy.cut_half(on_database, skip=skip, count=count),
}
each_loss = pytest.mark.parametrize("lose", [pytest.param(LOSE[name], id=name) for name in LOSE])
each_call = pytest.mark.parametrize("call", EACH)


def lose_each_in_turn(q: FaultyQueue, view: View, call: Call, lose: Callable[[int], Rule]) -> int:
    """Make the call again and again; each time another one of its requests is lost. How many were."""
    for nth in range(12):
        state = call.prepare(view)
        rule = lose(nth)
        answer = call.make(view, state)
        rule.remove()
        call.check(q, view, state, answer)
        empty(q)
        if not rule.hits:
            return nth
    raise AssertionError(f"{call.name} makes more than 12 requests")


@each_loss
@each_call
def test_each_request_of_a_call_lost_once(q: FaultyQueue, call: Call, lose: Callable[[Proxy, int, int], Rule]) -> None:
    view, proxy = q.open(), q.proxy
    assert lose_each_in_turn(q, view, call, lambda nth: lose(proxy, nth, 1)) >= 1


@each_loss
@each_call
def test_a_request_lost_three_times(one: FaultyQueue, call: Call, lose: Callable[[Proxy, int, int], Rule]) -> None:
    view, proxy = one.open(), one.proxy
    assert lose_each_in_turn(one, view, call, lambda nth: lose(proxy, nth, 3)) >= 1


@each_call
def test_a_late_first_copy_is_refused(q: FaultyQueue, call: Call) -> None:
    """The first copy of a request comes to the server after the second was answered: it changes nothing."""
    view = q.open()
    state = call.prepare(view)
    rule = q.proxy.hold_request()
    answer = call.make(view, state)
    before = rows(q, "seq, event, locked_by, lock_expiry, attempts, due")
    [late] = rule.deliver()
    assert late.status == 200
    assert b'"error"' in late.reply
    assert rows(q, "seq, event, locked_by, lock_expiry, attempts, due") == before
    call.check(q, view, state, answer)


@pytest.mark.parametrize("delivered", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"garbage"),
        (200, b"null"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"results":[]}'),
        (200, b'{"results":null}'),
        (200, b'{"results":[{"last_insert_id":1,'),
        (200, b"\xff\xfe"),
        (200, LOST_LEADERSHIP),
        (200, PROXIED),
        (200, b'{"results":[],"error":"something never heard of"}'),
        (500, b"something never heard of"),
        (502, b"<html>bad gateway</html>"),
        (504, b""),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, bytes) else str(value),
)
@pytest.mark.parametrize("call", [each for each in EACH if each.id in ("publish", "claim", "ack", "extend")])
def test_an_answer_that_tells_nothing(one: FaultyQueue, call: Call, status: int, body: bytes, delivered: bool) -> None:
    view = one.open()
    state = call.prepare(view)
    rule = one.proxy.answer(status, body, delivered=delivered)
    answer = call.make(view, state)
    assert len(rule.hits) == 1
    call.check(one, view, state, answer)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"leader not found"),
        (500, b"leader address: leader not found"),
        (500, b"leader not found"),
        (200, NOT_LEADER),
        (200, b'{"results":[],"error":"leadership transfer in progress"}'),
        (200, b'{"results":[],"error":"store not ready"}'),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, bytes) else str(value),
)
@each_call
def test_an_answer_that_says_not_applied(one: FaultyQueue, call: Call, status: int, body: bytes) -> None:
    view = one.open()
    state = call.prepare(view)
    rule = one.proxy.answer(status, body, count=3)
    answer = call.make(view, state)
    assert len(rule.hits) == 3
    call.check(one, view, state, answer)


@pytest.mark.parametrize("where", ["the same node", "nobody", "garbage", "nowhere"])
def test_a_redirect(q: FaultyQueue, where: str) -> None:
    view = q.open()
    view.publish(GROUP, "first")
    proxy = q.proxy
    location = {
        "the same node": f"{proxy.url}/db/execute?transaction",
        "nobody": "http://127.0.0.1:9/db/execute?transaction",
        "garbage": "::not a URL::",
        "nowhere": "",
    }[where]
    rule = proxy.answer(301, headers=[("Location", location)])
    seq = view.publish(GROUP, "second")
    assert len(rule.hits) == 1
    assert rows(q, "event") == [('"first"',), ('"second"',)]
    assert rows(q)[1] == (seq,)


@pytest.mark.parametrize("status", [400, 401, 403, 405])
def test_an_answer_that_a_second_try_cannot_change_raises_at_once(one: FaultyQueue, status: int) -> None:
    view = one.open()
    view.publish(GROUP, "first")
    one.proxy.answer(status, b"no", count=None)
    start = time.monotonic()
    with pytest.raises(rqfast.RqfastError) as caught:
        view.publish(GROUP, "refused")
    assert time.monotonic() - start < 2
    assert not isinstance(caught.value, rqfast.OutcomeUnknown | rqfast.Unavailable)
    one.proxied.clear()
    view.publish(GROUP, "last")
    assert rows(one, "event") == [('"first"',), ('"last"',)]


# -- the server stays away ---------------------------------------------------------------------------------

SILENCE: dict[str, Callable[[Proxy], Rule]] = {
    "replies lost": lambda proxy: proxy.cut_after(count=None),
    "requests lost": lambda proxy: proxy.cut_before(count=None),
    "delivered and never answered": lambda proxy: proxy.stall(count=None),
    "never delivered, never answered": lambda proxy: proxy.stall(delivered=False, count=None),
    "garbage": lambda proxy: proxy.answer(200, b"garbage", count=None, delivered=True),
}


def timed(step: Callable[[], Any]) -> float:
    start = time.monotonic()
    step()
    return time.monotonic() - start


@pytest.mark.parametrize("silence", [pytest.param(SILENCE[name], id=name) for name in SILENCE])
def test_unknown_only_after_the_time_out_and_usable_afterwards(
    q: FaultyQueue, silence: Callable[[Proxy], Rule]
) -> None:
    view = q.open(timeout=1.5)
    view.publish(GROUP, "first")
    rules = [silence(proxy) for proxy in q.proxied.proxies]

    def fails() -> None:
        with pytest.raises(rqfast.OutcomeUnknown) as caught:
            view.publish(GROUP, "second")
        assert not isinstance(caught.value, rqfast.Unavailable)

    assert 1.2 < timed(fails) < 3.5
    assert any(rule.hits for rule in rules)
    q.proxied.clear()
    last = view.publish(GROUP, "third")
    found = [event for (event,) in rows(q, "event")]
    assert found in (['"first"', '"third"'], ['"first"', '"second"', '"third"'])
    assert rows(q)[-1] == (last,)
    lease = take(view)
    assert lease.event == "first"
    view.ack(lease)


def test_a_copy_that_was_given_up_lands_never(q: FaultyQueue) -> None:
    """Its call ended in `OutcomeUnknown`; after a later call for its group it must not come in."""
    view = q.open(timeout=1.5)
    view.publish(GROUP, "first")
    held = [proxy.hold_request(contains("second"), count=None) for proxy in q.proxied.proxies]
    with pytest.raises(rqfast.OutcomeUnknown):
        view.publish(GROUP, "second")
    for rule in held:
        rule.remove()
    view.publish(GROUP, "third")
    for rule in held:
        if rule.hits:
            rule.deliver()
    assert rows(q, "event") == [('"first"',), ('"third"',)]


@each_call
def test_unavailable_where_no_node_listens_and_usable_afterwards(q: FaultyQueue, call: Call) -> None:
    view = q.open(timeout=1.0)
    # By a patient one: three busy nodes may need a second for a commit.
    state = call.prepare(q.open(timeout=30))
    before = rows(q, "seq, event, locked_by, lock_expiry, attempts, due")
    q.proxied.down()

    def fails() -> None:
        with pytest.raises((rqfast.Unavailable, rqfast.PublishIncomplete)) as caught:
            call.make(view, state)
        error: BaseException | None = caught.value
        if isinstance(error, rqfast.PublishIncomplete):
            assert (list(error.seqs), error.index, error.unknown) == ([], 0, 0)
            error = error.__cause__
        assert isinstance(error, rqfast.Unavailable)
        assert "127.0.0.1" in str(error)
        assert error.nodes

    assert timed(fails) < 3.0
    q.proxied.up()
    assert rows(q, "seq, event, locked_by, lock_expiry, attempts, due") == before
    call.check(q, view, state, call.make(view, state))


def test_unavailable_where_no_node_has_a_leader(q: FaultyQueue) -> None:
    view = q.open(timeout=1.5)
    view.publish(GROUP, "first")
    for proxy in q.proxied.proxies:
        proxy.answer(503, b"leader not found", match=lambda exchange: True, count=None)
    with pytest.raises(rqfast.Unavailable):
        view.publish(GROUP, "second")
    q.proxied.clear()
    view.publish(GROUP, "third")
    assert rows(q, "event") == [('"first"',), ('"third"',)]


def test_publish_many_stopped_half_way_says_what_is_in(one: FaultyQueue) -> None:
    view = one.open(timeout=1.5, max_batch=10)
    one.proxy.cut_after(contains("item 25"), count=None)
    with pytest.raises(rqfast.PublishIncomplete) as caught:
        view.publish_many((GROUP, f"item {n}") for n in range(100))
    error = caught.value
    assert isinstance(error.__cause__, rqfast.OutcomeUnknown)
    found = rows(one, "seq, event")
    assert found[: error.index] == [(seq, f'"item {n}"') for n, seq in enumerate(error.seqs)]
    assert error.index <= 25
    assert error.index <= len(found) <= error.index + error.unknown


def test_a_purge_that_cannot_go_on_says_how_far_it_came(one: FaultyQueue) -> None:
    view = one.open(timeout=1.5)
    view.publish_many((GROUP, n) for n in range(5000))
    one.proxy.cut_before(count=None, skip=1)
    with pytest.raises(rqfast.OutcomeUnknown, match="2000 messages were dealt with"):
        view.purge(GROUP)
    assert len(rows(one)) == 3000
    one.proxied.clear()
    assert view.purge(GROUP) == 3000


# -- connections -------------------------------------------------------------------------------------------


def test_idle_connections_closed_by_the_other_side_are_no_fault(q: FaultyQueue) -> None:
    view = q.open()
    for n in range(5):
        view.publish(GROUP, n)
        for proxy in q.proxied.proxies:
            proxy.close_idle()
    assert rows(q, "event") == [(str(n),) for n in range(5)]


def test_a_slow_reply_is_waited_for(one: FaultyQueue) -> None:
    view = one.open()
    view.publish(GROUP, "first")
    rule = one.proxy.delay(1.0, reply=True)
    seq = view.publish(GROUP, "slow")
    assert len(rule.hits) == 1
    assert rows(one)[1:] == [(seq,)]


def test_writes_go_straight_to_the_leader(three_nodes_q: FaultyQueue) -> None:
    q = three_nodes_q
    view = q.open()
    leader = q.proxy
    marks = {proxy: len(proxy.seen(is_write)) for proxy in q.proxied.proxies}
    for n in range(10):
        view.publish(GROUP, n)
        view.ack(take(view))
    for proxy in q.proxied.proxies:
        wrote = len(proxy.seen(is_write)) - marks[proxy]
        assert (wrote >= 20) if proxy is leader else (wrote == 0)


def test_a_late_copy_of_what_stood_is_not_applied_when_its_window_has_passed(q: FaultyQueue) -> None:
    """Its number is spent before the first seq is told: else the next call would take the late copy for its own."""
    view = q.open(dedup_window=0.5)
    mark = secrets.token_hex(8)
    first = view.publish(GROUP, "new", dedup_id=mark, with_statements=own_rows(mark))
    rule = q.proxy.hold_request()
    assert view.publish(GROUP, "new", dedup_id=mark, with_statements=own_rows(mark)) == first
    time.sleep(0.6)
    q.open().publish("other", "moves the queue's time")
    rule.deliver()
    seq = view.publish(GROUP, "important", with_statements=own_rows("important"))
    assert rows(q, "event") == [('"new"',), ('"moves the queue\'s time"',), ('"important"',)]
    assert rows(q)[-1] == (seq,)
    check_once(q, mark)
