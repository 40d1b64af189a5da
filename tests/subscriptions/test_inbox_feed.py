"""Rows of the user's own table: claimed in order, one of a group, and settled once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

from rqfast import LeaseLost, SchemaError, StatementError, connect, connect_async
from rqfast.address.inbox import Inbox
from rqfast.address.roles import Attempt, Column, Group, Id, LockedUntil, Payload, ProcessedAt, RetryAt
from rqfast.cli.app import make_app
from rqfast.worker.inbox_feed import InboxFeed
from rqfast.worker.outcomes import Ack, Drop, Retry, RetryAfter
from tests.contract.conftest import ENGINES, IN_PROCESS
from tests.subscriptions.table import DDL, Table, nothing, soon, take

CLAIM = "CREATE INDEX {table}_claim ON {table}(target,prio,retry_at)"
LOCK = "CREATE INDEX {table}_lock ON {table}(target,locked_until) WHERE locked_until IS NOT NULL"


@pytest.fixture(
    params=[
        pytest.param(engine, marks=() if engine in IN_PROCESS else pytest.mark.cluster(engine)) for engine in ENGINES
    ]
)
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """A table that no other test uses, not yet made."""
    made = Table(request.param, ENGINES[request.param](request))
    yield made
    made.close()


def on_loop(test: Callable[[Table], Coroutine[Any, Any, None]]) -> Callable[[Table], None]:
    """A test that is a coroutine."""

    def run(table: Table) -> None:
        asyncio.run(test(table))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def drain(feed: InboxFeed) -> list[Any]:
    """The payloads in the order in which they come; each is acknowledged."""
    found = []
    while rows := await soon(feed.claim_next(10), "the next rows"):
        for row in rows:
            found.append(row.raw)
            await soon(feed.settle(row, Ack()), "an ack")
    return found


@on_loop
async def test_order_one_of_a_group_and_retry(table: Table) -> None:
    table.make(DDL, None, CLAIM, LOCK)
    table.add("a", "a", "b", "a")
    async with table.feed() as feed:
        first = await take(feed, 10)
        assert [row.raw for row in first] == ["a1", "b3"]
        assert [row.attempts for row in first] == [1, 1]
        await nothing(feed)
        a, b = first
        await asyncio.gather(feed.settle(a, Retry()), feed.settle(b, Ack()))
        (again,) = await take(feed, 10)
        assert (again.raw, again.attempts) == ("a1", 2)
        assert again.fence > a.fence
        await feed.settle(again, Ack())
        assert await drain(feed) == ["a2", "a4"]
    assert table.rows() == []


@on_loop
async def test_parked_holds_its_group_and_keeps_its_place(table: Table) -> None:
    table.make()
    table.add("a", "a")
    async with table.feed() as feed:
        (row,) = await take(feed)
        await feed.settle(row, Retry(0.3))
        assert table.rows("token")[0] == ("__parked__",)
        await nothing(feed)
        (again,) = await take(feed)
        assert again.raw == "a1"
        await feed.settle(again, Ack())
        assert await drain(feed) == ["a2"]


@on_loop
async def test_retry_after_moves_within_its_priority(table: Table) -> None:
    table.make()
    now = time.time()
    for number, (prio, retry_at) in enumerate([(1, now - 9), (1, now - 8), (2, now - 9)], 1):
        table.add("a", prio=prio, retry_at=retry_at, payload=f"p{number}")
    async with table.feed() as feed:
        (row,) = await take(feed)
        assert row.raw == "p1"
        await feed.settle(row, RetryAfter(0.5))
        (second,) = await take(feed)
        assert second.raw == "p2"
        await feed.settle(second, Ack())
        # p1 is due later, and of a smaller priority than p3: it holds p3 back.
        await nothing(feed)
        (again,) = await take(feed)
        assert again.raw == "p1"
        await feed.settle(again, Ack())
        assert await drain(feed) == ["p3"]


@on_loop
async def test_a_head_that_is_not_yet_due_holds_larger_priorities(table: Table) -> None:
    table.make()
    table.add("a", prio=1, retry_at=time.time() + 3600)
    table.add("a", prio=2)
    table.add("b", prio=2)
    async with table.feed() as feed:
        assert [row.group_id for row in await take(feed, 10)] == ["b"]
        await nothing(feed)


@on_loop
async def test_finished_rows_stay_and_are_never_head(table: Table) -> None:
    table.make()
    table.add("a", done=1.0, prio=0)
    table.add("a", "a", prio=1)
    async with table.feed(table.box(processed_at="done")) as feed:
        (row,) = await take(feed)
        assert row.id == 2
        await feed.settle(row, Drop())
        (row,) = await take(feed)
        assert row.id == 3
        await feed.settle(row, Ack())
        await nothing(feed)
    assert table.rows("done")[0] == (1.0,)
    assert all(done is not None and lock is None for done, lock in table.rows("done,locked_until"))


@on_loop
async def test_exclusive_groups_go_one_at_a_time_and_a_failing_row_holds_nobody(table: Table) -> None:
    table.make()
    table.add("a", "a", "a")
    box = table.box(fifo_group=None, exclusive_group="target")
    async with table.feed(box) as feed:
        (row,) = await take(feed, 10)
        await nothing(feed)
        await feed.settle(row, Retry(3600.0))
        (second,) = await take(feed, 10)
        assert second.raw == "a2"
        await feed.settle(second, Retry())
        (third,) = await take(feed, 10)
        assert third.raw == "a3"


@on_loop
async def test_exclusive_without_retry_at_goes_by_attempts(table: Table) -> None:
    table.make()
    table.add("a", "a")
    box = table.box(fifo_group=None, exclusive_group="target", retry_at=None)
    async with table.feed(box) as feed:
        (row,) = await take(feed)
        await feed.settle(row, Retry(5.0))
        (second,) = await take(feed)
        assert [row.raw, second.raw] == ["a1", "a2"]


@on_loop
async def test_rows_of_a_plain_group_go_side_by_side(table: Table) -> None:
    table.make()
    table.add("a", "a", "b")
    box = table.box(fifo_group=None, group="target")
    async with table.feed(box.group("a")) as feed:
        assert [row.raw for row in await take(feed, 10)] == ["a1", "a2"]
        await nothing(feed)
    async with table.feed(box.prefix("b")) as feed:
        assert [row.raw for row in await take(feed, 10)] == ["b3"]


@on_loop
async def test_a_table_without_groups(table: Table) -> None:
    table.make()
    table.add("a", "a")
    async with table.feed(table.box(fifo_group=None)) as feed:
        assert [row.raw for row in await take(feed, 10)] == ["a1", "a2"]


@on_loop
async def test_addresses_take_their_groups_only(table: Table) -> None:
    table.make()
    table.add("a", "crm/1", "crm/2", "b")
    box = table.box()
    async with table.feed(box.prefix("crm/")) as feed:
        assert [row.group_id for row in await take(feed, 10)] == ["crm/1", "crm/2"]
    async with table.feed(box.groups(["b", "none", "crm/1"])) as feed:
        assert [row.group_id for row in await take(feed, 10)] == ["b"]
    async with table.feed(box.group("a")) as feed:
        assert [row.group_id for row in await take(feed, 10)] == ["a"]


@on_loop
async def test_turns_are_fair(table: Table) -> None:
    table.make()
    table.add(*"abcabc")
    async with table.feed() as feed:
        served = []
        for _ in range(6):
            (row,) = await take(feed)
            served.append(row.group_id)
            await feed.settle(row, Ack())
        assert served == list("abcabc")


@on_loop
async def test_a_row_that_enters_ahead_waits(table: Table) -> None:
    table.make()
    table.add("a", prio=5)
    async with table.feed() as feed:
        (row,) = await take(feed)
        table.add("a", prio=1, payload="ahead")
        await nothing(feed)
        await feed.settle(row, Retry())
        assert await drain(feed) == ["ahead", "a1"]


@on_loop
async def test_two_feeds_take_a_row_once(table: Table) -> None:
    table.make()
    table.add(*[f"g{number}" for number in range(40)])
    async with table.feed() as one, table.feed(worker_id="other") as other:
        claims = [feed.claim_next(8) for _ in range(5) for feed in (one, other)]
        found = [row.id for claim in claims for row in await soon(claim, "a claim beside others")]
        assert len(found) == len(set(found))
        rest = await one.claim_next(100)
        assert sorted([*found, *(row.id for row in rest)]) == list(range(1, 41))


@on_loop
async def test_a_late_settlement_is_lost(table: Table) -> None:
    table.make()
    table.add("a", "a")
    async with table.feed(visibility=0.3) as slow, table.feed(worker_id="other") as other:
        (row,) = await take(slow)
        (taken,) = await take(other)
        assert (taken.id, taken.attempts) == (row.id, 2)
        with pytest.raises(LeaseLost, match=f"row 1 of table {table.name}"):
            await slow.settle(row, Ack())
        assert await slow.extend([row], 30.0) == [row]
        assert await other.extend([taken], 60.0) == []
        assert taken.remaining() > 50
        await other.settle(taken, Ack())
        with pytest.raises(LeaseLost):
            await other.settle(taken, Ack())
        assert len(table.rows()) == 1


@on_loop
async def test_lapsed_and_not_claimed_again_still_settles(table: Table) -> None:
    table.make()
    table.add("a")
    async with table.feed(visibility=0.05) as feed:
        (row,) = await take(feed)
        await asyncio.sleep(0.1)
        assert row.remaining() == 0
        await feed.settle(row, Ack())
    assert table.rows() == []


@on_loop
async def test_giving_back_spends_no_attempt(table: Table) -> None:
    table.make()
    table.add("a")
    async with table.feed() as feed:
        (row,) = await take(feed)
        await feed.give_back(row)
        assert table.rows("attempt,locked_until,token") == [(0, None, None)]
        (again,) = await take(feed)
        assert again.attempts == 1


@on_loop
async def test_a_cancelled_claim_gives_back_what_came(table: Table) -> None:
    table.make()
    async with table.feed() as feed:

        async def hold() -> None:
            await feed.claim(1)

        waiting = asyncio.create_task(hold())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait((waiting,))
        table.add("a")
        claim = feed.claim(1)
        await asyncio.wait((claim,), timeout=20)
        assert claim.done(), "the claim of a row that was inserted"
        del claim
        (row,) = await take(feed)
        assert row.attempts == 1


@on_loop
async def test_a_waiting_claim_wakes_at_a_publish(table: Table) -> None:
    table.make()
    box = table.box()
    async with table.feed(box.group("crm"), max_poll=30.0) as feed:
        waiting = feed.claim(1)
        await asyncio.sleep(0.3)
        await feed._transport.publish_to(box.group("crm"), {"n": 1}, priority=3, headers={"trace": "x", "n": 2})
        (row,) = await soon(waiting, "a claim woken by a publish")
        assert row.raw == '{"n":1}'
        assert row.headers == {"trace": "x", "n": 2}
        assert row.row["prio"] == 3
        await feed._transport.publish_to(box.group("crm"), b"\x00\xff", retry_after=0.2)
        await feed.settle(row, Ack())
        (row,) = await take(feed)
        assert row.raw == b"\x00\xff"


@on_loop
async def test_idle_writes_nothing(table: Table) -> None:
    table.make()
    async with table.feed(max_poll=0.05) as feed:
        await nothing(feed)
        before = table.database.entries()
        waiting = feed.claim(1)
        await asyncio.sleep(0.5)
        assert not waiting.done()
        assert table.database.entries() == before
        waiting.cancel()


@on_loop
async def test_text_ids_and_odd_values(table: Table) -> None:
    table.make(
        "CREATE TABLE {table}(id TEXT PRIMARY KEY, target TEXT, locked_until REAL, attempt INT, payload, extra REAL)"
    )
    values = [
        ("X'61'", "X'62'", "x'63'", 0.1),
        ("it's", "it's", "it's ¿\n\0'", 1e300),
        ("3", "7", b"\xff\x00'", None),
    ]
    for identity, group, payload, extra in values:
        # Bound through a CAST: rqlite takes some texts for blobs.
        parameters = [identity.encode(), group.encode()]
        body = payload.encode() if isinstance(payload, str) else payload
        cast = "CAST(? AS TEXT)" if isinstance(payload, str) else "?"
        bound = [list(one) if table.engine != "embedded" else one for one in (*parameters, body)]
        table.database.execute(
            f"INSERT INTO {table.name}(id,target,payload,extra) VALUES(CAST(? AS TEXT),CAST(? AS TEXT),{cast},?)",
            (*bound, extra),
        )
    box = Inbox.describe(
        table.name, id="id", fifo_group="target", locked_until="locked_until", attempt="attempt", payload="payload"
    )
    async with table.feed(box) as feed:
        rows = await take(feed, 10)
        assert sorted((row.id, row.group_id, row.raw, row.row["extra"]) for row in rows) == sorted(values)
        # No token column: the end of the lease proves it.
        assert len({row.token for row in rows}) == 1
        assert await feed.extend(rows, 60.0) == []
        await asyncio.gather(*(feed.settle(row, Ack()) for row in rows[1:]))
        await feed.settle(rows[0], Retry(0.2))
        (again,) = await take(feed)
        assert again.id == rows[0].id
        assert again.attempts == 2
    async with table.feed(box, visibility=0.2) as slow, table.feed(box) as other:
        await feed_back(table, again.id)
        (late,) = await take(slow)
        (taken,) = await take(other)
        with pytest.raises(LeaseLost):
            await slow.settle(late, Ack())
        await other.settle(taken, Ack())
    assert table.rows() == []


async def feed_back(table: Table, identity: str) -> None:
    """End a lease by plain SQL."""
    table.database.execute(f"UPDATE {table.name} SET locked_until=NULL", ())


@dataclass
class IsoJob:
    id: Annotated[int, Id(generated=True)]
    target: Annotated[str, Group(fifo=True)]
    due: Annotated[datetime | None, RetryAt]
    held: Annotated[datetime | None, LockedUntil]
    payload: Annotated[str, Payload]
    done: Annotated[datetime | None, ProcessedAt]
    attempt: Annotated[int, Attempt] = 0
    note: str = "none"
    made: Annotated[str, Column(generated=True)] = ""


@on_loop
async def test_times_as_iso_text_and_the_declared_class(table: Table) -> None:
    table.make(
        "CREATE TABLE {table}(id INTEGER PRIMARY KEY, target TEXT, due TEXT, held TEXT, payload TEXT, done TEXT, "
        "attempt INT, note TEXT, made TEXT DEFAULT 'today')"
    )
    box = Inbox(IsoJob, table=table.name)
    async with table.feed(box) as feed, table.feed(box) as other:
        await feed._transport.publish_to(box.group("a"), [1])
        await feed._transport.publish_to(box.group("a"), [2], retry_after=0.2)
        (row,) = await take(feed)
        job = row.row
        assert isinstance(job, IsoJob)
        assert (job.payload, job.note, job.made, job.done) == ("[1]", "none", "today", None)
        assert isinstance(job.held, datetime)
        assert abs(job.held.timestamp() - row.expires_at) < 1e-5
        assert await feed.extend([row], 90.0) == []
        assert table.rows("held")[0][0].endswith("Z")
        await nothing(other)
        await feed.settle(row, Ack())
        (second,) = await take(other)
        assert second.raw == "[2]"
        await other.settle(second, RetryAfter(0.1))
        (second,) = await take(other)
        await other.settle(second, Ack())
    assert [len(done) for (done,) in table.rows("done")] == [27, 27]


@on_loop
async def test_what_commits_with_an_ack(table: Table) -> None:
    table.make()
    table.make("CREATE TABLE {table}(x)", f"{table.name}_own")
    table.add("a", "b", "c")
    insert = f"INSERT INTO {table.name}_own VALUES(?)"
    async with table.feed(visibility=0.3) as slow, table.feed() as feed:
        (a, b) = await take(slow, 2)
        rows = await take(feed, 1)
        while len(rows) < 3:
            rows += await take(feed, 3)
        with pytest.raises(LeaseLost):
            await slow.settle(a, Ack(publish=[("g", 1)], with_statements=[[insert, 1]]))
        mine = {row.id: row for row in rows}
        with pytest.raises(StatementError):
            await feed.settle(mine[b.id], Ack(with_statements=[[insert, 1], ["INSERT INTO none_such VALUES(1)"]]))
        assert table.database.sql(f"SELECT x FROM {table.name}_own", ()) == []
        await feed.settle(mine[a.id], Ack(publish=[("g", 1), ("g", 2)], with_statements=[[insert, 7]]))
        assert table.database.sql(f"SELECT x FROM {table.name}_own", ()) == [(7,)]
        lease = await feed._transport.claim()
        assert lease is not None
        assert lease.event == 1
        assert (await feed._transport.stats()).messages == 2
        # The refused one can be settled otherwise.
        await feed.settle(mine[b.id], Ack())
        assert len(table.rows()) == 1


@on_loop
async def test_dead_letters_to_a_group_and_to_a_table(table: Table) -> None:
    table.make()
    table.make(DDL, f"{table.name}_dead")
    table.add("a", "b", headers='{"trace":1}')
    dead = Inbox.describe(
        f"{table.name}_dead",
        id=Column("id", generated=True),
        fifo_group="target",
        locked_until="locked_until",
        payload="payload",
    )
    async with table.feed(dead_letter="dead") as feed:
        a, b = await take(feed, 2)
        await feed.bury(a, "too often", "ValueError: \ud800 odd")
        assert table.rows("target,attempt,locked_until,token")[0] == ("dead", 1, None, None)
        await nothing(feed)
        await feed.give_back(b)
    async with table.feed(table.box().group("dead")) as feed:
        (row,) = await take(feed)
        assert row.headers == {"trace": 1, "dead_reason": "too often", "dead_error": "ValueError: ? odd"}
        await feed.settle(row, Ack())
    async with table.feed(dead_letter=dead) as feed:
        (b,) = await take(feed)
        await feed.bury(b, "too often", None)
    assert table.rows() == []
    found = table.database.sql(f"SELECT target,payload,attempt,locked_until,token FROM {table.name}_dead", ())
    assert found == [("b", found[0][1], 1, None, None)]


@on_loop
async def test_without_retry_at_a_row_goes_again_at_once_and_it_is_said_once(table: Table) -> None:
    table.make()
    table.add("a")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("rqfast").addHandler(handler)
    try:
        async with table.feed(table.box(retry_at=None)) as feed:
            for _ in range(3):
                (row,) = await take(feed)
                await feed.settle(row, RetryAfter(3600.0))
    finally:
        logging.getLogger("rqfast").removeHandler(handler)
    assert len([one for one in records if "retry_at" in one]) == 1


@on_loop
async def test_what_is_missing_is_named(table: Table) -> None:
    async with table.feed() as feed:
        with pytest.raises(SchemaError, match=f"no table {table.name} .* column id"):
            await feed.check()
        with pytest.raises(SchemaError, match="no table"):
            await feed.claim(1)
        table.make(DDL.replace("attempt INT,", ""))
        with pytest.raises(SchemaError, match=f"table {table.name} has no column attempt"):
            await feed.check()


@on_loop
async def test_missing_indexes_are_told_with_the_statements_that_make_them(table: Table) -> None:
    table.make()
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("rqfast").addHandler(handler)
    try:
        async with table.feed(table.box(processed_at="done")) as feed:
            await feed.check()
            statements = [one.partition("make it with: ")[2] for one in records if "make it with: " in one]
            assert len(statements) == 2
            for statement in statements:
                table.database.execute(statement, ())
            records.clear()
            await feed.check()
            assert records == []
    finally:
        logging.getLogger("rqfast").removeHandler(handler)


@on_loop
async def test_a_busy_feed_makes_one_commit_of_many_calls(table: Table) -> None:
    table.make(DDL, None, CLAIM, LOCK)
    table.add(*[f"g{number % 20}" for number in range(40)])
    async with table.feed() as feed:
        rows = await take(feed, 20)
        before = table.database.entries()
        settled = asyncio.gather(*(feed.settle(row, Ack()) for row in rows))
        more = await feed.claim_next(20)
        await settled
        assert len(more) == 20
        assert table.database.entries() - before == 1


@on_loop
async def test_groups_behind_thousands_that_wait_are_found(table: Table) -> None:
    table.make(DDL, None, CLAIM, LOCK)
    table.database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 10001 UNION ALL SELECT i+1 FROM n WHERE i<22000) "
        f"INSERT INTO {table.name}(target,retry_at,payload) SELECT 'g'||i, iif(i IN (10002,21999),NULL,9e9), i FROM n",
        (),
    )
    async with table.feed() as feed:
        for _ in range(2):
            (row,) = await take(feed)
            assert row.raw in (10002, 21999)
            await feed.settle(row, Ack())
        await nothing(feed)
        table.add("g", payload="first")
        (row,) = await take(feed)
        assert row.raw == "first"


@on_loop
async def test_a_claim_cancelled_in_flight_leaves_nothing_behind(table: Table) -> None:
    table.make()
    table.add(*[f"g{number}" for number in range(30)])
    async with table.feed() as feed:
        await feed.check()
        for turn in range(10):
            claims = [feed.claim(2), feed.claim_next(1)]
            for _ in range(turn):
                await asyncio.sleep(0)
            for claim in claims:
                claim.cancel()
            del claims, claim
        rows = await take(feed, 30)
        while len(rows) < 30:
            rows += await take(feed, 30)
        assert {row.attempts for row in rows} == {1}


def test_the_blocking_transport_publishes_and_wakes(table: Table) -> None:
    table.make()
    box = table.box()

    async def wait() -> Any:
        async with table.feed(box, max_poll=30.0) as feed:
            waiting = feed.claim(1)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(publish)
            (row,) = await soon(waiting, "a claim woken from a thread")
            return row.raw

    def publish() -> None:
        with connect(table.database.url, queue=table.queue) as transport:
            transport.publish_to(box.group("a"), "text", priority=1)

    assert asyncio.run(wait()) == '"text"'


def test_the_command_tells_what_is_missing(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"shop_{table.name}"
    (tmp_path / f"{module}.py").write_text(
        "from rqfast.address.inbox import Inbox\n"
        f"jobs = Inbox.describe({table.name!r}, id='id', fifo_group='target', locked_until='locked_until', "
        "payload='payload')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["inbox", "check", f"{module}:jobs", "--url", table.database.url]
    if table.engine == "embedded":
        table.database.sql("SELECT 1", ())
    missing = CliRunner().invoke(make_app(), arguments)
    assert missing.exit_code == 1
    assert f"no table {table.name}" in missing.output
    table.make()
    found = CliRunner().invoke(make_app(), arguments)
    assert found.exit_code == 1
    statements = [line for line in found.output.splitlines() if line.startswith("CREATE INDEX")]
    assert len(statements) == 2
    for statement in statements:
        table.database.execute(statement.rstrip(";"), ())
    complete = CliRunner().invoke(make_app(), arguments)
    assert complete.exit_code == 0, complete.output
    assert "target" in complete.output


@on_loop
async def test_columns_that_take_no_null(table: Table) -> None:
    table.make(
        "CREATE TABLE {table}(id INTEGER PRIMARY KEY, target INTEGER NOT NULL, locked_until REAL NOT NULL DEFAULT 0, "
        "token TEXT NOT NULL DEFAULT '', payload TEXT NOT NULL)"
    )
    roles: dict[str, Any] = {"priority": None, "retry_at": None, "attempt": None, "headers": None}
    box = table.box(**roles)
    async with table.feed(box.group("7")) as feed:
        await feed._transport.publish_to(box.group("7"), 1)
        (row,) = await take(feed)
        assert (row.group_id, row.attempts) == ("7", 1)
        await feed.settle(row, Retry())
        (row,) = await take(feed)
        await feed.give_back(row)
        assert table.rows("locked_until,token") == [(0, "")]
        assert await drain(feed) == ["1"]


def test_a_loop_that_ends_ends_the_waiting(table: Table) -> None:
    table.make()

    async def leave() -> None:
        transport = await connect_async(table.database.url, queue=table.queue)
        feed = InboxFeed(table.box(), transport, worker_id="w", visibility=30.0)
        waiting.append(feed.claim(1))
        await asyncio.sleep(0.1)
        tasks.append(transport.close())

    waiting: list[Any] = []
    tasks: list[Any] = []
    asyncio.run(leave())
    assert waiting[0].cancelled()
