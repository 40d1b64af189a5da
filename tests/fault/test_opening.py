"""Opening a queue that cannot be opened says so at once; tables that go away are never taken for success."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rqfast
from tests.cluster import Cluster
from tests.contract.views import View, open_address
from tests.fault.calls import GROUP, rows, take
from tests.fault.conftest import FaultyQueue, faulty_queue

pytestmark = pytest.mark.cluster


def raises_at_once(kind: type[BaseException], step: Callable[[], Any], match: str | None = None) -> BaseException:
    start = time.monotonic()
    with pytest.raises(kind, match=match) as caught:
        step()
    assert time.monotonic() - start < 3
    return caught.value


@pytest.fixture(scope="module")
def locked() -> Iterator[Cluster]:
    """A node that asks for a user and a password."""
    with Cluster(1, auth=("user", "p@ss:w/rd")) as cluster:
        yield cluster


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("user", ["", "user:wrong@", "nobody:p%40ss%3Aw%2Frd@"])
def test_a_wrong_password_raises_at_once(locked: Cluster, user: str, colour: str) -> None:
    with faulty_queue("one node", colour, locked) as q:
        q.url = q.url.replace("//", f"//{user}")
        error = raises_at_once(rqfast.RqfastError, q.open, match="401")
        assert not isinstance(error, rqfast.Unavailable | rqfast.OutcomeUnknown)
        assert "p@ss" not in str(error)
        assert "wrong" not in str(error)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_right_password_opens(locked: Cluster, colour: str) -> None:
    with faulty_queue("one node", colour, locked) as q:
        in_options = q.open(auth=("user", "p@ss:w/rd"))
        q.url = q.url.replace("//", "//user:p%40ss%3Aw%2Frd@")
        in_url = q.open()
        seqs = [in_options.publish(GROUP, 1), in_url.publish(GROUP, 2)]
        assert rows(q) == [(seq,) for seq in seqs]


def test_a_password_changed_under_a_running_client(locked: Cluster) -> None:
    with faulty_queue("one node", "async", locked) as q:
        view = q.open(auth=("user", "p@ss:w/rd"))
        view.publish(GROUP, 1)
        q.proxy.answer(401, count=None)
        raises_at_once(rqfast.RqfastError, lambda: view.publish(GROUP, 2), match="401")
        q.proxied.clear()
        view.publish(GROUP, 3)
        assert rows(q, "event") == [("1",), ("3",)]


def test_a_queue_that_is_not_there_raises_at_once(q: FaultyQueue) -> None:
    raises_at_once(rqfast.SchemaError, lambda: q.open(create=False), match=str(q.queue))


def test_a_version_that_is_not_known_raises_at_once(q: FaultyQueue) -> None:
    q.open().close()
    q.execute("UPDATE rqfast_schema SET version=9999 WHERE queue=?", q.queue)
    raises_at_once(rqfast.SchemaError, q.open, match="9999")


def test_a_foreign_table_in_the_way_raises_at_once_and_nothing_stays(q: FaultyQueue) -> None:
    q.execute(f"CREATE TABLE {q.table('state')}(something_else TEXT)")
    raises_at_once(rqfast.RqfastError, q.open)
    prefix = f"rqfast_{q.queue}_"
    found = q.sql("SELECT name FROM sqlite_master WHERE substr(name,1,?)=?", len(prefix), prefix)
    assert found == [(f"{prefix}state",)]


@pytest.mark.parametrize("url", ["http://", "http://127.0.0.1:notaport", "ftp://127.0.0.1:4001", "http://a:1,:2"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_bad_url_raises_at_once(q: FaultyQueue, url: str, colour: str) -> None:
    raises_at_once(rqfast.ConfigError, lambda: open_address(q.address._replace(url=url, colour=colour)))


def settle(view: View, lease: rqfast.Lease[Any]) -> None:
    view.ack(lease)


USES: dict[str, Callable[[View, rqfast.Lease[Any]], Any]] = {
    "publish": lambda view, lease: view.publish("h", 1),
    "publish with a rank": lambda view, lease: view.publish("h", 1, rank=1),
    "claim": lambda view, lease: view.claim("w"),
    "ack": lambda view, lease: view.ack(lease),
    "nack": lambda view, lease: view.nack(lease),
    "extend": lambda view, lease: view.extend(lease, 60),
}
each_use = pytest.mark.parametrize("use", [pytest.param(USES[name], id=name) for name in USES])


@each_use
@pytest.mark.parametrize("table", ["messages", "groups", "state", "lane"])
def test_a_table_dropped_under_a_running_client(
    q: FaultyQueue, table: str, use: Callable[[View, rqfast.Lease[Any]], Any]
) -> None:
    view = q.open()
    view.publish_many([("f", 0), (GROUP, 0)])
    lease = take(view)
    q.execute(f"DROP TABLE {q.table(table)}")
    before = contents(q)
    error = raises_at_once(rqfast.SchemaError, lambda: use(view, lease))
    assert "nothing was applied" in str(error)
    assert contents(q) == before


def contents(q: FaultyQueue) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the queue's tables that are there; of the lanes only how often they were used."""
    there = {name for (name,) in q.sql("SELECT name FROM sqlite_master WHERE type='table'")}
    columns = {"messages": "*", "groups": "*", "state": "*", "dedup": "*", "dead": "*", "lane": "sum(n)"}
    return {
        table: q.sql(f"SELECT {what} FROM {q.table(table)}")
        for table, what in columns.items()
        if q.table(table).strip('"') in there
    }


@pytest.mark.parametrize("index", ["m_head", "g_ready"])
def test_an_index_dropped_under_a_running_client_stops_its_claims(q: FaultyQueue, index: str) -> None:
    view = q.open()
    view.publish(GROUP, 0)
    q.execute(f"DROP INDEX {q.table(index)}")
    raises_at_once(rqfast.SchemaError, lambda: view.claim("w"))
    assert rows(q, "locked_by, attempts") == [(None, 0)]


@each_use
@pytest.mark.parametrize("index", ["m_head", "m_lock", "g_ready", "g_due"])
def test_a_dropped_index_never_makes_a_false_success(
    q: FaultyQueue, index: str, use: Callable[[View, rqfast.Lease[Any]], Any]
) -> None:
    """A call either needs no such index and does its work, or raises `SchemaError` that says what became of it."""
    view = q.open()
    view.publish_many([("f", 0), (GROUP, 0)])
    lease = take(view)
    q.execute(f"DROP INDEX {q.table(index)}")
    everything, before = contents(q), rows(q, "seq, locked_by, attempts, lock_expiry")
    refused, answer = None, None
    try:
        answer = use(view, lease)
    except rqfast.SchemaError as error:
        refused = str(error)
    if refused is not None:
        assert contents(q) == everything or "may have taken effect in part" in refused
        return
    assert rows(q, "seq, locked_by, attempts, lock_expiry") != before, f"told {answer!r}, nothing was done"


@pytest.mark.parametrize("view_name", ["any", "high", "served", "stamped"])
def test_a_dropped_view_stops_claims_and_takes_no_message(q: FaultyQueue, view_name: str) -> None:
    view = q.open()
    view.publish(GROUP, 0, priority=2)
    q.execute(f"DROP VIEW {q.table(view_name)}")
    claim = view.claim_run if view_name == "stamped" else view.claim
    error = raises_at_once(rqfast.SchemaError, lambda: claim("w", min_priority=int(view_name == "high")))
    # The others are read by a statement with RETURNING, which v8 passes over.
    assert ("nothing was applied" in str(error)) == (view_name in ("any", "high"))
    assert rows(q, "locked_by, attempts") == [(None, 0)]
    assert view.publish(GROUP, 1) == rows(q)[-1][0]


def test_another_client_is_not_disturbed_by_one_that_cannot_open(q: FaultyQueue) -> None:
    view = q.open()
    view.publish(GROUP, 1)
    with pytest.raises(rqfast.SchemaError):
        open_address(q.address, queue=f"{q.queue}x", create=False)
    assert take(view).event == 1
