"""`rqfast verify` on nodes that differ, are away, hang or are behind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

import rqfast
from rqfast.verify.found import AGREE, DISAGREE, UNKNOWN, Report
from rqfast.verify.run import verify
from tests.cluster import Cluster, Node, wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes of its own, with messages in two queues."""
    with Cluster(3) as cluster:
        for queue in (None, "orders"):
            with rqfast.connect(cluster.url, queue=queue) as transport:
                transport.publish_many((f"g{n % 7}", {"n": n}) for n in range(2500))
                for lease in transport.claim_many("w", 60, 5):
                    transport.dead_letter(lease, "broken")
        cluster.wait_applied()
        yield cluster


def look(cluster: Cluster, *, wait: float = 10) -> Report:
    return asyncio.run(verify(cluster.url, True, wait=wait))


def write_into(node: Node, *statements: str) -> None:
    """Past the log, into the file of one node."""
    with closing(sqlite3.connect(node.folder / "data" / "db.sqlite", timeout=10, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


def differences(report: Report) -> dict[str, str]:
    return {table.table: table.difference for table in report.tables if table.difference}


def test_nodes_that_hold_the_same(cluster: Cluster) -> None:
    report = look(cluster)
    assert (report.status, report.findings, report.untold) == (AGREE, [], [])
    assert report.queues == ["", "orders"]
    assert [len(set(table.sums.values())) for table in report.tables] == [1] * len(report.tables)
    [messages] = [table for table in report.tables if table.table == "messages"]
    assert set(messages.rows.values()) == {2495} and len(messages.rows) == 3
    again = look(cluster)
    assert [table.sums for table in again.tables] == [table.sums for table in report.tables]


def test_the_first_row_that_differs_is_named(cluster: Cluster) -> None:
    one, two = cluster.followers()
    others = ", ".join(node.node_id for node in cluster.nodes if node is not one)
    write_into(
        one,
        "DELETE FROM messages WHERE seq IN (1777,1900)",
        "UPDATE rqfast_orders_groups SET turn=turn+1,ready_at=1 WHERE group_id='g3'",
        "INSERT INTO rqfast_orders_dedup(id,seq,until) VALUES('x',1,1)",
        "DROP INDEX rqfast_m_lock",
    )
    write_into(two, "DROP TABLE rqfast_orders_dead")
    report = look(cluster)
    assert report.status == DISAGREE
    found = differences(report)
    assert found["messages"] == f"seq 1777: missing on node {one.node_id}, there on nodes {others}"
    assert found["rqfast_orders_groups"].startswith("group_id 'g3': ready_at, turn differs between ")
    assert f"node {one.node_id}" in found["rqfast_orders_groups"]
    assert found["rqfast_orders_dedup"].startswith("id 'x': missing on nodes ")
    assert (
        "rqfast_m_lock" in found["indexes, views, triggers"]
        or "rqfast_orders_dead" in found["indexes, views, triggers"]
    )
    assert f"node {two.node_id}: no such table" in found["rqfast_orders_dead"]
    assert found.keys() == {
        "messages", "rqfast_orders_groups", "rqfast_orders_dedup", "rqfast_orders_dead", "indexes, views, triggers"
    }  # fmt: skip


def test_a_node_that_is_away_is_named(cluster: Cluster) -> None:
    gone = cluster.followers()[0]
    gone.kill()
    report = look(cluster)
    assert report.status == UNKNOWN
    [untold] = report.untold
    assert untold.startswith(f"what node {gone.node_id} holds: down ")
    assert differences(report) == {} and all(len(table.rows) == 2 for table in report.tables)
    write_into(cluster.followers()[1], "DELETE FROM messages WHERE seq=9")
    assert look(cluster).status == DISAGREE, "what is known to be wrong outweighs what is not known"


def test_a_node_that_hangs_is_named(cluster: Cluster) -> None:
    hung = cluster.followers()[0]
    hung.pause()
    try:
        report = look(cluster)
    finally:
        hung.resume()
    assert report.status == UNKNOWN
    assert [untold.partition(" holds")[0] for untold in report.untold] == [f"what node {hung.node_id}"]


def test_a_node_that_comes_back_has_the_same(cluster: Cluster) -> None:
    """One that begins from a snapshot, and so has stored no entry since."""
    node = cluster.followers()[0]
    assert node.request("POST", "/snapshot")[0] == 200
    node.kill()
    cluster.query("SELECT 1", level="strong")
    node.restart()
    cluster.wait_applied()
    leader = cluster.leader()
    leader.terminate()
    leader.restart()
    cluster.wait_leader()
    report = look(cluster, wait=20)
    assert (report.status, report.untold, differences(report)) == (AGREE, [], {})


def test_while_all_moves_it_cannot_be_told(cluster: Cluster) -> None:
    stop = threading.Event()

    def publish() -> None:
        with rqfast.connect(cluster.url, queue="orders") as transport:
            while not stop.is_set():
                transport.publish("g1", 1)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        entries = cluster.raft_entries()
        wait_until("the publisher's first entries", lambda: cluster.raft_entries() > entries + 10)
        report = look(cluster, wait=0.5)
    finally:
        stop.set()
        thread.join(30)
    assert (report.status, report.findings, report.tables) == (UNKNOWN, [], [])
    [untold] = report.untold
    assert "busy" in untold and all(f"node {node.node_id} at " in untold for node in cluster.nodes)
    assert look(cluster).status == AGREE


def test_a_cluster_with_passwords() -> None:
    with Cluster(1, auth=("user", "p@ss:/%w")) as cluster:
        rqfast.connect(cluster.url).close()
        report = look(cluster)
        assert report.status == AGREE and "p@ss" not in repr(report) and "p%40ss" not in repr(report)
        with pytest.raises(rqfast.ConfigError) as caught:
            asyncio.run(verify(cluster.url.replace("%25w", "wrong"), True))
        assert "wrong" not in str(caught.value)


def test_without_a_leader_it_cannot_be_told(cluster: Cluster) -> None:
    for node in cluster.followers():
        node.kill()
    with pytest.raises(rqfast.Unavailable):
        asyncio.run(verify(cluster.url, True, wait=2))
