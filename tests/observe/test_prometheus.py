"""What Prometheus gets, read through its own client and over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast import Ack, ConfigError, Context, Dead, Drop, Outcome, Retry, RetryAfter
from rqfast.observe import handling
from rqfast.testing import TestWorker
from tests.subscriptions.place import SECONDS, Place, run, serving, until

client = pytest.importorskip(
    "prometheus_client", reason="prometheus-client is not installed: pip install 'rqfast[prometheus]'"
)
from rqfast.observe.prometheus import Metrics, QueueCollector  # noqa: E402 - it may be missing

OUTCOMES: dict[str, Outcome] = {"drop": Drop(), "dead": Dead("no"), "retry": Retry(), "later": RetryAfter(1)}


@pytest.fixture
def registry() -> Any:
    return client.CollectorRegistry()


def value(registry: Any, name: str, **labels: str) -> float | None:
    found: float | None = registry.get_sample_value(name, labels)
    return found


# -- counters and histograms ------------------------------------------------------------------------------


def test_what_a_worker_does(registry: Any) -> None:
    worker = rqfast.Worker(":memory:", hooks=[Metrics(registry)])

    @worker.subscriber(group="g", name="sync")
    def sync(what: str, ctx: Context) -> Outcome:
        if what == "fails" and ctx.attempt < 3:
            raise OSError("no")
        return OUTCOMES.get(what, Ack()) if ctx.attempt == 1 else Ack()

    with TestWorker(worker) as test:
        for what in ("ack", "drop", "dead", "retry", "fails"):
            test.publish("g", what)
        test.publish("g", "later")
        test.advance(2)

    def of(name: str, **labels: str) -> float | None:
        return value(registry, name, subscription="sync", **labels)

    assert of("rqfast_claims_total") == 10
    found = {outcome: of("rqfast_handled_total", outcome=outcome) for outcome in ("Ack", "Drop", "Dead", "Retry")}
    assert found == {"Ack": 4, "Drop": 1, "Dead": 1, "Retry": 3}
    assert of("rqfast_handled_total", outcome="RetryAfter") == 1
    assert of("rqfast_handler_errors_total") == 2
    assert of("rqfast_leases_lost_total") == 0
    assert of("rqfast_handle_seconds_count") == of("rqfast_claim_wait_seconds_count") == 10
    # What comes again is not yet done with.
    assert of("rqfast_lag_seconds_count") == of("rqfast_attempts_count") == 6
    assert [of("rqfast_attempts_bucket", le=le) for le in ("1.0", "2.0", "3.0", "+Inf")] == [3, 5, 6, 6]
    assert of("rqfast_attempts_sum") == 3 + 2 * 2 + 3
    # The clock stood, but for the message that was to wait a second.
    assert [of("rqfast_lag_seconds_bucket", le=le) for le in ("0.5", "2.5")] == [5, 6]
    assert value(registry, "rqfast_published_total", call="publish") == 6
    assert value(registry, "rqfast_publish_seconds_count", call="publish") == 6
    assert value(registry, "rqfast_publish_failures_total", call="publish") == 0


def test_leases(registry: Any, embedded: Place) -> None:
    worker = embedded.worker(hooks=[Metrics(registry)], visibility=0.5)

    @worker.subscriber(name="slow")
    async def slow(event: Any, ctx: Context) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(SECONDS)

    def count(what: str) -> float:
        return value(registry, f"rqfast_leases_{what}_total", subscription="slow") or 0

    async def scenario() -> None:
        async with embedded.connect() as queue, serving(worker):
            await queue.publish("g", 1)
            await until(lambda: count("extended"), "an extension")
            await queue.release("g")
            await until(lambda: count("lost"), "a lease that is lost")

    run(scenario())
    assert count("lost") == 1


def test_calls_that_publish(registry: Any, place: Place) -> None:
    metrics = Metrics(registry)
    with rqfast.connect(place.url, queue=place.queue, hooks=[metrics]) as queue:
        queue.publish_many((f"g{number}", number) for number in range(100))
        for _ in range(2):
            with pytest.raises(rqfast.InvalidMessage):
                queue.publish("", 1)
        lease = queue.claim()
        assert lease is not None
        with handling([metrics], lease, "by hand"):
            queue.ack(lease, publish=[("other", 1), ("other", 2)])
    assert value(registry, "rqfast_published_total", call="publish_many") == 100
    assert value(registry, "rqfast_published_total", call="publish") == 0
    assert value(registry, "rqfast_publish_failures_total", call="publish") == 2
    assert value(registry, "rqfast_published_total", call="ack") == 2
    assert value(registry, "rqfast_handled_total", subscription="by hand", outcome="Ack") == 1
    assert value(registry, "rqfast_claim_wait_seconds_count", subscription="by hand") == 0


def test_groups_make_no_series(registry: Any) -> None:
    worker = rqfast.Worker(":memory:", hooks=[Metrics(registry)])
    worker.subscriber(name="sync")(lambda event: None)
    counts = []
    with TestWorker(worker) as test:
        for number in range(40):
            test.publish(f"group-{number}", number)
            counts.append(len(client.generate_latest(registry).splitlines()))
    assert counts[0] == counts[-1]
    assert b"group-" not in client.generate_latest(registry)


# -- gauges -----------------------------------------------------------------------------------------------


def test_gauges_tell_claimable_from_parked(registry: Any, place: Place) -> None:
    with rqfast.connect(place.url, queue=place.queue) as queue:
        queue.publish_many([("claimable", 1), ("claimable", 2), ("worked", 3), ("parked", 4), ("dead", 5)])
        queue.publish("delayed", 6, delay=1000)
        queue.publish("paused", 7)
        queue.pause("paused")
        leases = {lease.group_id: lease for lease in queue.claim_many(limit=4, visibility=1000)}
        queue.nack(leases["claimable"])
        queue.nack(leases["parked"], 1000)
        queue.dead_letter(leases["dead"], "no")
        collector = QueueCollector(place.url, [place.queue], registry=registry, timeout=SECONDS)
        states = ("claimable", "in_work", "parked", "delayed", "waiting")
        found = {state: value(registry, "rqfast_messages", queue=place.queue, state=state) for state in states}
        assert found == {"claimable": 1, "in_work": 1, "parked": 1, "delayed": 1, "waiting": 2}
        want = {"rqfast_up": 1, "rqfast_dead_letters": 1, "rqfast_groups": 5, "rqfast_paused_groups": 1,
                "rqfast_queue_paused": 0}  # fmt: skip
        assert {name: value(registry, name, queue=place.queue) for name in want} == want
        assert (value(registry, "rqfast_oldest_claimable_age_seconds", queue=place.queue) or 0) > 0
        assert (value(registry, "rqfast_oldest_in_work_age_seconds", queue=place.queue) or 0) > 0
        queue.pause()
        assert value(registry, "rqfast_queue_paused", queue=place.queue) == 1
        assert value(registry, "rqfast_oldest_claimable_age_seconds", queue=place.queue) == 0
        collector.close()
        assert value(registry, "rqfast_up", queue=place.queue) is None


def test_a_transport_of_ones_own_and_its_default_queue(registry: Any, tmp_path: Any) -> None:
    with rqfast.connect(tmp_path / "queue.db") as queue:
        collector = QueueCollector(queue, registry=registry, timeout=SECONDS)
        queue.publish("g", 1)
        assert value(registry, "rqfast_messages", queue="default", state="claimable") == 1
        collector.close()
        queue.publish("g", 2)  # it is still open


def test_a_scrape_makes_no_queue_and_does_not_fail(
    registry: Any, embedded: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rqfast.observe")
    collector = QueueCollector(embedded.url, [embedded.queue], registry=registry, timeout=SECONDS)
    for _ in range(3):
        assert value(registry, "rqfast_up", queue=embedded.queue) == 0
        assert value(registry, "rqfast_messages", queue=embedded.queue, state="claimable") is None
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "no stats" in caplog.text
    with rqfast.connect(embedded.url, queue=embedded.queue) as queue:
        queue.publish("g", 1)
        assert value(registry, "rqfast_up", queue=embedded.queue) == 1
    assert value(registry, "rqfast_messages", queue=embedded.queue, state="claimable") == 1
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    collector.close()


def test_a_scrape_does_not_wait_for_a_database_that_does_not_answer(registry: Any, embedded: Place) -> None:
    stalls, goes = threading.Event(), threading.Event()
    with rqfast.connect(embedded.url, queue=embedded.queue) as queue:
        collector = QueueCollector(queue, registry=registry, timeout=0.05)
        looks = []

        # What no engine does on demand: to be there, and to say nothing.
        def stats(real: Any = queue.stats) -> Any:
            looks.append(1)
            stalls.set()
            assert goes.wait(SECONDS)
            return real()

        queue.stats = stats  # type: ignore[method-assign]
        start = time.monotonic()
        for _ in range(5):
            assert value(registry, "rqfast_up", queue=embedded.queue) == 0
        assert time.monotonic() - start < SECONDS / 2
        assert stalls.wait(SECONDS), "the first look"
        # One that is under way is not joined by others.
        assert len(looks) == 1
        goes.set()
        end = time.monotonic() + SECONDS
        while value(registry, "rqfast_up", queue=embedded.queue) != 1:
            assert time.monotonic() < end, f"waited {SECONDS:g} s for stats again"
        collector.close()


class SlowPath:
    """A path that is told only when somebody says so."""

    def __init__(self, path: str) -> None:
        self.asked, self.told = threading.Event(), threading.Event()
        self._path = path

    def __fspath__(self) -> str:
        self.asked.set()
        assert self.told.wait(SECONDS)
        return self._path


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to see what is open")
def test_it_is_closed_while_it_opens(registry: Any, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    rqfast.connect(path).close()

    def is_open() -> bool:
        return any(str(path) in os.path.realpath(one) for one in Path("/proc/self/fd").iterdir())

    slow = SlowPath(str(path))
    collector = QueueCollector(slow, registry=registry, timeout=0.05)
    assert value(registry, "rqfast_up", queue="default") == 0
    assert slow.asked.wait(SECONDS), "the first look"
    (reader,) = [one for one in threading.enumerate() if one.name == "rqfast-stats-default"]
    collector.close()
    slow.told.set()
    reader.join(SECONDS)
    assert not reader.is_alive() and not is_open()


def test_a_cluster_that_is_away(registry: Any) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        collector = QueueCollector(url, ["orders", None], registry=registry, timeout=SECONDS, connect_retries=0)
        assert [value(registry, "rqfast_up", queue=name) for name in ("orders", "default")] == [0, 0]
        assert b"rqfast_messages{" not in client.generate_latest(registry)
        collector.close()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((7,), {}),
        (("x.db", "orders"), {}),
        (("x.db", []), {}),
        (("x.db",), {"timeout": 0}),
        (("x.db",), {"queue": "orders"}),
    ],
    ids=["source", "queues", "no queues", "timeout", "one queue by the name of an option"],
)
def test_what_a_collector_refuses(arguments: Any, options: Any) -> None:
    with pytest.raises(ConfigError):
        QueueCollector(*arguments, registry=None, **options)


def test_an_open_transport_has_its_queue(embedded: Place) -> None:
    with (
        rqfast.connect(embedded.url, queue=embedded.queue) as queue,
        pytest.raises(ConfigError, match="belong to the transport"),
    ):
        QueueCollector(queue, ["orders"], registry=None)


# -- over HTTP --------------------------------------------------------------------------------------------


@pytest.fixture
def served(registry: Any) -> Iterator[str]:
    server, thread = client.start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS)


def test_over_http(registry: Any, served: str, embedded: Place) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    metrics = Metrics(registry)
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[metrics]) as queue:
        queue.publish("customer-7", 1)
        lease = queue.claim()
        assert lease is not None
        with handling([metrics], lease, "mine"):
            queue.ack(lease)
        collector = QueueCollector(queue, registry=registry, timeout=SECONDS)
        with urllib.request.urlopen(served, timeout=SECONDS) as reply:
            text = reply.read().decode()
        collector.close()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {"rqfast_claims", "rqfast_handled", "rqfast_handle_seconds", "rqfast_lag_seconds", "rqfast_attempts",
            "rqfast_published", "rqfast_messages", "rqfast_up"} <= families.keys()  # fmt: skip
    assert families["rqfast_handle_seconds"].type == "histogram"
    assert all(family.documentation for family in families.values())
    assert "customer-7" not in text
    labels = {name for family in families.values() for sample in family.samples for name in sample.labels}
    assert labels == {"subscription", "outcome", "call", "queue", "state", "le"}
