"""publish(connection=): a message in the caller's own transaction, on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

import rqfast
from tests.contract.conftest import EmbeddedDatabase
from tests.contract.views import QueueUnderTest

Queue = QueueUnderTest


@pytest.fixture
def own(embedded_q: Queue) -> Iterator[sqlite3.Connection]:
    """A connection of the user's, in Python's usual mode, to the queue's file."""
    assert isinstance(embedded_q.database, EmbeddedDatabase)
    with closing(sqlite3.connect(embedded_q.database.path, check_same_thread=False)) as connection:
        yield connection


def test_both_are_there_after_the_commit(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    own.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY)")
    own.execute("INSERT INTO orders VALUES(7)")
    seq = t.publish("orders", {"order": 7}, headers={"k": 1}, rank=3, connection=own)
    second = t.publish("orders", {"order": 8}, connection=own)
    assert second == seq + 1
    assert t.claim() is None, "claimed before the commit"
    own.commit()
    assert embedded_q.sql("SELECT id FROM orders") == [(7,)]
    first = t.claim()
    assert first is not None and first.event == {"order": 8} and first.seq == second
    t.ack(first)
    other = t.claim()
    assert other is not None and (other.seq, other.rank, other.headers) == (seq, 3, {"k": 1})


def test_neither_is_there_after_a_rollback(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    own.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY)")
    own.commit()
    own.execute("INSERT INTO orders VALUES(7)")
    t.publish("orders", 7, connection=own)
    own.rollback()
    assert embedded_q.sql("SELECT id FROM orders") == []
    assert t.claim() is None and t.stats().messages == 0
    # The queue goes on as if nothing had been.
    assert t.publish("orders", 8) == 1
    own.execute("INSERT INTO orders VALUES(8)")
    assert t.publish("orders", 9, connection=own) == 2
    own.commit()


def test_what_fails_leaves_the_callers_transaction_as_it_was(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    own.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY)")
    own.execute("INSERT INTO orders VALUES(7)")
    with pytest.raises(rqfast.InvalidMessage):
        t.publish("", 7, connection=own)
    own.execute(f"DROP VIEW IF EXISTS {embedded_q.table('any')}")
    own.execute(f"ALTER TABLE {embedded_q.table('messages')} RENAME TO gone")
    with pytest.raises(rqfast.SchemaError):
        t.publish("orders", 7, connection=own)
    assert own.in_transaction
    assert own.execute("SELECT id FROM orders").fetchall() == [(7,)]
    own.rollback()


def test_a_dedup_id_is_known_to_both_ways(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    seq = t.publish("g", 1, dedup_id="a", connection=own)
    own.commit()
    assert t.publish("g", 2, dedup_id="a") == seq
    assert t.publish("g", 3, dedup_id="a", connection=own) == seq
    own.commit()
    assert [one.event for one in t.peek("g")] == [1]


def test_begun_by_hand(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    own.isolation_level = None
    with pytest.raises(rqfast.InvalidMessage, match="BEGIN"):
        t.publish("g", 1, connection=own)
    own.execute("BEGIN IMMEDIATE")
    t.publish("g", 1, connection=own)
    own.execute("COMMIT")
    assert t.stats().messages == 1


class Session:
    """What an ORM has: a session, whose connection has one of a pool, which has the driver's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def connection(self) -> object:
        pooled = type("Pooled", (), {"driver_connection": self._connection})()
        return type("Connection", (), {"connection": pooled})()


def test_the_session_of_an_orm(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    t.publish("g", 1, connection=Session(own))
    own.commit()
    assert t.stats().messages == 1


def test_what_is_refused(embedded_q: Queue, own: sqlite3.Connection) -> None:
    t = embedded_q.open()
    with pytest.raises(TypeError, match="a session that has one"):
        t.publish("g", 1, connection=object())
    other = sqlite3.connect(":memory:", check_same_thread=False)
    with closing(other), pytest.raises(rqfast.InvalidMessage, match="one file"):
        t.publish("g", 1, connection=other)
    with pytest.raises(rqfast.InvalidMessage, match="with_statements"):
        t.publish("g", 1, connection=own, with_statements=[["DELETE FROM x"]])
    assert t.stats().messages == 0


@pytest.mark.cluster("connection= on a cluster")
def test_a_cluster_refuses_it(q: Queue) -> None:
    if q.engine == "embedded":
        pytest.skip("embedded takes it")
    t = q.open()
    with pytest.raises(rqfast.InvalidMessage, match="SQLite"):
        t.publish("g", 1, connection=object())
