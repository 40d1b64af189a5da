"""What a worker must withstand: times before its twin has opened, stalls, extensions at once, failing hooks, stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rqfast import Column, ConfigError, Context, Inbox, Retry, Worker, connect_async
from rqfast.devserver import DevServer
from rqfast.transport.over_thread import AsyncSqliteTransport
from rqfast.transport.rqlite_async import AsyncRqliteTransport
from tests.contract.views import queue_name
from tests.subscriptions.place import Place, run, serving, until

TABLE = (
    "CREATE TABLE {table}(id INTEGER PRIMARY KEY, target {kind}, retry_at REAL, attempt INT NOT NULL DEFAULT 0, "
    "locked_until REAL, token TEXT, payload TEXT)",
    "CREATE INDEX {table}_claim ON {table}(target, retry_at)",
    "CREATE INDEX {table}_lock ON {table}(target, locked_until) WHERE locked_until IS NOT NULL",
)


class Jobs:
    """A table of jobs."""

    def __init__(self, place: Place, kind: str = "TEXT NOT NULL") -> None:
        self.place, self.name = place, f"jobs_{queue_name()}"
        for statement in TABLE:
            place.execute(statement.format(table=self.name, kind=kind))

    def box(self, token: bool = True) -> Inbox:
        """Its Inbox, with a token column or without."""
        return Inbox.describe(
            self.name,
            id=Column("id", generated=True),
            fifo_group="target",
            retry_at="retry_at",
            attempt="attempt",
            locked_until="locked_until",
            token="token" if token else None,
            payload="payload",
        )

    def add(self, *groups: str) -> None:
        """A row in each of these groups."""
        for group in groups:
            self.place.execute(f"INSERT INTO {self.name}(target, payload) VALUES(?, '1')", group)

    def fill(self, rows: int, groups: int) -> None:
        """Many rows."""
        self.place.execute(
            f"WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<{rows}) "
            f"INSERT INTO {self.name}(target, payload) SELECT 'g'||(x%{groups}), '1' FROM c"
        )

    def ends(self) -> list[float]:
        """When leases end."""
        found = self.place.sql(f"SELECT locked_until FROM {self.name} WHERE locked_until IS NOT NULL ORDER BY id")
        return [row[0] for row in found]


def has_acked(worker: Worker, count: int) -> bool:
    """Whether it has acknowledged so many."""
    return worker.counts.acked >= count


def test_the_first_extension_of_a_row_is_counted_by_the_clock_of_the_queue(place: Place) -> None:
    jobs = Jobs(place)
    jobs.add("a")

    async def scenario() -> None:
        worker = place.worker(visibility=1.0)

        @worker.subscriber(jobs.box())
        async def handle(payload: Any) -> None:
            await asyncio.sleep(1.2)

        seen: list[float] = []
        async with serving(worker):
            await until(lambda: worker.counts.claimed, "the claim")
            while ends := jobs.ends():
                seen += ends
                await asyncio.sleep(0.005)
        assert len(set(seen)) > 1
        assert seen == sorted(seen)

    run(scenario())


def test_a_row_published_through_a_transport_not_yet_open_is_due_when_it_should_be(place: Place) -> None:
    jobs = Jobs(place)

    async def scenario() -> None:
        kind: Any = AsyncSqliteTransport if place.engine == "embedded" else AsyncRqliteTransport
        transport = kind(place.url, queue=place.queue)
        await transport.publish_to(jobs.box().group("a"), 1, retry_after=60)
        due = place.sql(f"SELECT retry_at FROM {jobs.name}")[0][0]
        t = place.sql(f"SELECT t FROM {place.table('state')}")[0][0]
        await transport.close()
        assert 55 < due - t < 61

    run(scenario())


def test_what_was_claimed_before_a_stall_is_not_begun_after_it(place: Place) -> None:
    # Long enough for a loaded machine to extend the lease of the second worker.
    visibility = 1.5

    async def scenario() -> None:
        seen: list[tuple[str, str]] = []
        began = threading.Event()

        def declare(worker: Worker) -> None:
            async def handle(number: int, ctx: Context) -> None:
                seen.append((worker.name, ctx.group))
                if worker.name == "one" and not began.is_set():
                    began.set()
                    time.sleep(4 * visibility)  # noqa: ASYNC251 - the stall
                elif worker.name == "two":
                    await asyncio.sleep(6 * visibility)

            worker.subscriber(name="crm")(handle)

        one, two = (place.worker(name=name, visibility=visibility, concurrency=2) for name in ("one", "two"))
        declare(one)
        declare(two)
        async with place.connect() as transport:
            await transport.publish_many([("a", 1), ("b", 1)])
            running = [asyncio.create_task(asyncio.to_thread(one.run))]
            await until(began.is_set, "the first message")
            running.append(asyncio.create_task(asyncio.to_thread(two.run)))
            await until(lambda: one.counts.acked + two.counts.acked == 2, "both messages")
            for worker in (one, two):
                worker.stop()
            await asyncio.gather(*running)
        # The one that the first worker had not begun went to the second one, and to nobody else.
        assert sorted(seen)[0][0] == "one"
        assert len(seen) == 2

    run(scenario())


@pytest.mark.parametrize("token", [True, False])
def test_extensions_of_one_row_at_once_lose_nothing(place: Place, token: bool) -> None:
    jobs = Jobs(place)
    jobs.add("a")

    async def scenario() -> None:
        worker = place.worker(visibility=0.6)

        @worker.subscriber(jobs.box(token))
        async def handle(payload: Any, ctx: Context) -> None:
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                # So short that the worker's own extensions come between.
                extended: Any = (ctx.extend(0.3), ctx.extend(0.35))
                await asyncio.gather(*extended)

        async with serving(worker):
            await until(lambda: worker.counts.acked + worker.counts.lost + worker.counts.failed, "the outcome")
            assert (worker.counts.acked, worker.counts.lost, worker.counts.failed) == (1, 0, 0)

    run(scenario())


def test_a_stop_leaves_no_row_in_a_lease(place: Place) -> None:
    jobs = Jobs(place)
    jobs.fill(20_000, 200)

    async def scenario() -> None:
        for number in range(8):
            worker = place.worker(concurrency=8)

            @worker.subscriber(jobs.box(), name="w")
            async def handle(payload: Any) -> None:
                await asyncio.sleep(0.001)

            async with serving(worker):
                await until(partial(has_acked, worker, 4), "some rows")
                await asyncio.sleep(0.002 * number)
            assert jobs.ends() == []

    run(scenario())


def test_on_error_may_meet_something_cancelled(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker(concurrency=1)
        errors: list[BaseException] = []

        async def on_error(error: BaseException, ctx: Context) -> None:
            errors.append(error)
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

        @worker.subscriber(on_error=on_error)
        async def handle(number: int) -> None:
            if not errors:
                raise ValueError("the first time")

        async with place.connect() as transport, serving(worker):
            await transport.publish("a", 1)
            await until(lambda: worker.counts.acked, "the second time", 10)

    run(scenario())


def test_a_lost_lease_of_what_could_not_be_decoded_fails_nobody_else(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker(visibility=0.4)
        began = asyncio.Event()

        def decode(raw: str) -> int:
            return int(raw)

        @worker.subscriber(groups=["bad", "good"], batch=2, decode=decode, on_undecodable=Retry(60))
        async def handle(numbers: list[int]) -> None:
            began.set()
            await asyncio.sleep(1.0)

        async with place.connect() as transport:
            await transport.publish_many([("bad", "no number"), ("good", 1)])
            async with serving(worker):
                await until(began.is_set, "the batch")
                assert await transport.release("bad")
                await until(lambda: worker.counts.acked, "the good one")
                assert worker.counts.failed == 0

    run(scenario())


def test_a_subscription_that_fails_lets_the_handlers_of_others_end(place: Place) -> None:
    jobs = Jobs(place)
    ended: list[str] = []

    async def scenario() -> None:
        worker = place.worker(grace=10)

        @worker.subscriber(jobs.box())
        async def rows(payload: Any) -> None: ...

        @worker.subscriber(group="a")
        async def handle(number: int) -> None:
            ended.append("not")
            await asyncio.sleep(2)
            ended[0] = "well"

        async with place.connect() as transport:
            with contextlib.suppress(Exception):
                async with serving(worker) as (task,):
                    await transport.publish("a", 1)
                    await until(lambda: ended, "the handler")
                    place.execute(f"DROP TABLE {jobs.name}")
                    await until(task.done, "the worker")
        assert ended == ["well"]

    run(scenario())


@pytest.mark.parametrize("kind", ["TEXT", "INTEGER"])
def test_a_list_of_groups_is_served_in_turns_whatever_its_column_holds(place: Place, kind: str) -> None:
    jobs = Jobs(place, kind)
    for _ in range(8):
        jobs.add("1", "2", "3")

    async def scenario() -> None:
        seen: list[str] = []
        worker = place.worker(concurrency=1)

        @worker.subscriber(jobs.box().groups(["1", "2", "3"]))
        async def handle(payload: Any, ctx: Context) -> None:
            seen.append(ctx.group)

        async with serving(worker):
            await until(lambda: worker.counts.acked >= 6, "six rows")
        assert set(seen[:6]) == {"1", "2", "3"}

    run(scenario())


def test_a_worker_does_not_take_lost_leases_lightly(embedded_place: Place) -> None:
    with pytest.raises(ConfigError, match="lost='warn'"):
        embedded_place.worker(lost="warn")

    async def scenario() -> None:
        async with connect_async(embedded_place.url, lost="warn") as transport:
            with pytest.raises(ConfigError, match="lost='warn'"):
                Worker(transport)

    run(scenario())


def test_a_worker_says_that_its_database_is_away_and_when_it_is_back_though_no_message_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def told(text: str) -> bool:
        return any(text in one.getMessage() for one in caplog.records)

    async def scenario(server: DevServer) -> None:
        worker = Worker(server.url, grace=1, max_poll=0.1, timeout=1)

        @worker.subscriber(group="a", name="a")
        async def handle(number: int) -> None: ...

        async with serving(worker):
            server.close()
            await until(lambda: told("a: nothing could be claimed for 0 s"), "the line of the outage")
            with DevServer(tmp_path / "dev.db", server.port):
                await until(lambda: told("a: claims go on after "), "the line of its end")
                await worker.publish("a", 1)
                await until(lambda: worker.counts.acked == 1, "a message")

    with caplog.at_level(logging.WARNING, "rqfast.worker"), DevServer(tmp_path / "dev.db") as server:
        run(scenario(server))
