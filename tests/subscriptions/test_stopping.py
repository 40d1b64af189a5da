"""Stopping: by signals to a process, and by `stop()`; what is left on the rows, and what was spent."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rqfast import ConfigError, Context, Counts, RqfastError, Unavailable, Worker
from tests.cluster import Cluster
from tests.subscriptions.children import LONG, Child, lines
from tests.subscriptions.place import SECONDS, Place, run, serving, until

# Nobody listens there.
NOWHERE = "http://127.0.0.1:1"
# `grace` plus 1 s is promised; a machine that is busy gets more, and handlers take `LONG` all the same.
BOUND = 20.0
assert BOUND < LONG / 2

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def publish(place: Place, *items: Any) -> None:
    async def scenario() -> None:
        async with place.connect() as transport:
            await transport.publish_many(items)

    run(scenario())


def next_attempts(place: Place) -> dict[str, int]:
    """Which delivery the next of each group's head is."""

    async def scenario() -> dict[str, int]:
        async with place.connect() as transport:
            return {lease.group_id: lease.attempts for lease in await transport.claim_many(limit=10)}

    found: dict[str, int] = run(scenario())
    return found


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("handler", ["ends_in_time", "is_cancelled", "ignores_cancellation", "plain_sleeps"])
def test_a_signal(place: Place, tmp_path: Path, handler: str, number: int) -> None:
    publish(place, ("a", 1), ("a", 2), ("b", 3))
    in_time = handler == "ends_in_time"
    child = Child(place, tmp_path, handler, subscription={}, grace=LONG if in_time else 0.5, visibility=LONG)
    try:
        child.wait_for("begins 1 1")
        child.wait_for("begins 3 1")
        child.signal(number)
        assert child.ended(BOUND) == 0
        counts = child.counts()
    finally:
        child.close()
    assert place.held() == []
    assert "begins 2 1" not in lines(tmp_path), "it claimed after the signal"
    if in_time:
        assert {"ends 1", "ends 3"} <= set(lines(tmp_path))
        assert (counts["claimed"], counts["acked"], counts["given_back"]) == (2, 2, 0)
        assert next_attempts(place) == {"a": 1}
    else:
        assert (counts["claimed"], counts["acked"], counts["given_back"]) == (2, 0, 2)
        assert next_attempts(place) == {"a": 1, "b": 1}, "the shutdown spent attempts"
    assert counts["failed"] == counts["lost"] == 0


@posix
@pytest.mark.parametrize("handler", ["is_cancelled", "ignores_cancellation", "plain_sleeps"])
def test_a_second_signal_stops_at_once(place: Place, tmp_path: Path, handler: str) -> None:
    publish(place, ("a", 1))
    child = Child(place, tmp_path, handler, subscription={}, grace=LONG, visibility=LONG)
    try:
        child.wait_for("begins 1 1")
        child.signal(signal.SIGTERM)
        child.wait_for("stops")
        child.signal(signal.SIGINT)
        assert child.ended(BOUND) == 0
        assert child.counts()["given_back"] == 1
    finally:
        child.close()
    assert place.held() == []
    assert next_attempts(place) == {"a": 1}


@posix
def test_leases_are_extended_while_handlers_end(place: Place, tmp_path: Path) -> None:
    publish(place, ("a", 1))
    child = Child(place, tmp_path, "plain_sleeps", subscription={}, grace=LONG, visibility=0.5)
    try:
        child.wait_for("begins 1 1")
        child.signal(signal.SIGTERM)
        child.wait_for("stops")

        async def nobody_gets_it() -> None:
            async with place.connect() as transport:
                # Three leases long.
                assert await transport.claim(visibility=30, wait=1.5) is None

        run(nobody_gets_it())
        child.signal(signal.SIGTERM)
        assert child.ended(BOUND) == 0
        assert child.counts()["extended"] > 0
    finally:
        child.close()
    assert place.held() == []


def test_run_returns_counts_when_a_thread_calls_stop(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber()
        def handle(number: int) -> None:
            assert number != 1, "the first time"

        async with place.connect() as transport:
            await transport.publish_many((f"g{n}", n) for n in range(2))
            running = asyncio.create_task(asyncio.to_thread(worker.run))
            await until(lambda: worker.counts.acked == 1 and worker.counts.failed > 0, "a message and a failure")
            stopper = threading.Thread(target=worker.stop)
            stopper.start()
            counts = await asyncio.wait_for(running, SECONDS)
            stopper.join()
        assert isinstance(counts, Counts)
        assert counts.acked == 1 and counts.failed >= 1 and counts.claimed >= 2
        assert worker.counts == Counts(), "it does not run any more"
        assert place.held() == []

    run(scenario())


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_stop_from_inside_a_handler(place: Place, plain: bool) -> None:
    async def scenario() -> None:
        worker = place.worker(concurrency=1)
        seen: list[int] = []

        async def handle(number: int) -> None:
            seen.append(number)
            worker.stop()

        def plainly(number: int) -> None:
            seen.append(number)
            worker.stop()

        worker.subscriber()(plainly if plain else handle)
        async with place.connect() as transport:
            await transport.publish_many([("a", 1), ("a", 2)])
            counts = await asyncio.wait_for(asyncio.to_thread(worker.run), SECONDS)
            assert seen == [1], "it claimed after it was stopped"
            assert (counts.claimed, counts.acked) == (1, 1)
            assert (await transport.stats()).messages == 1
        assert place.held() == []

    run(scenario())


def test_a_worker_runs_again(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()
        worker.subscriber(name="count")(_nothing)
        for n in range(2):
            async with serving(worker):
                with pytest.raises(RqfastError, match="runs already"):
                    await worker.serve()
                await worker.publish("a", n)
                await until(lambda: worker.counts.acked == 1, f"message {n}")

    run(scenario())


def test_a_cancelled_serve_stops_and_gives_back(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker(grace=0)
        begun = asyncio.Event()

        @worker.subscriber()
        async def handle(number: int) -> None:
            begun.set()
            await asyncio.sleep(LONG)

        async with place.connect() as transport:
            await transport.publish("a", 1)
            task = asyncio.create_task(worker.serve())
            await asyncio.wait_for(begun.wait(), SECONDS)
            task.cancel()
            await asyncio.wait((task,), timeout=SECONDS)
            assert task.cancelled()
            lease = await transport.claim()
            assert lease is not None and lease.attempts == 1

    run(scenario())


def test_hooks_of_start_and_end_come_in_their_order(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()
        order: list[str] = []

        @worker.on_startup
        async def first(database: Any) -> None:
            order.append("startup")
            assert await database.query("SELECT 1") == [[1]]

        @worker.on_startup
        def second(database: Any) -> None:
            order.append("startup, plain")

        @worker.subscriber()
        async def handle(number: int) -> None:
            order.append("handled")

        @worker.on_shutdown
        async def last(database: Any) -> None:
            order.append("shutdown")
            assert worker.counts.acked == 1
            raise ValueError("is logged")

        async with place.connect() as transport:
            await transport.publish("a", 1)
        async with serving(worker):
            await until(lambda: worker.counts.acked == 1, "the message")
        assert order == ["startup", "startup, plain", "handled", "shutdown"]

    run(scenario())


def test_a_start_that_fails_ends_run(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()
        worker.subscriber()(_nothing)

        @worker.on_startup
        async def fail(database: Any) -> None:
            raise ValueError("no such tenant")

        with pytest.raises(ValueError, match="no such tenant"):
            await asyncio.wait_for(worker.serve(), SECONDS)

    run(scenario())


def test_an_unreachable_server_is_found_out_by_run(recwarn: pytest.WarningsRecorder) -> None:
    worker = Worker(NOWHERE, connect_retries=0, timeout=0.5)
    worker.subscriber(group="crm")(_nothing)
    assert worker.counts == Counts() and worker.subscriptions[0].name == "_nothing"
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
        worker.run()
    with pytest.raises(Unavailable):
        run(worker.serve())


def test_stop_while_no_node_answers() -> None:
    async def scenario() -> None:
        worker = Worker(NOWHERE, connect_retries=1000)
        worker.subscriber(group="crm")(_nothing)
        running = asyncio.create_task(asyncio.to_thread(worker.run))
        end = time.monotonic() + SECONDS
        while not running.done():
            assert time.monotonic() < end, f"waited {SECONDS:g} s for a worker without a server to stop"
            worker.stop()
            await asyncio.sleep(0.05)
        assert running.result() == Counts()

    run(scenario())


@pytest.mark.cluster
@pytest.mark.parametrize("times", [1, 2])
def test_stop_while_the_cluster_is_away(times: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        # Each call would be tried again for as long as this.
        worker = Worker(cluster.url, timeout=LONG, grace=0.5, visibility=1)
        begun = asyncio.Event()

        @worker.subscriber(group="crm")
        async def handle(number: int) -> None:
            begun.set()
            await asyncio.sleep(LONG)

        task = asyncio.create_task(worker.serve())
        await worker.started()
        await worker.publish("crm", 1)
        await asyncio.wait_for(begun.wait(), SECONDS)
        cluster.nodes[0].kill()
        for _ in range(times):
            worker.stop()
        counts = await asyncio.wait_for(task, BOUND)
        assert (counts.claimed, counts.acked, counts.given_back) == (1, 0, 0)

    with Cluster(1) as cluster:
        run(scenario(cluster))
    assert "could not be given back, its lease ends in" in caplog.text


def test_a_worker_without_subscriptions() -> None:
    with pytest.raises(ConfigError, match="no subscription"):
        Worker(NOWHERE).run()


def test_signals_are_handled_as_before_when_it_has_run(embedded_place: Place) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are of the main thread")
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    worker = embedded_place.worker()

    @worker.subscriber()
    async def handle(number: int, ctx: Context) -> None:
        worker.stop()

    publish(embedded_place, ("a", 1))
    assert worker.run().acked == 1
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


async def _nothing(payload: Any) -> None:
    pass


def test_a_shutdown_hook_that_hangs_ends_with_the_grace(
    embedded_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        worker = embedded_place.worker(grace=0.2)

        @worker.on_shutdown
        async def hang(db: object) -> None:
            await asyncio.Event().wait()

        @worker.subscriber(group="crm")
        async def handle(number: int) -> None:
            pass

        async with serving(worker):
            pass

    run(scenario())
    assert "a shutdown hook of worker" in caplog.text
