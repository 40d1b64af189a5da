"""Group embedded: a SQLite file, synced at each commit.  Other queues on SQLite are in bench/peers.

The other side here is sqlite3 itself: a table without an index, one INSERT a message, as many a transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from rqfast import connect

from .compare import PER_SECOND
from .report import Report, Row
from .sizes import Sizes
from .workload import VISIBILITY, Work

pytestmark = [pytest.mark.benchmark(group="embedded"), pytest.mark.timeout(300)]

BATCH = 64
WORKER = "w0"


def plain_inserts(path: Path, work: Work, batch: int) -> float:
    """Messages a second into a bare table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE plain(seq INTEGER PRIMARY KEY, group_id TEXT, event TEXT)")
        start = time.perf_counter()
        for first in range(0, work.messages, batch):
            db.execute("BEGIN IMMEDIATE")
            for n in range(first, min(first + batch, work.messages)):
                row = (work.group(n), orjson.dumps(work.event(n)).decode())
                db.execute("INSERT INTO plain(group_id,event) VALUES(?,?)", row)
            db.execute("COMMIT")
        return work.messages / (time.perf_counter() - start)


def publish_batches(transport: Any, work: Work) -> None:
    """Its own batches: the transport was opened with max_batch."""
    assert len(transport.publish_many(work.rows())) == work.messages


def publish_singly(transport: Any, work: Work) -> None:
    """One commit a message."""
    for group, event in work.rows():
        transport.publish(group, event)


def work_batches(transport: Any, work: Work) -> None:
    """One commit for the claims of a batch, one for its acks."""
    done = 0
    while leases := transport.claim_many(WORKER, VISIBILITY, BATCH):
        assert not transport.ack_many(leases)
        done += len(leases)
    assert done == work.messages


def work_singly(transport: Any, work: Work) -> None:
    """One commit for the claim, one for the ack."""
    done = 0
    while (lease := transport.claim(WORKER, VISIBILITY)) is not None:
        transport.ack(lease)
        done += 1
    assert done == work.messages


def work_together(transport: Any, work: Work) -> None:
    """One commit a message."""
    done = 0
    lease = transport.claim(WORKER, VISIBILITY)
    while lease is not None:
        done += 1
        lease = transport.claim(WORKER, VISIBILITY, ack=lease)
    assert done == work.messages


Do = Callable[[Any, Work], None]


@pytest.mark.parametrize(
    ("what", "do", "batch"),
    [
        (f"publish, batches of {BATCH}", publish_batches, BATCH),
        ("publish, one by one", publish_singly, 1),
        (f"claim and ack, batches of {BATCH}", work_batches, 0),
        ("claim, then ack, one by one", work_singly, 0),
        ("claim(ack=), one by one", work_together, 0),
    ],
    ids=["publish-batch", "publish-single", "work-batch", "work-single", "work-together"],
)
def test_embedded(
    benchmark: Any, report: Report, rounds: int, tmp_path: Path, what: str, do: Do, batch: int, sizes: Sizes
) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    work = Work(sizes.embedded, 1000) if "batches" in what else Work(sizes.embedded_alone, 100)

    def one_round() -> None:
        path = tmp_path / f"{len(ours)}.db"
        if batch:
            theirs.append(plain_inserts(tmp_path / f"plain{len(ours)}.db", work, batch))
        with closing(connect(path, max_batch=BATCH)) as transport:
            if not batch:
                transport.publish_many(work.rows())
            start = time.perf_counter()
            do(transport, work)
            ours.append(work.messages / (time.perf_counter() - start))

    benchmark.pedantic(one_round, rounds=rounds)
    against = "sqlite3, bare INSERT" if theirs else ""
    report.add(benchmark, Row("embedded", "SQLite file", what, against, PER_SECOND, ours, theirs, None))
