"""A node whose disk is full: bounded waits, typed errors, and nothing lost or twice when there is room again."""

from __future__ import annotations

import asyncio
import subprocess
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


def test_a_database_without_room_beside_a_log_that_has_some(tmp_path: Path) -> None:
    """The log takes the request and the database does not: it is there when the node has read its log again, so that
    nobody may be told that nothing was applied."""
    with small_disk(tmp_path / "disk", "3m") as disk:
        node = Node(args=["-on-disk-path", str(disk / "database.sqlite")])
        try:
            told = subprocess.run([node.binary, "-h"], capture_output=True, check=False, timeout=30)
            if b"-on-disk-path" not in told.stdout + told.stderr:
                pytest.skip("this rqlited keeps its database beside its log")
            _goes_to_the_log(node.start(), disk)
        finally:
            node.close()


def _goes_to_the_log(node: Node, disk: Path) -> None:
    with rqfast.connect(node.url, timeout=1.0) as view:
        seqs = [view.publish("g", "before")]

        def publish_all() -> None:
            for number in range(100):
                seqs.append(view.publish("g", [number, ROW], dedup_id=str(number)))

        with filled(disk, leave=100_000), pytest.raises(OutcomeUnknown, match="disk is full"):
            publish_all()
        node.kill()
        node.restart()
        number = len(seqs) - 1
        seq = view.publish("g", [number, ROW], dedup_id=str(number))
        assert [row.seq for row in view.peek("g", 1000)] == [*seqs, seq]


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
