"""The known faults of the plain transport, which rqfast must not have: a baseline that is mended measures nothing."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from bench.reference import Event, statements
from tests.contract.views import Clock
from tests.proxy import Proxy
from tests.reference.conftest import PlainQueue
from tests.reference.test_contract import take

CLAIMS = 300


def test_raft_entries_of_each_call(plain: PlainQueue) -> None:
    """1 a publish, 4 a claim and ack, 1 an empty claim."""
    view, entries = plain.open(), plain.cluster.raft_entries
    start = entries()
    view.publish("g", Event(1))
    published = entries()
    view.ack(take(view))
    done = entries()
    assert view.claim("worker", 30.0) is None
    assert (published - start, done - published, entries() - done) == (1, 4, 1)


def test_a_late_ack_deletes_the_message_of_another_and_frees_its_group(plain: PlainQueue, clock: Clock) -> None:
    view = plain.open(clock)
    view.publish("g", Event(1))
    view.publish("g", Event(2))
    late = take(view, 10)
    clock.advance(11)
    held = take(view, 60)
    assert held.seq == late.seq
    view.ack(late)
    assert take(view).event == Event(2)


def test_a_late_nack_gives_two_owners(plain: PlainQueue, clock: Clock) -> None:
    view = plain.open(clock)
    view.publish("g", Event(1))
    late = take(view, 10)
    clock.advance(11)
    held = take(view, 60)
    view.nack(late)
    assert take(view).seq == held.seq


def test_a_clock_that_is_ahead_takes_live_leases(plain: PlainQueue) -> None:
    right, ahead = plain.open(), plain.open(lambda: time.time() + 3600)
    right.publish("g", Event(1))
    held = take(right, 600)
    assert take(ahead).seq == held.seq


def test_groups_that_trickle_starve_a_backlog(plain: PlainQueue) -> None:
    view = plain.open()
    for n in range(10):
        view.publish("backlog", Event(n))
    served: Counter[str] = Counter()
    for group in ("trickle 1", "trickle 2"):
        view.publish(group, Event(0))
    for n in range(CLAIMS):
        lease = take(view)
        served[lease.group_id] += 1
        view.ack(lease)
        if lease.group_id != "backlog":
            view.publish(lease.group_id, Event(n))
    assert served == {"backlog": 1, "trickle 1": 150, "trickle 2": 149}


def test_a_publish_whose_reply_is_lost_lands_twice_when_it_is_tried_again(plain: PlainQueue) -> None:
    node = urlsplit(plain.url)
    assert node.hostname is not None and node.port is not None
    with Proxy(node.hostname, node.port) as proxy:
        view = plain.open(url=proxy.url)
        proxy.cut_after()
        with pytest.raises(Exception, match=r"(?i)abort|disconnect|closed|peer"):
            view.publish("g", Event(1))
        view.publish("g", Event(1))
    assert plain.cluster.query("SELECT count(*) FROM messages") == [(2,)]


def test_a_claim_reads_the_whole_table() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        for table, *_ in statements.TABLES:
            db.execute(table)
        text, *parameters = statements.claim("t", 1.0, 1.0, 0)
        plan = db.execute(f"EXPLAIN QUERY PLAN {text}", parameters).fetchall()
    assert "SCAN messages" in {str(row[3]) for row in plan}
