"""The dev server's own promises: its bounds, its life, and what it does with statements that go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import json
import socket
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast.devserver import DevServer
from tests.cluster import wait_until
from tests.devserver import DevDatabase, ask

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
def server() -> Iterator[DevServer]:
    with DevServer() as running:
        yield running


@pytest.fixture
def db(server: DevServer) -> DevDatabase:
    return DevDatabase(server)


def slots(db: DevDatabase, path: str, *statements: object) -> list[dict[str, Any]]:
    """The results of statements, each in its slot."""
    reply = db.ask("POST", path, statements)
    assert reply.status == 200, reply
    found: list[dict[str, Any]] = json.loads(reply.body)["results"]
    return found


# -- its life --------------------------------------------------------------------------------------------


def test_a_queue_on_it_from_the_docs() -> None:
    with DevServer() as server, rqfast.connect(server.url) as queue:
        assert queue.publish("order-17", {"step": "pay"}) == 1


def test_it_runs_on_the_callers_loop() -> None:
    async def script() -> None:
        async with DevServer() as server, rqfast.connect_async(server.url) as queue:
            seq = await queue.publish("g", 1)
            lease = await queue.claim("w")
            assert lease is not None and lease.seq == seq

    asyncio.run(script())


def test_a_file_keeps_the_messages_over_a_restart(tmp_path: Path) -> None:
    server = DevServer(tmp_path / "queue.db")
    with server, rqfast.connect(server.url) as queue:
        seq = queue.publish("g", "kept")
    with server, rqfast.connect(server.url) as queue:
        lease = queue.claim("w")
    assert lease is not None and (lease.seq, lease.event) == (seq, "kept")


def test_the_embedded_engine_opens_its_file(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with DevServer(path) as server, rqfast.connect(server.url) as queue:
        queue.publish("g", "over HTTP")
    with rqfast.connect(str(path)) as queue:
        lease = queue.claim("w")
    assert lease is not None and lease.event == "over HTTP"


def test_without_a_file_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server = DevServer()
    with server:
        DevDatabase(server).execute("CREATE TABLE t(a)")
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    with server:
        assert DevDatabase(server).query("SELECT count(*) FROM sqlite_master") == [(0,)]


def test_two_side_by_side_share_nothing() -> None:
    with DevServer() as one, DevServer() as two:
        assert one.port != two.port
        DevDatabase(one).execute("CREATE TABLE t(a)")
        DevDatabase(two).execute("CREATE TABLE t(a)")
        DevDatabase(one).execute("INSERT INTO t VALUES(1)")
        assert DevDatabase(one).query("SELECT a FROM t") == [(1,)]
        assert DevDatabase(two).query("SELECT a FROM t") == []


def test_closing_twice_and_before_the_start_is_no_error() -> None:
    server = DevServer()
    server.close()
    server.start()
    with pytest.raises(RuntimeError, match="runs already"):
        server.start()
    server.close()
    server.close()


@pytest.mark.parametrize("steps", range(6))
def test_what_it_had_just_accepted_is_closed_with_it(steps: int) -> None:
    """Between accepting and a connection of its own lie some steps of the loop, where asyncio loses it."""

    async def script() -> None:
        async with DevServer() as server:
            taken = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
            for _ in range(steps):
                await asyncio.sleep(0)
        for connection in taken:
            with connection:
                connection.settimeout(5)
                with contextlib.suppress(ConnectionResetError):
                    assert connection.recv(1) == b""

    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(script())
        gc.collect()
    assert [str(warning.message) for warning in left] == []


def test_a_port_in_use_is_said_and_leaves_nothing_running(server: DevServer) -> None:
    threads = threading.active_count()
    second = DevServer(port=server.port)
    with pytest.raises(OSError, match=rf"cannot listen on port {server.port} of 127\.0\.0\.1: it is in use"):
        second.start()
    assert threading.active_count() == threads


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at by SQLite as if it were one" * 20)
    with pytest.raises(rqfast.ConfigError, match=r"notes\.txt cannot be opened as an SQLite database"):
        DevServer(path).start()


def test_the_loop_goes_on_while_a_statement_runs_and_closing_ends_it() -> None:
    server = DevServer()
    server.start()
    replies: list[object] = []

    def endless() -> None:
        try:
            replies.append(DevDatabase(server).ask("POST", "/db/query", [ENDLESS]))
        except (OSError, http.client.HTTPException) as error:
            replies.append(error)

    asking = threading.Thread(target=endless)
    asking.start()
    try:
        for _ in range(20):
            assert DevDatabase(server).ask("GET", "/readyz").status == 200
    finally:
        server.close()
        asking.join(30)
    assert len(replies) == 1


# -- who may ask -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_only_loopback_unless_told_otherwise(host: str) -> None:
    with pytest.raises(rqfast.ConfigError, match="allow_remote=True"):
        DevServer(host=host)
    DevServer(host=host, allow_remote=True)


def test_other_hosts_may_ask_when_told_so() -> None:
    with DevServer(host="0.0.0.0", allow_remote=True) as server:
        reply = ask("127.0.0.1", server.port, "GET", "/nodes?ver=2", None, {"Host": "queue.example:4001"})
        assert json.loads(reply.body)["nodes"][0]["api_addr"] == "http://queue.example:4001"


@pytest.mark.parametrize("headers", [{"Origin": "https://example.com"}, {"Host": "example.com"}, {"Host": "[::1"}])
def test_web_pages_are_not_answered(db: DevDatabase, headers: dict[str, str]) -> None:
    db.execute("CREATE TABLE t(a)")
    body = b"DROP TABLE t"
    reply = ask(db.server.host, db.server.port, "POST", "/db/execute", body, {"Content-Type": "text/plain", **headers})
    assert reply.status in (400, 403)
    assert db.query("SELECT count(*) FROM t") == [(0,)]


def test_no_other_file_is_opened(db: DevDatabase, tmp_path: Path) -> None:
    for number, sql in enumerate((f"ATTACH '{tmp_path}/a.db' AS other", f"VACUUM INTO '{tmp_path}/b.db'")):
        for path in ("/db/execute", "/db/request", "/db/query"):
            assert "error" in slots(db, path, sql)[0], (number, path)
    assert not list(tmp_path.iterdir())
    assert slots(db, "/db/execute", "VACUUM") == [{}]


# -- bounds ----------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_413_before_it_is_sent(server: DevServer) -> None:
    with closing(socket.create_connection((server.host, server.port), timeout=30)) as connection:
        head = f"POST /db/execute HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: {(64 << 20) + 1}\r\n\r\n"
        connection.sendall(head.encode())
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        assert (reply.status, reply.read()) == (413, b"the dev server takes 64 MiB in a request\n")


def test_a_body_without_a_length_is_bounded_too(server: DevServer) -> None:
    piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with closing(socket.create_connection((server.host, server.port), timeout=30)) as connection:
        connection.sendall(f"POST /db/query HTTP/1.1\r\nHost: {server.host}\r\n".encode())
        connection.sendall(b"Transfer-Encoding: chunked\r\n\r\n" + piece * 63)
        connection.sendall(piece + b"1\r\n ")
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        assert reply.status == 413


def test_a_body_of_many_megabytes_is_taken(db: DevDatabase) -> None:
    text = "x" * (20 << 20)
    assert slots(db, "/db/query", ["SELECT length(?)", text])[0]["values"] == [[len(text)]]


def test_too_many_statements_are_400(db: DevDatabase) -> None:
    reply = db.ask("POST", "/db/execute", ["SELECT 1"] * 100_001)
    assert reply.status == 400 and "100000 in a request" in reply.body


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'["SELECT 1"', b"\xff", b'[["SELECT ?", NaN]]', b'{"a"', b"nul", b"[[[[]]]]", b'[[1, "a"]]'],
)
def test_bodies_that_are_no_statements_are_400(server: DevServer, body: bytes) -> None:
    for path in ("/db/execute", "/db/query", "/db/request"):
        reply = ask(server.host, server.port, "POST", path, body)
        assert reply.status == 400 and reply.body.startswith("invalid"), (path, body[:20])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/db/query?timeout=5", 400),
        ("/db/query?db_timeout=1h2", 400),
        ("/db/query?freshness_strict", 400),
        ("/db/query?retries=x", 400),
        ("/db/query?a;b", 400),
        ("/db/query?qualify_columns", 400),
        ("/db/query?db_timeout=1m0.5s&timeout=-3ms&retries=-2", 200),
        ("/db/query?level=bogus", 200),
        ("/db/queryfoo", 200),
        ("/db/backup", 501),
        ("/db/nope", 404),
        ("/leader", 405),
    ],
)
def test_query_strings_and_paths(db: DevDatabase, path: str, status: int) -> None:
    assert db.ask("POST", path, ["SELECT 1"]).status == status


def test_db_timeout_ends_a_statement(db: DevDatabase) -> None:
    db.execute("CREATE TABLE t(a)")
    assert slots(db, "/db/query?db_timeout=50ms", ENDLESS) == [{"error": "query timeout"}]
    assert slots(db, "/db/execute?db_timeout=50ms", f"INSERT INTO t {ENDLESS}") == [{"error": "execute timeout"}]
    assert slots(db, "/db/query", "SELECT count(*) FROM t")[0]["values"] == [[0]]


# -- statements that go wrong ----------------------------------------------------------------------------


@pytest.fixture
def table(db: DevDatabase) -> DevDatabase:
    """A table with the one row 1."""
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)")
    db.execute("INSERT INTO t VALUES(1, 'one')")
    return db


def ids(db: DevDatabase) -> list[int]:
    return [row[0] for row in db.query("SELECT id FROM t ORDER BY id")]


@pytest.mark.parametrize("bad", ["INSERT INTO t(id) VALUES(1)", "INSERT INTO t(id) VALUES(1) RETURNING id"])
@pytest.mark.parametrize("path", ["/db/execute", "/db/request"])
def test_a_failure_ends_a_transaction(table: DevDatabase, path: str, bad: str) -> None:
    statements = ["INSERT INTO t(id) VALUES(2)", bad, "INSERT INTO t(id) VALUES(3)"]
    found = slots(table, f"{path}?transaction", *statements)
    assert found[1:] == [{"error": "UNIQUE constraint failed: t.id"}]
    assert ids(table) == [1]
    assert len(slots(table, path, *statements)) == 3
    assert ids(table) == [1, 2, 3]


def test_what_does_not_prepare_ends_a_transaction_on_execute_only(table: DevDatabase) -> None:
    statements = ["INSERT INTO t(id) VALUES(2)", "INSERT INTO nope VALUES(1)", "INSERT INTO t(id) VALUES(3)"]
    assert slots(table, "/db/execute?transaction", *statements)[1:] == [{"error": "no such table: nope"}]
    assert ids(table) == [1]
    assert slots(table, "/db/request?transaction", *statements)[1:] == [
        {"error": "no such table: nope"},
        {"last_insert_id": 3, "rows_affected": 1},
    ]
    assert ids(table) == [1, 2, 3]


def test_tables_made_in_a_transaction_are_seen_in_it_and_gone_with_it(db: DevDatabase) -> None:
    fine = ["CREATE TABLE t(a BLOB)", ["INSERT INTO t VALUES(?)", "x'ff'"], "SELECT a FROM t"]
    rows = {"columns": ["a"], "types": ["blob"], "values": [["/w=="]]}
    assert slots(db, "/db/request?transaction", *fine, "SELECT json('{')")[2] == rows
    assert slots(db, "/db/query", "SELECT a FROM t") == [{"error": "no such table: t"}]
    again = slots(db, "/db/request?transaction", "CREATE TABLE t(a TEXT, b)", "SELECT a FROM t")
    assert again[1] == {"columns": ["a"], "types": ["text"]}


def test_a_hand_made_transaction_is_not_seen_by_reads(table: DevDatabase) -> None:
    slots(table, "/db/execute", "BEGIN", "INSERT INTO t(id) VALUES(2)")
    assert ids(table) == [1]
    reply = json.loads(table.ask("POST", "/db/request?transaction", ["INSERT INTO t(id) VALUES(3)"]).body)
    assert reply == {"results": [], "error": "cannot start a transaction within a transaction"}
    slots(table, "/db/execute", "ROLLBACK")
    assert slots(table, "/db/query", "BEGIN", "SELECT 1") == [{}, slots(table, "/db/query", "SELECT 1")[0]]
    table.execute("INSERT INTO t(id) VALUES(4)")
    assert ids(table) == [1, 4]


def test_reads_change_nothing(table: DevDatabase) -> None:
    for bad in ("DELETE FROM t", "SELECT 1; DELETE FROM t", "CREATE TEMP TABLE x(a)", "DELETE FROM t RETURNING id"):
        assert slots(table, "/db/query", bad) == [{"error": "attempt to change database via query operation"}], bad
    for bad in ("PRAGMA journal_mode=DELETE", "pragma main.synchronous = OFF", "PRAGMA wal_checkpoint(FULL)"):
        for path in ("/db/query", "/db/execute", "/db/request"):
            reply = json.loads(table.ask("POST", path, [bad]).body)
            assert reply == {"results": [], "error": "disallowed pragma"}, (bad, path)
    assert ids(table) == [1]


def test_entries_are_counted_as_the_server_counts(table: DevDatabase) -> None:
    write, read, bad = "UPDATE t SET a='x'", "SELECT * FROM t", "SELECT nope FROM t"

    def entries(path: str, *statements: str) -> int:
        before = table.raft_entries()
        slots(table, path, *statements)
        return table.raft_entries() - before

    assert [entries(f"/db/query?level={level}", read) for level in ("none", "weak", "linearizable", "auto")] == [0] * 4
    assert entries("/db/query?level=strong", read) == 1
    assert [entries(f"/db/request{how}", read) for how in ("", "?transaction", "?level=strong")] == [0, 0, 1]
    assert [entries("/db/request", *both) for both in ((read, write), (write, write), (read, bad))] == [1, 1, 1]
    assert [entries("/db/execute", *both) for both in ((write,), (write, write), (read,))] == [1, 1, 1]
    assert entries("/db/execute?queue&wait", write, write) == 1


# -- values and names ------------------------------------------------------------------------------------


def test_parameters_go_where_the_driver_puts_them(db: DevDatabase) -> None:
    expected: list[tuple[list[object], object]] = [
        (["SELECT ?2, ?1", 1, 2], [[2, 1]]),
        (["SELECT ?, :a", 1, {"a": 2}], [[1, 2]]),
        (["SELECT :a, ?", {"a": 2}, 1], [[2, 1]]),
        (["SELECT :a, @a, $a", {"a": 2}, 3, 4], [[2, 3, 4]]),
        (["SELECT :b", {"a": 2}], [[None]]),
        (['SELECT \'?\', ":a", -- ?\n ? FROM (SELECT 1 AS ":a")', 7], [["?", 1, 7]]),
    ]
    for statement, values in expected:
        assert slots(db, "/db/query", statement)[0]["values"] == values, statement
    assert slots(db, "/db/query", ["SELECT :a, ?, :b+?1", {"a": 2, "b": 3}, 1])[0]["columns"] == [":a", "?", ":b+?1"]
    assert slots(db, "/db/query", ["SELECT :a, :b", {"a": 1}]) == [
        {"error": "not enough args to execute query: want 2 got 1"}
    ]


def test_no_more_parameters_than_the_server_takes(db: DevDatabase) -> None:
    most = 32_766
    for count, found in ((most, {"values": [[most]]}), (most + 1, {"error": "too many SQL variables"})):
        sql = f"SELECT count(*) FROM (VALUES {','.join(['(?)'] * count)})"
        (slot,) = slots(db, "/db/query", [sql, *range(count)])
        assert found.items() <= slot.items()
    assert "variable number must be" in slots(db, "/db/query", ["SELECT ?999999999", 1])[0]["error"]


def test_declared_types_are_found(db: DevDatabase) -> None:
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, b BLOB, d DATETIME, o BOOLEAN, n)")
    db.execute("CREATE TABLE u(id TEXT, b VARCHAR(9), o REAL)")
    db.execute("INSERT INTO t(b, d, o) VALUES(?, 1700000000123, 1)", "x'00ff'")
    db.execute("INSERT INTO u VALUES('1', ?, 2)", "x'3f'")
    blob, instant = "AP8=", "2023-11-14T22:13:20.123Z"
    for sql, types, values in [
        ("SELECT * FROM t", ["integer", "blob", "datetime", "boolean", ""], [1, blob, instant, True, None]),
        ("SELECT o+0, max(b), count(*) c FROM t", ["integer", "text", "integer"], [1, "\x00\ufffd", 1]),
        ("SELECT x.b, y.b FROM t x JOIN u AS y ON x.id=y.id", ["blob", "varchar(9)"], [blob, "?"]),
        ("SELECT u.o, t.o, u.* FROM u, t", ["real", "boolean", "text", "varchar(9)", "real"], [2, True, "1", "?", 2]),
        ("WITH w AS (SELECT b AS q FROM t) SELECT q FROM w", ["blob"], [blob]),
        ("SELECT * FROM (SELECT id, b AS q FROM t)", ["integer", "blob"], [1, blob]),
        ("SELECT (SELECT b FROM t) AS q", ["blob"], [blob]),
        ("SELECT b FROM t UNION ALL SELECT b FROM t LIMIT 1", ["blob"], [blob]),
        ("SELECT rowid, CASE WHEN o THEN b END FROM t", ["integer", "text"], [1, "\x00\ufffd"]),
    ]:  # fmt: skip
        (found,) = slots(db, "/db/query", sql)
        assert (found["types"], found["values"][0]) == (types, values), sql
    assert slots(db, "/db/execute", "UPDATE t SET n=5 RETURNING b, n+1")[0]["types"] == ["blob", "integer"]
    slots(db, "/db/execute", "ALTER TABLE u ADD COLUMN late DATE")
    assert slots(db, "/db/query", "SELECT * FROM u")[0]["types"] == ["text", "varchar(9)", "real", "date"]


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("UPDATE t SET a='b' RETURNING id", "rows"),
        ("WITH c(n) AS (SELECT 1) UPDATE t SET a='b' WHERE id IN (SELECT n FROM c) RETURNING id", "rows"),
        ("INSERT INTO t(a) VALUES(unixepoch('now')) RETURNING id", "rows"),
        ("INSERT INTO t(id) VALUES(1) ON CONFLICT DO UPDATE SET a='c' RETURNING id", "rows"),
        ("UPDATE t SET a='b' RETURNING\nid", "counts"),
        ("UPDATE t SET a='b' WHERE t.rowid=1 RETURNING id", "counts"),
        ("UPDATE t SET a='b' WHERE a IS NOT DISTINCT FROM 'one' RETURNING id", "counts"),
        ("UPDATE t SET a='returning ' WHERE id=1", "counts"),
        ("UPDATE t SET a=datetime('now') RETURNING id", "nothing"),
        ("DELETE FROM t WHERE id>abs(random()) RETURNING id", "nothing"),
    ],
)
def test_rows_of_returning(table: DevDatabase, sql: str, sent: str) -> None:
    for path in ("/db/execute", "/db/request"):
        (found,) = slots(table, path, sql)
        assert ("rows" if "columns" in found else "counts" if found else "nothing") == sent, path
    assert "columns" not in slots(table, "/db/execute?noparse", sql)[0]


def test_several_statements_in_a_string(table: DevDatabase) -> None:
    trigger = "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET a='x;y'; DELETE FROM t WHERE id=9; END"
    assert slots(table, "/db/execute", f"{trigger}; INSERT INTO t(id) VALUES(9); -- the end;")[0]["rows_affected"] == 1
    assert table.query("SELECT id, a FROM t") == [(1, "x;y")]
    assert slots(table, "/db/query", "SELECT 1; SELECT ';' AS s;")[0]["values"] == [[";"]]
    assert slots(table, "/db/execute", "", "-- nothing", "INSERT INTO nope VALUES(1); SELECT 1") == [
        {},
        {"error": "no such table: nope"},
    ]


def test_replies_in_other_forms(table: DevDatabase) -> None:
    both = ["SELECT 2 AS b, 1 AS a", "INSERT INTO t(id) VALUES(1)", "UPDATE t SET a='z'"]
    assert slots(table, "/db/request?associative", *both) == [
        {"types": {"a": "integer", "b": "integer"}, "rows": [{"a": 1, "b": 2}]},
        {"error": "UNIQUE constraint failed: t.id"},
        {"last_insert_id": 1, "rows_affected": 1, "rows": None},
    ]
    assert slots(table, "/db/query?associative", "SELECT nope") == [{"rows": [], "error": "no such column: nope"}]
    reply = table.ask("POST", "/db/query?pretty", ["SELECT 1.0 AS a"])
    assert '\n    "results": [\n        {\n            "columns": [' in reply.body
    plain = {"Content-Type": "text/plain"}
    reply = ask(table.server.host, table.server.port, "POST", "/db/query", b"SELECT 5", plain)
    assert reply.body == '{"results":[{"columns":["5"],"types":["integer"],"values":[[5]]}]}'
    assert json.loads(table.ask("GET", "/status?key=store.raft.state").body) == "Leader"


# -- time ------------------------------------------------------------------------------------------------


def test_the_time_that_sql_tells_can_be_shifted() -> None:
    functions = [
        "unixepoch('subsec')", "unixepoch()", "unixepoch('now', 'subsec')", "unixepoch(CURRENT_TIMESTAMP)",
        "strftime('%s', 'now')+0", "unixepoch(datetime('now'))", "round((julianday('now')-2440587.5)*86400)",
    ]  # fmt: skip
    for skew in (0.0, 3600.0, -86400.5):
        with DevServer(clock_skew=skew) as server:
            before = time.time() + skew
            (told,) = DevDatabase(server).query(f"SELECT {', '.join(functions)}")
            after = time.time() + skew
            assert all(before - 2 < value < after + 2 for value in told), (skew, told)
            assert isinstance(told[0], float)
            fixed = "SELECT unixepoch('2001-02-03'), date(0, 'unixepoch'), strftime('%Y', '2001-02-03'), date(NULL)"
            assert DevDatabase(server).query(fixed) == [(981158400, "1970-01-01", "2001", None)]


def test_shifted_functions_stand_in_a_schema(tmp_path: Path) -> None:
    with DevServer(tmp_path / "a.db", clock_skew=60) as server:
        db = DevDatabase(server)
        db.execute("CREATE TABLE t(a TEXT DEFAULT CURRENT_TIMESTAMP, d AS (date(a)), CHECK (date(a) IS NOT NULL))")
        db.execute("CREATE INDEX i ON t(date(a))")
        db.execute("INSERT INTO t DEFAULT VALUES")
    with closing(sqlite3.connect(tmp_path / "a.db")) as plain:
        assert plain.execute("SELECT d=date(a) FROM t INDEXED BY i WHERE date(a)>''").fetchall() == [(1,)]


def test_a_client_takes_its_time_from_the_server() -> None:
    with DevServer(clock_skew=86400) as server, rqfast.connect(server.url) as queue:
        queue.publish("g", 1)
        lease = queue.claim("w")
        assert lease is not None and lease.published_at is not None
        assert lease.published_at > time.time() + 80000


def test_many_clients_at_once(table: DevDatabase) -> None:
    def write() -> None:
        for _ in range(20):
            table.execute("INSERT INTO t(a) VALUES('x')")

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    wait_until("all rows", lambda: len(ids(table)) == 161)
