"""A claim on the user's own table goes by index, whatever statistics say."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from rqfast.address.inbox import Address, Inbox
from rqfast.address.roles import Column
from rqfast.sql import Statements
from rqfast.sql.inbox import InboxStatements, Indexes, wanted_indexes
from rqfast.worker.inbox_check import places

ROWS = 100_000
COLUMNS = ["id", "target", "prio", "retry_at", "attempt", "locked_until", "token", "payload", "done"]


def inbox(kind: str) -> Inbox:
    group: dict[str, Any] = {kind: "target"}
    return Inbox.describe(
        "jobs",
        id=Column("id", generated=True),
        priority="prio",
        retry_at="retry_at",
        attempt="attempt",
        locked_until="locked_until",
        token="token",
        payload="payload",
        processed_at="done",
        **group,
    )


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    """A large table, and statistics of when it was small."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    statements = Statements(None)
    for name, text in statements.schema.items():
        if name != "registry_add":
            db.execute(text)
    db.execute(
        "CREATE TABLE jobs(id INTEGER PRIMARY KEY, target TEXT, prio INT, retry_at REAL, attempt INT, "
        "locked_until REAL, token TEXT, payload TEXT, done REAL)"
    )
    for wanted in wanted_indexes(Address(inbox("fifo_group")), True).values():
        db.execute(wanted.create)
    db.execute("INSERT INTO jobs(target,payload) VALUES('a','p')")
    db.execute("ANALYZE")
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?) "
        "INSERT INTO jobs(target,prio,payload,done) SELECT 'g'||(i%1000),0,'p',iif(i%10=0,1.0,NULL) FROM n",
        (ROWS,),
    )
    return db


@pytest.mark.parametrize("kind", ["fifo_group", "exclusive_group"])
@pytest.mark.parametrize("which", ["all", "list", "prefix"])
def test_no_statement_walks_the_table(database: sqlite3.Connection, kind: str, which: str) -> None:
    box = inbox(kind)
    address = {"all": Address(box), "list": box.groups(["a", "b"]), "prefix": box.prefix("g")}[which]
    made = InboxStatements(address, Statements(None), COLUMNS, Indexes("jobs_claim", "jobs_lock"))
    texts = [made.pick, made.take, made.verdict, made.again, made.look]
    for what in range(6):
        texts += [text for _, text, _ in made.settle(what, 0.0)]
    texts += [text for _, text, _ in made.bury("dead", None)]
    for text in texts:
        plan = database.execute(f"EXPLAIN QUERY PLAN {text}", [None] * places(text)).fetchall()
        for *_, step in plan:
            assert not step.startswith(("SCAN jobs", "SCAN k", "SCAN m", "SCAN l", "SCAN x", "SCAN o")), (step, text)
            assert "TEMP B-TREE" not in step or "ORDER BY" not in text, (step, text)
        assert len(text) < 1024, (len(text), text)
