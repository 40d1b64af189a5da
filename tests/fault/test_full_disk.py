"""A node whose disk is full: bounded waits, typed errors, and nothing lost or twice when there is room again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import rqfast
from rqfast import LeaseLost, OutcomeUnknown, RqfastError, Unavailable
from rqfast.verify.found import AGREE
from rqfast.verify.run import verify
from tests.cluster import Node, wait_until
from tests.contract.storage import filled, small_disk

pytestmark = pytest.mark.cluster("one node")

ROW = "x" * 20_000


def disk_of(node: Node) -> Path:
    return node.folder / "data"


@pytest.mark.parametrize("room", [300_000, 1_500_000], ids=["little room", "some room"])
def test_a_node_without_room(room: int) -> None:
    """What was refused or unknown is made again under its `dedup_id`: one message each."""
    node = Node()
    try:
        with small_disk(disk_of(node), "24m"):
            node.start()
            _without_room(node, room)
            node.kill()
    finally:
        node.close()


def _without_room(node: Node, room: int) -> None:
    with rqfast.connect(node.url, timeout=1.0) as view:
        view.publish_many([("lease", 0), ("lease", 1)])
        lease = view.claim("w", 600)
        assert lease is not None
        told: dict[str, int | RqfastError] = {}

        def publish(name: str) -> bool:
            try:
                told[name] = view.publish(f"g{len(told) % 3}", [name, ROW], dedup_id=name)
            except (Unavailable, OutcomeUnknown) as error:
                told[name] = error
            return isinstance(told[name], int)

        with filled(disk_of(node), leave=room):
            for number in range(500):
                if not publish(f"m{number}") and not publish(f"again{number}"):
                    break
            else:
                raise AssertionError("500 publishes filled nothing")
            with pytest.raises((Unavailable, OutcomeUnknown)):
                view.publish_many([("many", [n, ROW]) for n in range(40)], atomic=True)
            with pytest.raises((Unavailable, OutcomeUnknown)) as refused:
                view.ack(lease, publish=[("acked", ROW)])
        wait_until("the node to lead again", lambda: publish("room"), 30)
        seqs = {name: view.publish("again", [name, ROW], dedup_id=name) for name in told}
        assert {name: said for name, said in told.items() if isinstance(said, int)}.items() <= seqs.items()
        try:
            view.ack(lease, publish=[("acked", ROW)])
        except LeaseLost:
            assert isinstance(refused.value, OutcomeUnknown), "told that nothing was applied, and it was"
        rows = [row for group in view.groups() for row in view.peek(group.group_id, 1000)]
        groups = [row.group_id for row in rows]
        assert (groups.count("acked"), groups.count("lease")) == (1, 1)
        assert groups.count("many") in (0, 40)
        there = [row for row in rows if row.group_id not in ("acked", "lease", "many")]
        assert len(there) == len(seqs), "published twice, or lost"
        assert {row.event[0]: row.seq for row in there} == seqs
    report = asyncio.run(verify(node.url, True))
    assert (report.findings, report.untold, report.status) == ([], [], AGREE)
