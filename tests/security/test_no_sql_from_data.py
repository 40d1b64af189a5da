"""Nothing of a caller's is ever part of a statement's text but names that were checked and quoted."""

from __future__ import annotations

import ast
import itertools
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest

import rqfast
from rqfast.address.inbox import Address, Inbox
from rqfast.address.roles import Column, Group, Header, Id, LockedUntil, Payload
from rqfast.devserver import DevServer
from rqfast.sql import Statements
from rqfast.sql.inbox import (
    DEAD,
    DONE,
    EXTEND,
    FREE,
    GIVE_BACK,
    LATER,
    PARK,
    InboxStatements,
    Indexes,
    insert,
    missing_columns,
    wanted_indexes,
)
from rqfast.sql.names import quote
from tests.proxy import Proxy

SOURCE = Path(rqfast.__file__).parent
SQL = re.compile(
    r"\b(SELECT|INSERT INTO|INSERT OR|REPLACE INTO|UPDATE|DELETE FROM|CREATE (TABLE|INDEX|VIEW|TRIGGER)"
    r"|DROP (TABLE|VIEW|INDEX)|PRAGMA|ATTACH|VALUES|ORDER BY|WHERE|INDEXED BY|json_each|json_set)\b"
    r"|^ ?(AND|IS|IN|SET) |[<>=]\?\d"
)

# The only places where SQL is composed, with all that is put in; sql/inbox.py is looked at by what it makes.
COMPOSED: dict[str, set[str]] = {
    "devserver/clock.py": {"name", "','.join('?' * len(given))"},  # one of a few functions of its own
    "devserver/database.py": {"synchronous"},  # OFF or NORMAL, by the server itself
    "engine/sqlite.py": {"self._synchronous"},  # one of a list
    "sql/own.py": {"name"},  # the text of an error
    "testing/due.py": {"quote(column)", "quote(inbox.table)"},
    "transport/schema.py": {"quote(names[name])"},
}
BY_WHAT_IT_MAKES = "sql/inbox.py"


def literal(node: ast.AST) -> str:
    """The text that stands in the source of a string."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def put_in(node: ast.AST) -> Iterator[str]:
    """What an expression puts into a text of SQL."""
    if isinstance(node, ast.JoinedStr) and SQL.search(literal(node)):
        yield from (ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue))
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod)
    if is_sum and SQL.search(literal(node.left) + literal(node.right)):
        yield ast.unparse(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and SQL.search(literal(node.func.value)):
        yield ast.unparse(node)


def composed(source: str) -> set[str]:
    return {one for node in ast.walk(ast.parse(source)) for one in put_in(node)}


def test_sql_is_composed_in_few_places_and_of_nothing_else() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): parts
        for path in sorted(SOURCE.rglob("*.py"))
        if (parts := composed(path.read_text(encoding="utf-8")))
    }
    assert found.pop(BY_WHAT_IT_MAKES)
    assert found == COMPOSED


@pytest.mark.parametrize(
    "source", ['f"SELECT {x}"', '"SELECT " + x', '"SELECT %s" % x', '"SELECT {}".format(x)', '" WHERE ".join(x)']
)
def test_a_place_where_it_is_composed_is_found(source: str) -> None:
    assert composed(source)


def test_the_core_has_no_sql_of_its_own() -> None:
    core = Path(__file__).parents[2] / "src"
    if not (core / "_core.pyx").is_file():
        pytest.skip("the source of the core is not here")
    text = "".join(path.read_text(encoding="utf-8") for path in [core / "_core.pyx", *core.glob("core/*.pxi")])
    code = re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.DOTALL)
    assert re.findall(r"[\"'](?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|WITH|PRAGMA)\b", code) == []


# -- the statements of a queue ----------------------------------------------------------------------------


def sections(queue: str | None) -> dict[str, str]:
    statements = Statements(queue)
    parts = ("queue", "operate", "schema", "table", "opening", "verify", "compat", "finish")
    return {f"{part} {name}": text for part in parts for name, text in getattr(statements, part).items()}


def test_of_a_queue_only_its_quoted_names_stand_in_its_statements() -> None:
    one, other = "one", "zwei_2"
    texts, others = sections(one), sections(other)
    assert texts.keys() == others.keys() and len(texts) > 150
    for name, text in texts.items():
        names = sorted(Statements(one).names.values(), key=len, reverse=True)
        for real in names:
            short = real.replace(f"rqfast_{one}_", f"rqfast_{other}_").replace(f"_{one}_", f"_{other}_")
            # As a name; and as a text, where SQLite's own list of tables is read.
            text = text.replace(f'"{real}"', f'"{short}"').replace(f"'{real}'", f"'{short}'")
        assert text == others[name], name


HOSTILE = [
    'a"b', "a'b", "a;b", "a b", "a--b", "a/*b", "a)b", "a\nb", "a\0b", "a`b", "[a]", "a.b", "ä", "", " ", "1a",
    'x" OR "1"="1', "x'); DROP TABLE messages; --", "main.messages", "a\u2028b", "\uff41", "a" * 200,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("url", ["sqlite://:memory:", "http://127.0.0.1:1"])
def test_what_cannot_be_a_name_of_a_queue_is_refused_by_all_who_take_one(name: str, url: str) -> None:
    takers: list[Callable[[], Any]] = [
        lambda: rqfast.connect(url, queue=name),
        lambda: rqfast.AsyncRqliteTransport("http://127.0.0.1:1", queue=name),
        lambda: rqfast.Worker(url, queue=name),
    ]
    for take in takers:
        with pytest.raises(rqfast.ConfigError, match="queue="):
            take()


# -- the statements on a table of the user's own ------------------------------------------------------------

ROLES = ("id", "priority", "retry_at", "attempt", "locked_until", "token", "payload", "headers", "processed_at")
NEEDED = {"id", "locked_until", "payload"}


def box(prefix: str, kind: str, left_out: frozenset[str]) -> Inbox:
    columns: dict[str, Any] = {role: f"{prefix}_{role}" for role in ROLES if role not in left_out}
    return Inbox.describe(f"{prefix}_jobs", **columns, **{kind: f"{prefix}_grp"}, header={"h": f"{prefix}_h"})


def texts(address: Address, prefix: str, dead: Inbox | None) -> list[str]:
    """All that is made for an address."""
    inbox = address.inbox
    columns = [f"{prefix}_{role}" for role in (*ROLES, "grp", "h", "more")]
    statements = Statements("q")
    indexes = Indexes(f"{prefix}_jobs_claim", f"{prefix}_jobs_lock")
    own = InboxStatements(address, statements, columns, indexes, "dead" if dead is None else None)
    made = [own.pick_rows, own.pick, own.take, own.outcome, own.again, own.outcome_settled, own.again_settled]
    made += [own.verdict, own.guard, own.look, own.cut or "", missing_columns(inbox.table, columns)]
    for what in (DONE, FREE, PARK, LATER, EXTEND, GIVE_BACK):
        if what != LATER or inbox.has("retry_at"):
            made += [text for _, text, _ in own.settle(what, 1.0)]
    made += [text for _, text, _ in own.bury("dead" if dead is None else None, dead)]
    made += [index.create for index in wanted_indexes(address, False).values()]
    made.append(insert(inbox, statements, columns[1:3], columns[0], columns[4]))
    assert DEAD not in (DONE, FREE)
    return made


def addresses(inbox: Inbox, value: str) -> list[Address]:
    return [Address(inbox), inbox.group(value), inbox.groups([value, f"{value}2"]), inbox.prefix(value)]


KINDS = ("fifo_group", "exclusive_group", "group")
LEFT_OUT = [frozenset(), frozenset(ROLES) - NEEDED, frozenset(("token",)), frozenset(("processed_at", "headers"))]


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=["all", "needed", "no token", "some"])
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_table_only_quoted_names_stand_in_its_statements(kind: str, left_out: frozenset[str]) -> None:
    bad = 'x\' OR 1=1; DROP TABLE "jobs" --'
    for with_dead, at in itertools.product((False, True), range(4)):
        made = []
        for prefix, value in (("aa", "plain"), ("aa", bad), ("select", "plain")):
            inbox = box(prefix, kind, left_out)
            dead = box(f"{prefix}_dead", kind, left_out) if with_dead else None
            made.append(texts(addresses(inbox, value)[at], prefix, dead))
        plain, hostile, other = made
        assert plain == hostile, "the groups of an address are bound"
        for text, same in zip(plain, other, strict=True):
            assert re.sub(r'"aa_(\w+)"', r'"select_\1"', text) == same
            assert "aa_" not in re.sub(r'"[^"]*"', "", text), text


@pytest.mark.parametrize("name", [name for name in HOSTILE if name], ids=ascii)
def test_what_cannot_be_a_name_of_a_column_or_table_is_refused(name: str) -> None:
    good: dict[str, Any] = {role: role for role in NEEDED}
    makers: list[Callable[[], Any]] = [
        lambda: Inbox.describe(name, **good),
        *(lambda role=role: Inbox.describe("t", **good | {role: name}) for role in (*ROLES, "fifo_group", "group")),
        lambda: Inbox.describe("t", **good, header={"h": name}),
        lambda: Inbox.describe("t", **good | {"id": Column(name, generated=True)}),
        lambda: Inbox(declared(name), "t"),
        lambda: Inbox(declared("payload"), name),
    ]
    for make in makers:
        with pytest.raises(rqfast.ConfigError, match="is no name of a column or table"):
            make()


def declared(column: str) -> type:
    class Job:
        number: Annotated[int, Id]
        until: Annotated[float | None, LockedUntil]
        body: Annotated[str, Payload(column=column)]
        target: Annotated[str, Group]
        kind: Annotated[str, Header("x' -- \"")]

    Job.__annotations__ = {
        "number": Annotated[int, Id],
        "until": Annotated[float | None, LockedUntil],
        "body": Annotated[str, Payload(column=column)],
        "target": Annotated[str, Group],
        "kind": Annotated[str, Header("x' -- \"")],
    }
    return Job


def test_a_name_of_a_header_is_data() -> None:
    inbox = Inbox(declared("payload"), "t")
    assert inbox.header_columns == {"x' -- \"": "kind"}
    own = InboxStatements(Address(inbox), Statements(None), ["number", "until", "payload", "target", "kind"], Indexes())
    assert "x' --" not in own.outcome + own.take + own.pick


@pytest.mark.parametrize("name", [*filter(None, HOSTILE), "select", 'a""b', '"', '""'], ids=ascii)
def test_a_quoted_name_is_one_name(name: str) -> None:
    if "\0" in name:
        pytest.skip("no text of SQL holds one")
    with sqlite3.connect(":memory:") as db:
        db.execute(f"CREATE TABLE {quote(name)}({quote(name)})")
        db.execute(f"INSERT INTO {quote(name)}({quote(name)}) VALUES(1)")
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [(name,)]
    db.close()


# -- what is sent ---------------------------------------------------------------------------------------------

MARK = "zq7"
BAD = f"{MARK}'); DROP TABLE messages; --\"{MARK}"


def use_all(queue: rqfast.Transport[Any]) -> None:
    """Each public call, with data that would do harm if it were text."""
    queue.publish(BAD, {BAD: BAD}, 2, headers={BAD: BAD}, dedup_id=BAD)
    queue.publish(BAD, f'"{BAD.replace(chr(34), "")}"'.encode(), rank=1, delay=0.001, dedup_id=f"{BAD}2")
    queue.publish("x'00'", "x'00'", with_statements=[["INSERT INTO own VALUES(?)", BAD]])
    queue.publish_many([(f"{BAD}{number}", BAD) for number in range(5)])
    queue.publish_soon(f"{BAD}soon", BAD)
    queue.flush()
    queue.pause(BAD)
    queue.resume(BAD)
    leases = queue.claim_many(BAD, 60, 5)
    assert len(leases) == 5
    queue.extend(leases[0], 90)
    queue.nack(leases[0], 0)
    queue.defer(leases[1], 1)
    queue.dead_letter(leases[2], BAD)
    queue.ack(leases[3], publish=[(BAD, BAD)], with_statements=[["UPDATE own SET a=?", BAD]])
    queue.nack(leases[4], 1)
    with suppress(rqfast.LeaseLost):
        queue.ack(rqfast.Lease(1, BAD, BAD, BAD))
    run = queue.claim_run(BAD, 60, limit=5)
    queue.ack_many(run)
    queue.claim(BAD)
    queue.release(BAD)
    queue.groups(after=None)
    queue.peek(BAD)
    queue.stats()
    queue.redrive(seqs=[letter.seq for letter in queue.dead_letters()])
    queue.purge(BAD)
    queue.purge(everything=True)


def known(queue: str) -> set[str]:
    texts = set(sections(queue).values())
    return texts | {"INSERT INTO own VALUES(?)", "UPDATE own SET a=?", "SELECT 1"}


def test_over_http_each_text_is_one_of_the_list(dev_server: DevServer) -> None:
    with Proxy(dev_server.host, dev_server.port) as proxy:
        with rqfast.connect(proxy.url, queue="listed", discover=False) as queue:
            with suppress(rqfast.StatementError):
                queue.publish("g", 1, with_statements=[["CREATE TABLE own(a)"]])
            use_all(queue)
        bodies = [json.loads(exchange.body) for exchange in proxy.seen(lambda one: one.path.startswith("/db/"))]
    sent = {statement[0] for body in bodies for statement in body} - {"CREATE TABLE own(a)"}
    assert len(sent) > 50 and not [text for text in sent if MARK in text]
    assert sent <= known("listed")
    assert any(MARK in str(statement[1:]) for body in bodies for statement in body)


class Recording(sqlite3.Connection):
    """A connection that remembers the text of what it runs."""

    texts: set[str]

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        Recording.texts.add(sql)
        return super().execute(sql, *parameters)


def test_in_sqlite_each_text_is_one_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Recording.texts = set()
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: real(*args, **more | {"factory": Recording}))
    with rqfast.connect(tmp_path / "q.db", queue="listed") as queue:
        queue.publish("g", 1, with_statements=[["CREATE TABLE own(a)"]])
        use_all(queue)
    plain = re.compile(r"BEGIN( IMMEDIATE)?|COMMIT|ROLLBACK|PRAGMA \w+(=\w+)?|CREATE TABLE own\(a\)")
    sent = {text for text in Recording.texts if not plain.fullmatch(text)}
    assert len(sent) > 50 and not [text for text in sent if MARK in text]
    assert sent <= known("listed")


def test_of_a_table_no_value_is_text(dev_server: DevServer, tmp_path: Path) -> None:
    with Proxy(dev_server.host, dev_server.port) as proxy:
        worker = rqfast.Worker(proxy.url, discover=False)
        done: list[Any] = []
        columns: dict[str, Any] = {name: name for name in ("locked_until", "token", "payload", "attempt", "retry_at")}
        inbox = Inbox.describe("zq_jobs", id=Column("id", generated=True), fifo_group="grp", **columns)

        @worker.on_startup
        async def prepare(database: Any) -> None:
            await database.execute(
                "CREATE TABLE zq_jobs(id INTEGER PRIMARY KEY, grp TEXT, locked_until REAL, token TEXT, payload TEXT, "
                "attempt INT, retry_at REAL)"
            )
            await database.execute("INSERT INTO zq_jobs(grp, payload) VALUES(?, ?)", BAD, json.dumps(BAD))
            await database.execute("INSERT INTO zq_jobs(grp, payload) VALUES(?, ?)", BAD, json.dumps(BAD))

        @worker.subscriber(inbox.group(BAD), dead_letter=f"{BAD}dead", max_attempts=9)
        async def handle(payload: str, ctx: rqfast.Context) -> rqfast.Outcome:
            done.append(payload)
            if len(done) == 2:
                worker.stop()
                return rqfast.Dead(BAD)
            return rqfast.Retry() if len(done) > 2 else rqfast.Ack()

        worker.run()
        assert done == [BAD, BAD]
        bodies = [json.loads(exchange.body) for exchange in proxy.seen(lambda one: one.path.startswith("/db/"))]
    texts = [statement[0] if isinstance(statement, list) else statement for body in bodies for statement in body]
    assert any("zq_jobs" in text for text in texts) and not [text for text in texts if MARK in text]
