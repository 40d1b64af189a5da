"""Rows of writes: they come with the reply; where a server keeps them back they are read again, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rqfast.devserver import DevServer
from rqfast.engine.outcome import RETURNING
from rqfast.sql import Statements
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import QueueUnderTest, View, queue_name
from tests.devserver import DevDatabase
from tests.fault.calls import EACH, Call
from tests.fault.conftest import FaultyQueue
from tests.proxy import Change, Exchange, Proxy, is_write

on_nodes = pytest.mark.cluster
REFUSED_WHOLE = ("ack out of order with statements", "publish with statements again")
each_call = pytest.mark.parametrize("call", EACH)


def is_certain_read(exchange: Exchange) -> bool:
    """What reads a result again; a look before a claim is a read of another kind."""
    return exchange.path.startswith("/db/query?level=linearizable")


@pytest.fixture
def dev(dev_server: DevServer) -> Iterator[tuple[QueueUnderTest, Proxy]]:
    """A queue on the dev server, behind a proxy."""
    with Proxy(dev_server.host, dev_server.port) as proxy:
        proxy.addresses = {f"{dev_server.host}:{dev_server.port}": f"127.0.0.1:{proxy.port}"}
        q = QueueUnderTest("dev server", "async", ClusterDatabase(DevDatabase(dev_server)), queue_name())
        q.url = proxy.url
        yield q, proxy
        q.close()


def answers_at_once(q: QueueUnderTest, proxy: Proxy, call: Call) -> None:
    """Make the call: one write, no read of its result, and rows of each statement that has some."""
    view = q.open()
    state = call.prepare(view)
    writes, reads = len(proxy.seen()), len(proxy.seen(is_certain_read))
    answer = call.make(view, state)
    made = proxy.seen()[writes:]
    assert [exchange.fault.value for exchange in made] == ["pass"]
    # Why is read apart where a whole request was refused.
    assert len(proxy.seen(is_certain_read)) - reads == (call.name in REFUSED_WHOLE)
    call.check(q, view, state, answer)
    assert {exchange.path.split("&")[0] for exchange in proxy.seen()} == {"/db/execute?transaction"}
    for exchange in made:
        sent, results = json.loads(exchange.body), json.loads(exchange.reply)["results"]
        if "error" not in results[-1]:
            assert len(sent) == len(results)
            assert ["RETURNING " in text for text, *_ in sent] == ["columns" in result for result in results]
            assert "values" in results[-1]


@on_nodes
@each_call
def test_a_call_is_one_request(q: FaultyQueue, call: Call) -> None:
    answers_at_once(q, q.proxy, call)


@each_call
def test_a_call_is_one_request_on_the_dev_server(dev: tuple[QueueUnderTest, Proxy], call: Call) -> None:
    answers_at_once(*dev, call)


def test_the_calls_make_every_statement_that_has_rows(dev: tuple[QueueUnderTest, Proxy]) -> None:
    q, proxy = dev
    statements = Statements(q.queue)
    for parameters in EACH:
        [call] = parameters.values
        assert isinstance(call, Call)
        view = q.open()
        call.check(q, view, state := call.prepare(view), call.make(view, state))
        for table in ("messages", "groups", "dead", "dedup"):
            q.execute(f"DELETE FROM {q.table(table)}")
    sent = {statement[0] for exchange in proxy.seen() for statement in json.loads(exchange.body)}
    everything = statements.queue | statements.operate
    # That of a user's own table: tests/subscriptions/test_inbox_faults.py.
    wanted = RETURNING - {"table_outcome"}
    assert {name for name in wanted if everything[name] in sent} == wanted


# -- a server that keeps rows back -------------------------------------------------------------------------


def without_rows(which: Callable[[int, int], bool]) -> Change:
    """Take the rows from the results that `which` names by place and number, as if there were no RETURNING."""

    def change(body: bytes) -> bytes:
        reply = json.loads(body)
        results = reply.get("results", [])
        with_rows = [at for at, result in enumerate(results) if "columns" in result]
        for nth, at in enumerate(with_rows):
            if which(nth, len(with_rows)):
                results[at] = {"rows_affected": 1}
        return json.dumps(reply).encode()

    return change


KEPT: dict[str, Callable[[int, int], bool]] = {
    "all": lambda nth, count: True,
    "the outcome": lambda nth, count: nth == count - 1,
    "all but the outcome": lambda nth, count: nth < count - 1,
    "the first": lambda nth, count: nth == 0,
}


def answers_without_rows(q: QueueUnderTest, proxy: Proxy, call: Call, which: Callable[[int, int], bool]) -> None:
    view = q.open()
    proxy.rewrite(without_rows(which), count=None)
    state = call.prepare(view)
    answer = call.make(view, state)
    call.check(q, view, state, answer)


@on_nodes
@pytest.mark.parametrize("which", [pytest.param(KEPT[name], id=name) for name in KEPT])
@each_call
def test_rows_that_a_server_keeps_are_read_again(
    one: FaultyQueue, call: Call, which: Callable[[int, int], bool]
) -> None:
    answers_without_rows(one, one.proxy, call, which)


@pytest.mark.parametrize("which", [pytest.param(KEPT[name], id=name) for name in KEPT])
@each_call
def test_rows_that_the_dev_server_keeps_are_read_again(
    dev: tuple[QueueUnderTest, Proxy], call: Call, which: Callable[[int, int], bool]
) -> None:
    answers_without_rows(*dev, call, which)


SPOILT: dict[str, Change] = {
    "no rows": without_rows(lambda nth, count: True),
    "no results": lambda body: b'{"results":[]}',
    "one result": lambda body: json.dumps({"results": json.loads(body)["results"][:1]}).encode(),
    "garbage": lambda body: b"garbage",
}


def answers_after_a_spoilt_read(q: QueueUnderTest, proxy: Proxy, call: Call, spoil: Change) -> None:
    """The reply is lost, and what is read instead is no answer: it must not be taken for "never applied"."""
    view = q.open()
    state = call.prepare(view)
    lost = proxy.cut_after(is_write)
    spoilt = proxy.rewrite(spoil, is_certain_read, count=2)
    answer = call.make(view, state)
    assert lost.hits
    spoilt.remove()
    call.check(q, view, state, answer)


@on_nodes
@pytest.mark.parametrize("spoil", [pytest.param(SPOILT[name], id=name) for name in SPOILT])
@each_call
def test_a_spoilt_read_is_no_answer(one: FaultyQueue, call: Call, spoil: Change) -> None:
    answers_after_a_spoilt_read(one, one.proxy, call, spoil)


@on_nodes
def test_the_work_of_a_day_reads_nothing_again(q: FaultyQueue) -> None:
    """A fixed row of calls: after opening, the only reads are looks."""
    view, proxy = q.open(), q.proxy
    own = 'INSERT INTO "own_rows" VALUES(?)'
    q.execute('CREATE TABLE IF NOT EXISTS "own_rows"(mark TEXT)')
    reads, writes = len(proxy.seen(is_certain_read)), len(proxy.seen())
    assert view.publish("a", 1, dedup_id="x") == view.publish("a", 1, dedup_id="x")
    view.publish_many([("b", 1), ("b", 2), ("c", 3)], atomic=True)
    view.publish("d", 4, priority=3, with_statements=[[own, "d"]])
    first = taken(view, min_priority=2)
    assert (first.group_id, first.event) == ("d", 4)
    view.ack(first, publish=[("e", 5)], with_statements=[[own, "e"]])
    held = view.claim_many("w", 60, limit=8)
    assert [lease.group_id for lease in held] == ["a", "b", "c", "e"]
    view.nack(held[0])
    view.dead_letter(held[1], "why")
    view.ack(held[2], publish=[("c", 6)])
    assert view.ack_many(held[3:]) == []
    view.pause("b")
    view.pause()
    view.resume()
    view.resume("b")
    assert view.redrive() == 1
    assert view.purge("b") == 2
    assert view.claim("w", 60, ack=taken(view)) is not None
    assert len(proxy.seen(is_certain_read)) == reads
    assert len(proxy.seen()) - writes <= 22


def taken(view: View, **options: Any) -> Any:
    lease = view.claim("w", 60, **options)
    assert lease is not None
    return lease
