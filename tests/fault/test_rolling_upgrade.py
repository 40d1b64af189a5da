"""The servers of a cluster are replaced by those of the next version, one by one, under load.

The other binary is RQFAST_RQLITED_NEXT, else `rqlited-next` on PATH.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rqfast.verify.found import AGREE
from rqfast.verify.run import verify
from tests.cluster import Cluster, Node
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import QueueUnderTest, queue_name
from tests.fault.recorded import Crew

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
NEXT = shutil.which(os.environ.get("RQFAST_RQLITED_NEXT") or "rqlited-next")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes of the version that all other tests use."""
    if NEXT is None:
        pytest.skip("no second rqlited to upgrade to: name it in RQFAST_RQLITED_NEXT or put rqlited-next on PATH")
    with Cluster(3) as cluster:
        yield cluster


def version(node: Node) -> str:
    """Of the SQLite that a node has, which differs where the servers do."""
    return str(node.request("POST", "/db/query?level=none", b'["SELECT sqlite_version()"]')[1])


def check_agree(cluster: Cluster) -> None:
    cluster.wait_applied()
    report = asyncio.run(verify(cluster.url, True))
    assert (report.status, report.findings, report.untold) == (AGREE, [], [])
    assert len(report.nodes) == 3 and len(report.tables) > 5


@pytest.mark.parametrize("leader_first", [True, False], ids=["leader first", "leader last"])
def test_nodes_are_upgraded_one_by_one_under_load(cluster: Cluster, tmp_path: Path, leader_first: bool) -> None:
    """After each, the tables of all nodes are equal; no call fails meanwhile."""
    assert NEXT is not None
    q = QueueUnderTest("three nodes", "async", ClusterDatabase(cluster), queue_name())
    keep = q.open(timeout=30, queue=f"{q.queue}keep")
    keep.publish_many((f"g{n % 50}", {"n": n}) for n in range(500))
    lease = keep.claim("w", 600)
    assert lease is not None
    before = version(cluster.nodes[0])
    leader = cluster.leader()
    for node in sorted(cluster.nodes, key=lambda node: (node is leader) != leader_first):
        crew = Crew(tmp_path / node.node_id)
        # Its messages have the dedup ids of the one before: so a queue of its own.
        open_view = partial(q.open, timeout=30, queue=f"{q.queue}{node.node_id}")
        crew.start(open_view)
        crew.wait_done(20)
        node.terminate()
        node.binary = NEXT
        node.restart()
        keep.publish("after", node.node_id)
        crew.wait_done(20)
        crew.finish(open_view())
        assert crew.unsure() == []
        check_agree(cluster)
    assert {version(node) for node in cluster.nodes}.isdisjoint({before}), "no node was upgraded"
    keep.ack(lease)
    assert keep.stats().messages == 502
    cluster.leader().terminate()
    cluster.wait_leader()
    keep.publish("after", "the leader")
    assert keep.stats().messages == 503
    for node in cluster.nodes:
        if not node.running:
            node.restart()
    check_agree(cluster)
    q.close()
