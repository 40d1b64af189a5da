"""Workers on the user's own table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from rqfast import (
    Ack,
    Attempt,
    Column,
    Context,
    Dead,
    Group,
    Headers,
    Id,
    Inbox,
    LockedUntil,
    Outcome,
    Payload,
    Priority,
    ProcessedAt,
    Retry,
    RetryAfter,
    RetryAt,
    SchemaError,
    Token,
    Worker,
)
from tests.contract.views import Clock, queue_name
from tests.subscriptions.place import Place, run, serving, until

FULL = """
CREATE TABLE {t}(id INTEGER PRIMARY KEY, target TEXT NOT NULL, prio INT NOT NULL DEFAULT 0, retry_at REAL,
    attempt INT NOT NULL DEFAULT 0, locked_until REAL, token TEXT, payload TEXT, headers TEXT, processed_at REAL);
CREATE INDEX {t}_claim ON {t}(target, prio, retry_at) WHERE processed_at IS NULL;
CREATE INDEX {t}_lock ON {t}(target, locked_until) WHERE locked_until IS NOT NULL;
"""
BARE = """
CREATE TABLE {t}(id INTEGER PRIMARY KEY, target TEXT NOT NULL, attempt INT NOT NULL DEFAULT 0, locked_until REAL,
    payload TEXT);
CREATE INDEX {t}_claim ON {t}(target);
CREATE INDEX {t}_lock ON {t}(target, locked_until) WHERE locked_until IS NOT NULL;
"""


@dataclass
class Job:
    """A row of the full table."""

    id: Annotated[int, Id(generated=True)]
    target: Annotated[str, Group(fifo=True)]
    prio: Annotated[int, Priority]
    retry_at: Annotated[float | None, RetryAt]
    attempt: Annotated[int, Attempt]
    locked_until: Annotated[float | None, LockedUntil]
    token: Annotated[str | None, Token]
    payload: Annotated[str, Payload]
    headers: Annotated[str | None, Headers]
    processed_at: Annotated[float | None, ProcessedAt]


class Tables:
    """Tables of one test, with workers on them."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.name = "jobs_" + queue_name()
        self.made = [self.name]

    def worker(self, ddl: str, **options: Any) -> Worker:
        """A worker whose start-up hook makes the table."""
        worker = self.place.worker(**options)

        @worker.on_startup
        async def make(db: Any) -> None:
            if not await db.query("SELECT 1 FROM sqlite_master WHERE name=?", self.name):
                await db.execute(ddl.format(t=self.name))

        return worker

    def full(self) -> Inbox:
        """As declared by the class."""
        return Inbox(Job, table=self.name)

    def bare(self, **roles: Any) -> Inbox:
        """By hand: neither priority nor retry time nor token."""
        return Inbox.describe(
            self.name,
            id=Column("id", generated=True),
            attempt=Column("attempt", generated=True),
            locked_until="locked_until",
            payload="payload",
            **roles,
        )

    def insert(self, *rows: dict[str, Any]) -> None:
        """By plain SQL, as any other program does."""
        for row in rows:
            names, places = ",".join(row), ",".join("?" * len(row))
            self.place.execute(f"INSERT INTO {self.name}({names}) VALUES({places})", *row.values())

    def rows(self, columns: str = "payload") -> list[Any]:
        """What is in the table."""
        return self.place.sql(f"SELECT {columns} FROM {self.name} ORDER BY id")

    def drop(self) -> None:
        """Leave nothing on a server that others use."""
        for table in self.made:
            self.place.execute(f"DROP TABLE IF EXISTS {table}")


@pytest.fixture
def tables(place: Place) -> Any:
    """On each engine."""
    made = Tables(place)
    yield made
    made.drop()


def collecting(outcome: Callable[[Any, Context], Outcome | None] = lambda payload, ctx: None) -> tuple[list[Any], Any]:
    """What a handler got, and the handler."""
    seen: list[Any] = []

    async def handle(payload: Any, ctx: Context) -> Outcome | None:
        seen.append(payload)
        return outcome(payload, ctx)

    return seen, handle


def test_published_and_inserted_rows_are_worked_alike(tables: Tables) -> None:
    async def scenario() -> None:
        seen, handle = collecting()
        crm = tables.full().group("crm")
        worker = tables.worker(FULL)
        worker.subscriber(crm, name="crm")(handle)
        async with serving(worker):
            await worker.publish(crm, {"n": 1}, headers={"source": "address"})
            tables.insert({"target": "crm", "payload": '{"n": 2}'})
            await until(lambda: len(seen) == 2, "both rows")
            await until(lambda: worker.counts.acked == 2, "both acks")
        assert seen == [{"n": 1}, {"n": 2}]
        # Marked, not deleted; unlocked; one attempt each.
        rows = tables.rows("processed_at IS NOT NULL, locked_until, token, attempt")
        assert rows == [(1, None, None, 1), (1, None, None, 1)]

    run(scenario())


def test_finished_rows_are_never_head(tables: Tables) -> None:
    async def scenario() -> None:
        seen, handle = collecting()
        worker = tables.worker(FULL)
        worker.subscriber(tables.full())(handle)
        async with serving(worker):
            tables.insert(
                {"target": "a", "payload": "1", "processed_at": 5.0, "locked_until": 9e12},
                {"target": "a", "payload": "2"},
            )
            await until(lambda: seen == [2], "the row that is not finished")

    run(scenario())


def test_retry_after_moves_among_its_own_priority_only(tables: Tables) -> None:
    async def scenario() -> None:
        seen, handle = collecting(lambda payload, ctx: RetryAfter(0.4) if payload == 1 and ctx.attempt == 1 else None)
        worker = tables.worker(FULL)
        worker.subscriber(tables.full())(handle)
        tables.place.execute(FULL.format(t=tables.name).split(";")[0])
        tables.insert(
            {"target": "a", "payload": "1", "prio": 1},
            {"target": "a", "payload": "2", "prio": 1},
            # Due, and behind the rows of smaller priority, also while their head is not due.
            {"target": "a", "payload": "3", "prio": 2},
        )
        async with serving(worker):
            await until(lambda: len(seen) == 4, "four deliveries")
        assert seen == [1, 2, 1, 3]

    run(scenario())


def test_a_table_without_a_retry_time_retries_at_once_and_warns_once(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        seen, handle = collecting(lambda payload, ctx: RetryAfter(60) if ctx.attempt == 1 else None)
        worker = tables.worker(BARE)
        worker.subscriber(tables.bare(fifo_group="target"))(handle)
        async with serving(worker):
            tables.insert({"target": "a", "payload": "1"}, {"target": "b", "payload": "2"})
            await until(lambda: worker.counts.acked == 2, "both rows")
        assert sorted(seen) == [1, 1, 2, 2]

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert len([one for one in caplog.messages if "RetryAfter" in one]) == 1


def test_exclusive_groups_run_one_row_at_a_time_and_a_failing_row_holds_nobody(tables: Tables) -> None:
    async def scenario() -> None:
        at_once: dict[str, int] = {"a": 0, "b": 0}
        seen: list[Any] = []
        worker = tables.worker(BARE, concurrency=6)

        @worker.subscriber(tables.bare(exclusive_group="target"))
        async def handle(payload: int, ctx: Context) -> Outcome | None:
            at_once[ctx.group] += 1
            assert at_once[ctx.group] == 1, f"two rows of group {ctx.group} in work"
            await asyncio.sleep(0.005)
            at_once[ctx.group] -= 1
            seen.append(payload)
            return Retry() if payload == 1 and ctx.attempt < 4 else None

        async with serving(worker):
            tables.insert(*({"target": "ab"[n % 2], "payload": str(n)} for n in range(1, 9)))
            await until(lambda: worker.counts.acked == 8, "eight rows")
        # Row 1 of group b failed three times, and others of its group went meanwhile.
        assert seen.count(1) == 4 and seen.index(3) < len(seen) - 1 - seen[::-1].index(1)

    run(scenario())


def test_a_row_entering_ahead_waits(tables: Tables) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        go_on = asyncio.Event()
        worker = tables.worker(FULL, concurrency=4)

        @worker.subscriber(tables.full())
        async def handle(payload: int) -> None:
            seen.append(payload)
            if payload == 1:
                await go_on.wait()

        async with serving(worker):
            tables.insert({"target": "a", "payload": "1", "prio": 5})
            await until(lambda: seen == [1], "the first row")
            tables.insert({"target": "a", "payload": "2", "prio": 1}, {"target": "b", "payload": "3"})
            await until(lambda: 3 in seen, "a row of another group")
            await asyncio.sleep(0.3)
            assert seen == [1, 3], "a row was worked beside another of its group"
            go_on.set()
            await until(lambda: seen == [1, 3, 2], "the row that came ahead")

    run(scenario())


@pytest.mark.parametrize("ddl", [FULL, BARE], ids=["token", "no token"])
def test_two_workers_take_each_row_once(tables: Tables, ddl: str) -> None:
    async def scenario() -> None:
        seen, handle = collecting()
        workers = [tables.worker(ddl, name=f"w{n}", concurrency=8) for n in range(2)]
        inbox = tables.full() if ddl is FULL else tables.bare(fifo_group="target")
        for worker in workers:
            worker.subscriber(inbox)(handle)
        async with serving(workers[0]), serving(workers[1]):
            tables.insert(*({"target": f"g{n % 7}", "payload": str(n)} for n in range(60)))
            await until(lambda: sum(worker.counts.acked for worker in workers) == 60, "sixty rows")
        assert sorted(seen) == list(range(60))
        for group in range(7):
            assert [n for n in seen if n % 7 == group] == list(range(group, 60, 7))

    run(scenario())


def test_plain_groups_and_no_group_at_all_go_side_by_side(tables: Tables) -> None:
    async def scenario() -> None:
        at_once, most = 0, 0
        worker = tables.worker(BARE, concurrency=5)

        @worker.subscriber(tables.bare())
        async def handle(payload: int) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.1)
            at_once -= 1

        async with serving(worker):
            tables.insert(*({"target": "a", "payload": str(n)} for n in range(10)))
            await until(lambda: worker.counts.acked == 10, "ten rows")
        assert most > 1

    run(scenario())


def test_the_cap_moves_a_row_to_another_group_and_the_group_goes_on(tables: Tables) -> None:
    async def scenario() -> None:
        seen: list[Any] = []
        worker = tables.worker(FULL)

        @worker.subscriber(tables.full().group("crm"), max_attempts=2, dead_letter="crm-dead")
        async def handle(payload: Any, ctx: Context) -> None:
            seen.append((payload, ctx.attempt))
            if payload == 1:
                raise ValueError("no such customer")

        async with serving(worker):
            tables.insert({"target": "crm", "payload": "1"}, {"target": "crm", "payload": "2"})
            await until(lambda: worker.counts.acked == 1, "the row behind")
        assert seen == [(1, 1), (1, 2), (2, 1)]
        ((target, headers),) = tables.place.sql(f"SELECT target, headers FROM {tables.name} WHERE processed_at IS NULL")
        assert target == "crm-dead" and "ValueError: no such customer" in headers and "2 attempts" in headers

    run(scenario())


def test_dead_letters_in_another_table(tables: Tables) -> None:
    async def scenario() -> None:
        dead = tables.name + "_dead"
        tables.made.append(dead)
        worker = tables.worker(BARE + BARE.format(t=dead).replace("{", "{{"))
        others = Inbox.describe(
            dead,
            id=Column("id", generated=True),
            fifo_group="target",
            attempt="attempt",
            locked_until="locked_until",
            payload="payload",
        )

        @worker.subscriber(tables.bare(fifo_group="target"), max_attempts=1, dead_letter=others)
        async def handle(payload: int) -> Outcome | None:
            return Dead("by hand") if payload == 1 else None

        async with serving(worker):
            tables.insert({"target": "crm", "payload": "1"}, {"target": "crm", "payload": "2"})
            await until(lambda: worker.counts.acked == 1 and worker.counts.dead == 1, "both rows")
        assert tables.rows() == []
        assert tables.place.sql(f"SELECT target, payload, attempt, locked_until FROM {dead}") == [("crm", "1", 1, None)]

    run(scenario())


def test_what_an_ack_sends_on_and_writes_commits_with_it(tables: Tables) -> None:
    async def scenario() -> None:
        handed: list[Any] = []
        log_table = tables.name + "_log"
        tables.made.append(log_table)
        worker = tables.worker(FULL + f"CREATE TABLE {log_table}(n INT);")

        @worker.subscriber(tables.full(), name="rows", max_attempts=3, dead_letter="given-up")
        async def handle(payload: int, ctx: Context) -> Outcome:
            if payload == 2:
                # Does not prepare: nothing of it may happen.
                return Ack(publish=[("next", payload)], with_statements=[["INSERT INTO no_such_table VALUES(1)"]])
            return Ack(publish=[("next", payload)], with_statements=[[f"INSERT INTO {log_table} VALUES(?)", payload]])

        @worker.subscriber(group="next", name="next")
        async def receive(payload: int) -> None:
            handed.append(payload)

        async with serving(worker):
            tables.insert(*({"target": "a", "payload": str(n)} for n in (1, 2, 3)))
            await until(lambda: len(handed) == 2, "what was handed on")
            await until(lambda: worker.counts.dead == 1, "the row that never succeeds")
        assert handed == [1, 3]
        assert tables.place.sql(f"SELECT n FROM {log_table}") == [(1,), (3,)]

    run(scenario())


def test_a_missing_column_stops_the_start_with_both_names(tables: Tables) -> None:
    async def scenario() -> None:
        worker = tables.worker(BARE)
        worker.subscriber(tables.full())(collecting()[1])
        with pytest.raises(SchemaError) as refused:
            await worker.serve()
        assert tables.name in str(refused.value) and "prio" in str(refused.value)
        other = tables.place.worker()
        other.subscriber(Inbox(Job, table="no_such_table"))(collecting()[1])
        with pytest.raises(SchemaError, match="no_such_table"):
            await other.serve()

    run(scenario())


def test_a_missing_index_is_told_with_the_statement_that_makes_it(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        worker = tables.worker(BARE.split(";")[0])
        worker.subscriber(tables.bare(fifo_group="target"))(collecting()[1])
        async with serving(worker):
            tables.insert({"target": "a", "payload": "1"})
            await until(lambda: worker.counts.acked == 1, "the row")

    with caplog.at_level(logging.WARNING):
        run(scenario())
    told = [one for one in caplog.messages if "CREATE INDEX" in one]
    assert len(told) == 2
    for text in told:
        # As it stands, it can be run.
        tables.place.execute("CREATE INDEX" + text.partition("CREATE INDEX")[2])


@pytest.mark.parametrize("ddl", [FULL, BARE], ids=["token", "no token"])
def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_row(tables: Tables, ddl: str) -> None:
    import time

    async def scenario() -> None:
        attempts: list[int] = []
        worker = tables.worker(ddl, visibility=0.5, concurrency=2)

        @worker.subscriber(tables.full() if ddl is FULL else tables.bare(fifo_group="target"))
        async def handle(payload: int, ctx: Context) -> None:
            attempts.append(ctx.attempt)
            time.sleep(1.6)  # noqa: ASYNC251 - what must not be done

        async with serving(worker):
            tables.insert({"target": "a", "payload": "1"})
            await until(lambda: worker.counts.acked == 1, "the ack")
            counts = worker.counts
        assert attempts == [1] and counts.lost == 0 and counts.extended >= 2

    run(scenario())


def test_clocks_that_differ_by_an_hour_change_nothing(embedded_place: Place) -> None:
    """Two workers count by the time in the database, not by their own."""
    tables = Tables(embedded_place)

    async def scenario() -> None:
        seen, handle = collecting()
        clock = Clock()
        early, late = (tables.worker(FULL, name=name, clock=clock, visibility=30) for name in ("early", "late"))
        for worker in (early, late):
            worker.subscriber(tables.full())(handle)
        async with serving(early), serving(late):
            tables.insert({"target": "a", "payload": "1"}, {"target": "a", "payload": "2"})
            await until(lambda: len(seen) == 2, "both rows")
            clock.advance(3600)
            tables.insert({"target": "a", "payload": "3"})
            await until(lambda: len(seen) == 3, "the third row")
        assert seen == [1, 2, 3]

    run(scenario())
