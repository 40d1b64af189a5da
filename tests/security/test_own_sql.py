"""SQL of the user's own is refused when it could not be part of a transaction, or would differ between nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast.devserver import DevServer
from rqfast.sql.own import check_statements, split_script
from tests.cluster import Cluster

Sql = list[Any]

NO_PART: list[tuple[str, str]] = [
    ("", "no statement"),
    (" \t\r\n", "no statement"),
    ("-- a comment", "no statement"),
    ("/* a comment", "no statement"),
    (";", "no statement"),
    ("INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)", "more than one"),
    ("INSERT INTO t VALUES(1); -- more\n DROP TABLE t", "more than one"),
    ("INSERT INTO t VALUES('a'';'); DROP TABLE t", "more than one"),
    ("BEGIN", "BEGIN cannot be part"),
    ("begin immediate", "BEGIN cannot be part"),
    ("COMMIT", "COMMIT cannot be part"),
    ("END", "END cannot be part"),
    ("ROLLBACK TO a", "ROLLBACK cannot be part"),
    ("SAVEPOINT a", "SAVEPOINT cannot be part"),
    ("RELEASE a", "RELEASE cannot be part"),
    ("/**/ -- x\n PRAGMA foreign_keys=ON", "PRAGMA cannot be part"),
    ("ATTACH 'x' AS y", "ATTACH cannot be part"),
    ("DETACH y", "DETACH cannot be part"),
    ("VACUUM", "VACUUM cannot be part"),
    ("VACUUM INTO 'x'", "VACUUM cannot be part"),
    ("CREATE TEMP TABLE x(a)", "TEMP"),
    ("CREATE TEMPORARY VIEW x AS SELECT 1", "TEMP"),
    ("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END", "more than one|TRIGGER"),
    ("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1", "TRIGGER"),
]

DIFFER: list[tuple[Sql, str]] = [
    (["INSERT INTO t VALUES(random())"], r"random\(\) is another value on each node"),
    (["INSERT INTO t VALUES(abs(RANDOM( ) % 7))"], "random"),
    (["INSERT INTO t VALUES(random/* x */())"], "random"),
    (['INSERT INTO t VALUES("random"())'], "random"),
    (["UPDATE t SET a=[random]()"], "random"),
    (["DELETE FROM t WHERE a IN (SELECT a FROM t ORDER BY random() LIMIT 1)"], "random"),
    (["INSERT INTO t VALUES(hex(randomblob(16)))"], "randomblob"),
    (["INSERT INTO t VALUES(randomblob(?))", 16], "randomblob"),
    (["INSERT INTO t VALUES(datetime('now'))"], "clock"),
    (["INSERT INTO t VALUES(datetime('NOW', '+1 day'))"], "clock"),
    (["INSERT INTO t VALUES(datetime(coalesce(NULL, 'now')))"], "clock"),
    (['INSERT INTO t VALUES(date("now"))'], "clock"),
    (["INSERT INTO t VALUES(datetime(?))", "now"], "clock"),
    (["INSERT INTO t VALUES(?, datetime(?, ?))", "now", "2001-01-01", "LocalTime"], "zone"),
    (["INSERT INTO t VALUES(datetime('2001-01-01', 'localtime'))"], "zone"),
    (["INSERT INTO t VALUES(datetime('2001-01-01', 'utc'))"], "zone"),
    (["INSERT INTO t VALUES(datetime())"], r"datetime\(\) without a time"),
    (["INSERT INTO t VALUES(date())"], "without a time"),
    (["INSERT INTO t VALUES(time())"], "without a time"),
    (["INSERT INTO t VALUES(julianday())"], "without a time"),
    (["INSERT INTO t VALUES(unixepoch())"], "without a time"),
    (["INSERT INTO t VALUES(unixepoch('subsec'))"], "without a time"),
    (["INSERT INTO t VALUES(strftime('%f', 'SUBSECOND'))"], "without a time"),
    (["INSERT INTO t VALUES(strftime('%s'))"], "without a time"),
    (["INSERT INTO t VALUES(strftime('%s', 'now'))"], "clock"),
    (["INSERT INTO t VALUES(timediff('now', '2001-01-01'))"], "clock"),
    (["INSERT INTO t VALUES(CURRENT_TIMESTAMP)"], "CURRENT_TIMESTAMP"),
    (["UPDATE t SET a=current_date"], "current_date"),
    (["UPDATE t SET a=Current_Time"], "Current_Time"),
    (["CREATE TABLE x(a TEXT DEFAULT CURRENT_TIMESTAMP)"], "CURRENT_TIMESTAMP"),
    (["CREATE TABLE x(a TEXT DEFAULT (datetime('now')))"], "clock"),
    (["INSERT INTO t VALUES(total_changes())"], "tells of the node"),
    (["INSERT INTO t VALUES(sqlite_version())"], "tells of the node"),
    (["INSERT INTO t SELECT load_extension('x')"], "tells of the node"),
]

TAKEN: list[Sql] = [
    ["INSERT INTO t VALUES('now', 'random()', 'CURRENT_TIMESTAMP', '; BEGIN --')"],
    ["INSERT INTO t VALUES(?)", "now"],
    ["INSERT INTO t VALUES(?, datetime(?, '+1 day'))", "now", "2001-01-01"],
    ["INSERT INTO t VALUES(unixepoch(?, 'subsec'), unixepoch('2001-01-01', 'subsec'))", 0],
    ["INSERT INTO t VALUES(strftime('%s', ?), unixepoch('2001-01-01'), date(0, 'unixepoch'))", "2001-01-01"],
    ['INSERT INTO t("random", "current_timestamp", [date], `time`) VALUES(1, 2, 3, 4)'],
    ["INSERT INTO date(time, random) VALUES(?, ?)", 1, 2],
    ["UPDATE t SET random=1, date=2, now='now' WHERE begin=3 AND pragma=4"],
    ["WITH begin AS (SELECT 1) DELETE FROM t WHERE a IN (SELECT * FROM begin)"],
    ["INSERT INTO t VALUES(last_insert_rowid()) -- random()"],
    ["INSERT INTO t VALUES(abs(?), upper('now'))", -1],
    ["CREATE TABLE x(at TEXT, datetime TEXT, temp TEXT)"],
    ["REPLACE INTO t SELECT a, julianday(b) FROM u"],
]


@pytest.mark.parametrize(("sql", "why"), NO_PART, ids=[repr(sql) for sql, _ in NO_PART])
def test_what_can_be_no_part_of_a_transaction_is_refused(sql: str, why: str) -> None:
    with pytest.raises(rqfast.InvalidMessage, match=why):
        check_statements([[sql]])


@pytest.mark.parametrize(("statement", "why"), DIFFER, ids=[repr(one[0]) for one, _ in DIFFER])
def test_what_differs_between_nodes_is_refused_with_the_reason(statement: Sql, why: str) -> None:
    with pytest.raises(rqfast.InvalidMessage, match=rf"(?s)with_statements\[0\].*{why}.*bind a value instead"):
        check_statements([statement])


@pytest.mark.parametrize("statement", TAKEN, ids=lambda one: repr(one[0]))
def test_what_only_looks_like_it_is_taken(statement: Sql) -> None:
    [taken] = check_statements([statement])
    assert taken[1:] == statement[1:]


@pytest.mark.parametrize("blank", ["\x0b", "\xa0", "\u2003", "\x85", "\x1c"])
def test_what_is_no_blank_for_sqlite_is_none_here(blank: str) -> None:
    """Or one text would be checked and another run."""
    [taken] = check_statements([[f"INSERT INTO t{blank}VALUES(1)"]])
    assert taken == [f"INSERT INTO t{blank}VALUES(1)"]
    assert split_script(f"SELECT{blank}1") == [f"SELECT{blank}1"]


# -- on every engine the same, before anything is sent ----------------------------------------------------

BAD: list[Sql] = [[sql] for sql, _ in NO_PART] + [statement for statement, _ in DIFFER]


@pytest.fixture(
    params=["sqlite", "dev server", pytest.param("rqlite", marks=pytest.mark.cluster)],
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "queue.db")
    if request.param == "dev server":
        server: DevServer = request.getfixturevalue("dev_server")
        return server.url
    cluster: Cluster = request.getfixturevalue("one_node")
    return cluster.url


def told(step: Callable[[], object]) -> tuple[type[BaseException], str]:
    with pytest.raises(rqfast.InvalidMessage) as caught:
        step()
    return type(caught.value), str(caught.value)


def test_publish_and_ack_refuse_it_and_change_nothing(url: str) -> None:
    expected = [told(lambda bad=bad: check_statements([bad])) for bad in BAD]  # type: ignore[misc]
    with rqfast.connect(url, queue="own_sql") as queue:
        queue.publish("g", 1)
        lease = queue.claim()
        assert lease is not None
        for bad, error in zip(BAD, expected, strict=True):
            assert told(lambda bad=bad: queue.publish("g", 2, with_statements=[bad])) == error  # type: ignore[misc]
            assert told(lambda bad=bad: queue.ack(lease, with_statements=[bad])) == error  # type: ignore[misc]
        assert queue.stats().messages == 1
        queue.ack(lease)


def test_asyncio_refuses_it_too(url: str) -> None:
    async def script() -> None:
        async with rqfast.connect_async(url, queue="own_sql_async") as queue:
            for bad in BAD:
                with pytest.raises(rqfast.InvalidMessage):
                    await queue.publish("g", 2, with_statements=[bad])
            assert (await queue.stats()).messages == 0

    asyncio.run(script())


def test_hooks_and_handlers_of_a_worker_refuse_it(url: str) -> None:
    worker = rqfast.Worker(url, queue="own_sql_worker")
    refused: list[Sql] = []

    @worker.on_startup
    async def prepare(database: Any) -> None:
        for sql in ("", "-- x", "BEGIN", "PRAGMA x", "CREATE TABLE x(a DEFAULT CURRENT_TIMESTAMP)", "VACUUM"):
            with pytest.raises(rqfast.InvalidMessage):
                await database.execute(sql)
        with pytest.raises(rqfast.InvalidMessage):
            await database.execute("CREATE TABLE never(a); COMMIT")
        assert (await database.query("SELECT count(*) FROM sqlite_master WHERE name='never'")) == [[0]]
        for sql in ("", "COMMIT", "SELECT 1; SELECT 2"):
            with pytest.raises(rqfast.InvalidMessage):
                await database.query(sql)
        assert len(await database.query("SELECT datetime('now'), random()")) == 1, "a read may: nobody repeats it"

    @worker.subscriber(transactional=True)
    def handle(event: int, ctx: rqfast.Context) -> None:
        for bad in BAD:
            try:
                ctx.execute(*bad)
            except rqfast.InvalidMessage:
                refused.append(bad)
        worker.stop()

    with rqfast.connect(url, queue="own_sql_worker") as queue:
        queue.publish("g", 1)
    assert worker.run().acked == 1
    assert refused == BAD
