"""What a server does to its database in the midst of work: snapshots, and notes for its planner."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import Cluster, Node, wait_until
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import QueueUnderTest, View, queue_name
from tests.fault.conftest import FaultyQueue
from tests.fault.recorded import Crew
from tests.fault.test_failover import in_thread, joined

LONG = 3.0  # seconds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def read_for_long(node: Node, table: str, seconds: float) -> float:
    """A read of the queue's tables that the node breaks off after so long; how long it took (seconds)."""
    numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c)"
    body = json.dumps([f"{numbers} SELECT max(c.n), (SELECT count(*) FROM {table}) FROM c"]).encode()
    start = time.monotonic()
    status, reply = node.request("POST", f"/db/query?level=none&db_timeout={seconds:g}s", body, timeout=60)
    assert status == 200 and b'"error"' in reply, reply
    return time.monotonic() - start


def snapshot(node: Node) -> tuple[int, float]:
    """Have the node make a snapshot now: its status, and how long it took (seconds)."""
    start = time.monotonic()
    return node.request("POST", "/snapshot", timeout=60)[0], time.monotonic() - start


@pytest.mark.parametrize("nodes", ["alone", "mortal"])
def test_a_snapshot_under_load_with_a_long_read_open(
    request: pytest.FixtureRequest, crew: Crew, nodes: str, record_property: Callable[[str, object], None]
) -> None:
    """It may be slower meanwhile; no call fails, and none takes effect twice."""
    q: FaultyQueue = request.getfixturevalue(nodes)
    crew.start(lambda: q.open(timeout=30))
    crew.wait_done(30)
    leader = q.cluster.leader()
    table = q.table("messages")
    read = in_thread(lambda: read_for_long(leader, table, LONG))
    crew.wait_done(5)
    made = [snapshot(leader)]
    assert joined(read, "a long read", 60) > LONG - 0.5
    crew.wait_done(20)
    made += [snapshot(node) for node in q.cluster.nodes]
    crew.wait_done(20)
    crew.finish(q.open(timeout=30))
    assert crew.unsure() == []
    assert 200 in [status for status, _ in made], made
    record_property("snapshots", made)
    record_property("longest call", round(crew.longest(), 3))


# -- PRAGMA optimize ---------------------------------------------------------------------------------------------


@pytest.fixture
def noting() -> Iterator[tuple[Cluster, QueueUnderTest]]:
    """A node that makes notes of its tables for the planner with each snapshot, and a queue on it."""
    with Cluster(1, args=["-auto-optimize-int", "1ms"]) as cluster:
        q = QueueUnderTest("one node", "async", ClusterDatabase(cluster), queue_name())
        yield cluster, q
        q.close()


def test_notes_of_a_nearly_empty_queue_then_load(noting: tuple[Cluster, QueueUnderTest], crew: Crew) -> None:
    """Clients that are there and clients that come later work on as they did: what they read does not grow."""
    cluster, q = noting
    old = q.open()
    for n in range(3):
        old.publish(f"few{n}", n, delay=3600)
    [node] = cluster.nodes

    def noted() -> bool:
        old.publish("few0", 1, delay=3600)
        snapshot(node)
        [[there]] = q.sql("SELECT count(*) FROM sqlite_master WHERE name='sqlite_stat1'")
        return bool(there and q.sql("SELECT 1 FROM sqlite_stat1 WHERE tbl=?", q.table("messages").strip('"')))

    wait_until("notes of the queue's tables", noted, every=0.2)
    old.publish_many((f"many{n % 2000}", n) for n in range(20_000))
    seconds = {"noted": time_of_claims(old)}
    # Opening removes the notes.
    seconds["not noted"] = time_of_claims(q.open())
    assert seconds["noted"] < 10 * seconds["not noted"] + 1, seconds
    old.purge(everything=True)
    assert old.stats().messages == 0
    crew.start(q.open)
    wait_until("notes of the queue's tables", noted, every=0.2)
    crew.wait_done(100)
    old.purge("few0")
    crew.finish(q.open())
    assert crew.unsure() == []


def time_of_claims(view: View) -> float:
    """How long it takes to work 100 messages, one by one (seconds)."""
    start = time.monotonic()
    lease = view.claim("w", 600)
    for _ in range(100):
        assert lease is not None
        lease = view.claim("w", 600, ack=lease)
    assert lease is not None
    view.ack(lease)
    return time.monotonic() - start
