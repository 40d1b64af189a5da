"""`rqfast.testing`, as the author of a handler uses it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest

from rqfast import (
    Ack,
    Attempt,
    ConfigError,
    Context,
    Dead,
    Exponential,
    Group,
    Id,
    Inbox,
    LockedUntil,
    Payload,
    Retry,
    RetryAfter,
    RetryAt,
    RqfastError,
    Worker,
)
from rqfast.testing import BlockingTest, Clock, Handled, TestWorker
from rqfast.worker.database import Database
from tests.script import run_python

pytest_plugins = ["rqfast.testing.plugin"]

NOBODY = "http://nobody.invalid:4001"  # a test of handlers connects to nothing


def service(outcomes: dict[Any, Any] | None = None, **options: Any) -> Worker:
    """A worker whose handler says, at the first attempt, what stands for its payload; else Ack."""
    worker = Worker(NOBODY, name="crm-sync")

    @worker.subscriber(prefix="crm", name="sync", **options)
    async def sync(change: Any, ctx: Context) -> Any:
        outcome = (outcomes or {}).get(str(change))
        if isinstance(outcome, Exception) and ctx.attempt == 1:
            raise outcome
        return outcome if ctx.attempt == 1 else None

    return worker


# -- what handlers got ------------------------------------------------------------------------------------


def test_a_plain_test(test_worker: Any) -> None:
    worker = service()
    test = test_worker(worker)
    assert test.publish("crm", {"customer": 7}, headers={"by": "us"}) == 1
    test.assert_handled("sync", {"customer": 7}, attempts=[1], outcomes=[Ack()], count=1)
    assert test.handled == [Handled("sync", {"customer": 7}, "crm", 1, 1, Ack())]
    assert [(one.outcome, one.headers) for one in test.settled] == [("Ack", {"by": "us"})]
    assert test.counts.acked == 1
    assert test.transport.stats().messages == 0


def test_an_async_test() -> None:
    async def scenario() -> None:
        async with TestWorker(service()) as test:
            assert await test.publish("crm", {"customer": 7}) == 1
            test.assert_handled("sync", {"customer": 7})
            assert (await test.transport.stats()).messages == 0

    asyncio.run(scenario())


def test_plain_handlers_and_batches_and_handlers_that_change_what_they_get() -> None:
    worker = Worker(NOBODY)
    threads: list[int] = []

    @worker.subscriber(group="plain")
    def plain(change: dict[str, int], ctx: Context) -> Any:
        threads.append(threading.get_ident())
        change.clear()

    @worker.subscriber(prefix="many/", batch=8)
    async def many(changes: list[int]) -> list[Any]:
        return [Ack() if change else Dead("zero") for change in changes]

    with TestWorker(worker) as test:
        test.publish("plain", {"a": 1})
        test.assert_handled("plain", {"a": 1})
        assert threads != [threading.get_ident()]
        for number in range(4):
            test.publish(f"many/{number}", number)
        test.assert_handled("many", 0, 1, 2, 3, outcomes=[Dead("zero"), Ack(), Ack(), Ack()])


def test_deliveries_stand_in_the_order_in_which_they_began() -> None:
    async def scenario() -> None:
        worker = Worker(NOBODY)
        go, at_work = asyncio.Event(), asyncio.Event()

        @worker.subscriber()
        async def sync(what: str) -> None:
            if what == "slow":
                at_work.set()
                await go.wait()

        async with TestWorker(worker) as test:
            slow = asyncio.ensure_future(test.publish("a", "slow"))
            await at_work.wait()
            assert test.handled[0].outcome is None
            await test.publish("b", "quick")
            go.set()
            await slow
            test.assert_handled("sync", "slow", "quick", outcomes=[Ack(), Ack()])

    asyncio.run(scenario())


def test_what_a_handler_sends_on() -> None:
    worker = Worker(NOBODY)

    @worker.subscriber(group="orders")
    async def order(number: int) -> Ack:
        return Ack(publish=[("invoices", number), ("elsewhere", number)])

    @worker.subscriber(group="invoices")
    async def invoice(number: int) -> None:
        await worker.publish("mails", number)

    @worker.subscriber(group="mails")
    def mail(number: int) -> None: ...

    with TestWorker(worker) as test:
        test.publish("orders", 1)
        test.idle()
        test.assert_handled(None, 1, 1, 1)
        assert [one.subscription for one in test.handled] == ["order", "invoice", "mail"]
        # Nobody here serves it, so nobody waits for it.
        assert [message.event for message in test.transport.peek("elsewhere")] == [1]


# -- time -------------------------------------------------------------------------------------------------


def test_a_parked_message_holds_its_group_until_the_clock_is_moved() -> None:
    with TestWorker(service({"first": Retry(delay=60)})) as test:
        test.publish("crm", "first")
        test.publish("crm", "second")
        test.publish("crm/other", "third")
        test.assert_handled("sync", "first", "third")
        test.advance(59)
        test.assert_handled("sync", "first", "third")
        test.advance(1)
        test.assert_handled("sync", "first", "third", "first", "second", attempts=[1, 1, 2, 1])


def test_a_deferred_message_comes_behind_the_others() -> None:
    with TestWorker(service({"first": RetryAfter(60)})) as test:
        test.publish("crm", "first")
        test.publish("crm", "second")
        test.assert_handled("sync", "first", "second")
        test.advance(timedelta(minutes=1))
        test.assert_handled("sync", "first", "second", "first", attempts=[1, 1, 2])


@pytest.mark.parametrize("outcome", [Retry(), RetryAfter(0)])
def test_what_goes_again_at_once_is_waited_for(outcome: Any) -> None:
    with TestWorker(service({"first": outcome})) as test:
        test.publish("crm", "first")
        test.assert_handled("sync", "first", "first", outcomes=[outcome, Ack()])


def test_a_delayed_message() -> None:
    with TestWorker(service()) as test:
        test.publish("crm", "later", retry_after=30)
        test.assert_handled(count=0)
        test.advance(29.9)
        test.assert_handled(count=0)
        test.advance(0.1)
        test.assert_handled("sync", "later")


def test_the_clock_stops_at_each_retry_on_the_way() -> None:
    worker = Worker(NOBODY)
    seen: list[float] = []

    @worker.subscriber(group="crm", max_attempts=5, dead_letter=True, backoff=Exponential(first=10, factor=2, jitter=0))
    async def sync(change: int) -> None:
        seen.append(clock.now - start)
        raise ValueError("not yet")

    clock = Clock(1_000_000_000)
    start = clock.now
    with TestWorker(worker, clock=clock) as test:
        test.publish("crm", 1)
        test.advance(1000)
        assert [round(moment) for moment in seen] == [0, 10, 30, 70, 150]
        assert round(clock.now - start) == 1000
        (dead,) = test.transport.dead_letters()
        assert (dead.reason, dead.error) == ("failed after 5 attempts", "ValueError: not yet")


def test_the_lease_of_a_worker_that_crashed() -> None:
    worker = service()

    async def scenario() -> None:
        async with TestWorker(worker) as test:
            await worker.pause("sync")
            await test.publish("crm", "lost")  # its subscription is paused: nobody waits for it
            lease = await test.transport.claim("a worker that crashed", 30)
            assert lease is not None
            await worker.resume("sync")
            await test.publish("crm", "behind")
            await test.advance(29)
            test.assert_handled(count=0)
            await test.advance(1)
            test.assert_handled("sync", "lost", "behind", attempts=[2, 1])

    asyncio.run(scenario())


def test_a_handler_at_work_keeps_its_lease_while_the_clock_moves() -> None:
    async def scenario() -> None:
        worker = Worker(NOBODY, visibility=30)
        go, at_work = asyncio.Event(), asyncio.Event()

        @worker.subscriber(group="crm")
        async def sync(change: int, ctx: Context) -> None:
            at_work.set()
            await go.wait()
            assert not ctx.lease_lost and ctx.remaining() > 14

        async with TestWorker(worker) as test:
            working = asyncio.ensure_future(test.publish("crm", 1))
            await at_work.wait()
            await test.advance(300)
            assert test.counts.extended >= 19
            go.set()
            await working
            test.assert_handled("sync", 1, attempts=[1], outcomes=[Ack()])
            assert test.counts.lost == 0

    asyncio.run(scenario())


def test_a_handler_whose_lease_is_lost_is_cancelled() -> None:
    async def scenario() -> None:
        worker = Worker(NOBODY, visibility=30, concurrency=2)
        cancelled: list[bool] = []
        at_work = asyncio.Event()

        @worker.subscriber(group="crm")
        async def sync(change: int, ctx: Context) -> None:
            at_work.set()
            try:
                if ctx.attempt == 1:
                    await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(ctx.lease_lost)
                raise

        async with TestWorker(worker) as test:
            working = asyncio.ensure_future(test.publish("crm", 1))
            await at_work.wait()
            assert await test.transport.release("crm")
            await working
            await test.advance(30)
            assert cancelled == [True] and test.counts.lost == 1
            test.assert_handled("sync", 1, 1, attempts=[1, 2])

    asyncio.run(scenario())


# -- the worker -------------------------------------------------------------------------------------------


def test_hooks_run_and_handlers_write_into_the_database() -> None:
    worker = Worker(NOBODY)
    stopped: list[list[list[Any]]] = []

    @worker.on_startup
    async def schema(db: Database) -> None:
        await db.execute("CREATE TABLE done(number INTEGER PRIMARY KEY)")

    @worker.on_shutdown
    async def count(db: Database) -> None:
        stopped.append(await db.query("SELECT count(*) FROM done"))

    @worker.subscriber(group="crm")
    async def sync(number: int) -> Ack:
        return Ack(with_statements=[["INSERT INTO done VALUES(?)", number]])

    for _ in range(2):  # each on a database of its own
        with TestWorker(worker) as test:
            test.publish("crm", 7)
            assert test.database.query("SELECT number FROM done") == [[7]]
    assert stopped == [[[1]], [[1]]]


def test_the_worker_is_not_changed_and_serves_many_tests() -> None:
    worker = service()
    before = (list(worker.subscriptions), worker.hooks, dict(worker.options))
    handler, signature = worker.subscriptions[0].handler, worker.subscriptions[0].signature
    for number in range(3):
        with TestWorker(worker) as test:
            test.publish("crm", number)
            test.assert_handled("sync", number)
            with pytest.raises(RqfastError, match="runs already"), TestWorker(worker):
                pass
            with pytest.raises(RqfastError, match="runs already"):
                worker.run()
    assert before == (worker.subscriptions, worker.hooks, worker.options)
    assert (worker.subscriptions[0].handler, worker.subscriptions[0].signature) == (handler, signature)
    with pytest.raises(RqfastError, match="does not run"):
        asyncio.run(worker.publish("crm", 1))


def test_what_is_about_the_queue_is_that_of_the_worker() -> None:
    worker = Worker(NOBODY, queue="orders", timeout=3, encode=lambda event: f'"{event}!"')
    seen: list[str] = []
    worker.subscriber()(seen.append)
    with TestWorker(worker) as test:
        test.publish("crm", "hello")
        assert seen == ["hello!"]
        assert test.transport.queues() == ["orders"]


# -- tables of the user's own -----------------------------------------------------------------------------

TABLE = """CREATE TABLE jobs(id INTEGER PRIMARY KEY, target TEXT, attempt INT, locked_until {time}, retry_at {time},
    payload BLOB, done_at REAL)"""


@dataclass
class Job:
    """A row."""

    id: Annotated[int, Id(generated=True)]
    target: Annotated[str, Group(fifo=True)]
    attempt: Annotated[int, Attempt(generated=True)]
    locked_until: Annotated[float | None, LockedUntil]
    retry_at: Annotated[float | None, RetryAt]
    payload: Annotated[bytes, Payload]


@dataclass
class JobWithText(Job):
    """The same with times as text."""

    locked_until: Annotated[datetime | None, LockedUntil]  # type: ignore[assignment]
    retry_at: Annotated[datetime | None, RetryAt]  # type: ignore[assignment]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("row", [Job, JobWithText])
def test_a_table(row: type) -> None:
    worker = Worker(NOBODY)
    jobs = Inbox(row, table="jobs")
    outcomes = {"parked": Retry(delay=60), "later": RetryAfter(90)}

    @worker.on_startup
    async def schema(db: Database) -> None:
        await db.execute(TABLE.format(time="TEXT" if row is JobWithText else "REAL"))

    @worker.subscriber(jobs)
    async def sync(what: str, ctx: Context) -> Any:
        return outcomes.get(what) if ctx.attempt == 1 else None

    with TestWorker(worker) as test:
        for what in ("parked", "behind"):
            assert test.publish(jobs.group("crm"), what) is None
        test.publish(jobs.group("erp"), "later")
        test.publish(jobs.group("wms"), "delayed", retry_after=30)
        test.assert_handled("sync", "parked", "later")
        test.advance(29)
        test.assert_handled("sync", "parked", "later")
        test.advance(1)
        test.assert_handled("sync", "parked", "later", "delayed")
        test.advance(60)
        test.assert_handled("sync", "parked", "later", "delayed", "parked", "behind", "later")
        assert [one.attempt for one in test.handled] == [1, 1, 1, 2, 1, 2]
        assert test.database.query("SELECT count(*) FROM jobs") == [[0]]
        assert test.transport.queues() == ["inbox"]  # the table is all there is
        with pytest.raises(ConfigError, match="serves group 'x' of table others"):
            test.publish(Inbox(row, table="others").group("x"), 1)


# -- failures ---------------------------------------------------------------------------------------------


def test_a_handler_that_never_ends() -> None:
    async def scenario() -> None:
        worker = Worker(NOBODY, grace=0)

        @worker.subscriber(group="crm")
        async def sync(change: int) -> None:
            await asyncio.Event().wait()

        async with TestWorker(worker, timeout=0.2) as test:
            with pytest.raises(TimeoutError, match=r"waited 0\.2 s for message 1 of group 'crm' to be settled: 'sync'"):
                await test.publish("crm", 1)
            with pytest.raises(TimeoutError, match=r"for the worker to be idle: in work: .*group='crm' id=1"):
                await test.idle()

    asyncio.run(scenario())


def test_a_handler_that_always_fails_and_has_no_cap() -> None:
    worker = Worker(NOBODY)

    @worker.subscriber(group="crm")
    async def sync(change: int) -> None:
        raise ValueError("never")

    said = r"message 1 came 1\d\d times .*ValueError\('never'\).*max_attempts="
    with TestWorker(worker) as test, pytest.raises(AssertionError, match=said):
        test.publish("crm", 1)


def test_a_group_that_nobody_serves() -> None:
    with TestWorker(service()) as test, pytest.raises(ConfigError, match=r"serves group 'erp'.*'sync' on groups 'crm'"):
        test.publish("erp", 1)


def test_what_stops_the_start_is_raised() -> None:
    worker = service()

    @worker.on_startup
    def fail(db: Database) -> None:
        raise KeyError("no such setting")

    for _ in range(2):
        with pytest.raises(KeyError, match="no such setting"), TestWorker(worker):
            pass


def test_a_start_that_hangs() -> None:
    worker = service()

    @worker.on_startup
    async def hang(db: Database) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="for worker 'crm-sync' to start"), TestWorker(worker, timeout=0.2):
        pass


def test_a_worker_that_is_stopped_meanwhile() -> None:
    worker = Worker(NOBODY, grace=0)

    @worker.subscriber(group="crm")
    async def sync(change: int) -> None:
        worker.stop()
        await asyncio.Event().wait()

    said = r"stopped while this waited for message 1 of group 'crm'"
    with TestWorker(worker) as test, pytest.raises(RqfastError, match=said):
        test.publish("crm", 1)


def test_the_failure_of_a_test_is_what_its_author_sees() -> None:
    with pytest.raises(AssertionError, match="mine"), TestWorker(service()):
        raise AssertionError("mine")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("sync", "b", "a"), {}, r"sync was to get \['b', 'a'\], and got\n  Handled\(.*payload='a'"),
        (("sync", "a"), {}, "sync was to get"),
        ((), {"attempts": [1]}, r"the worker: the attempts were to be \[1\]"),
        ((), {"outcomes": [Ack(), Ack()]}, r"was to say \[Ack\(\), Ack\(\)\], and said"),
        (("sync",), {"count": 3}, "was to get 3 messages, and got 2"),
        (("sync",), {"count": 0}, "was to get 0 messages, and got 2"),
        (("audit",), {}, "audit got nothing"),
    ],
)
def test_assert_handled_fails(arguments: Any, options: Any, said: str) -> None:
    worker = service({"b": Dead("b")})
    worker.subscriber(group="audit", name="audit")(lambda change: None)
    with TestWorker(worker) as test:
        test.publish("crm", "a")
        test.publish("crm", "b")
        with pytest.raises(AssertionError, match=said):
            test.assert_handled(*arguments, **options)
        with pytest.raises(ConfigError, match="no subscription is called 'snyc': 'sync', 'audit'"):
            test.assert_handled("snyc")


def test_a_blocking_test_is_refused_in_a_running_loop() -> None:
    async def scenario() -> None:
        with TestWorker(service()):
            pass

    with pytest.raises(ConfigError, match="async with TestWorker"):
        asyncio.run(scenario())


def test_what_is_no_worker() -> None:
    with pytest.raises(ConfigError, match="not str"):
        TestWorker("queue.db")  # type: ignore[arg-type]


# -- the fixture ------------------------------------------------------------------------------------------

MODULE = """
from rqfast import Worker

pytest_plugins = ["rqfast.testing.plugin"]
worker = Worker("http://nobody.invalid:4001")


@worker.subscriber(group="crm")
def sync(change):
    pass


def test_one(test_worker):
    test = test_worker(worker)
    test.publish("crm", 1)
    test.assert_handled("sync", 1)


def test_two(test_worker):
    test = test_worker(worker, timeout=2)
    test.publish("crm", 2)
    test.assert_handled("sync", 2)
"""


def test_the_fixture_in_a_project_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(MODULE, encoding="utf-8")
    ran = run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert ran.returncode == 0 and "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_fixture_ends_what_it_started(test_worker: Any) -> None:
    one, two = service(), service()
    tests: list[BlockingTest] = [test_worker(one), test_worker(two)]
    for test in tests:
        test.publish("crm", 1)
        test.assert_handled("sync", 1)
    tests[0].close()
    tests[0].close()
    with TestWorker(one) as again:
        again.assert_handled(count=0)
