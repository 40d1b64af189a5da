"""Spans and metrics, read through OpenTelemetry's own exporters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import rqfast
from rqfast import Ack, Context, Message, Outcome
from rqfast.observe import handling
from rqfast.testing import TestWorker
from tests.subscriptions.place import Place, run, serving, until

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed: pip install opentelemetry-sdk")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rqfast.observe.otel import Metering, Tracing


class Spans:
    """A tracer provider, and what it was given."""

    def __init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    def of(self, kind: SpanKind) -> list[Any]:
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]

    @property
    def producers(self) -> list[Any]:
        return self.of(SpanKind.PRODUCER)

    @property
    def consumers(self) -> list[Any]:
        return self.of(SpanKind.CONSUMER)


@pytest.fixture
def spans() -> Iterator[Spans]:
    found = Spans()
    yield found
    found.provider.shutdown()


def id_of(span: Any) -> tuple[int, int]:
    """Of a span, or a context of one: its trace and itself."""
    context = getattr(span, "context", span)
    return context.trace_id, context.span_id


def parent_of(span: Any) -> tuple[int, int] | None:
    return None if span.parent is None else id_of(span.parent)


def links_of(span: Any) -> list[tuple[int, int]]:
    return [id_of(link.context) for link in span.links]


def by_group(found: list[Any]) -> dict[str, Any]:
    return {span.attributes["messaging.rqfast.message.group"]: span for span in found}


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_a_chain_of_messages(place: Place, spans: Spans, colour: str) -> None:
    tracing = Tracing(spans.provider)
    worker = place.worker(hooks=[tracing])

    def ends(ctx: Context) -> Outcome:
        with spans.tracer.start_as_current_span("work"):
            return Ack(publish=[Message("second", 2, headers={"own": True})]) if ctx.group == "first" else Ack()

    async def waits(event: Any, ctx: Context) -> Outcome:
        return ends(ctx)

    def plain(event: Any, ctx: Context) -> Outcome:
        return ends(ctx)

    worker.subscriber(name="chain")(waits if colour == "async" else plain)

    async def scenario() -> None:
        async with rqfast.connect_async(place.url, queue=place.queue, hooks=[tracing]) as queue, serving(worker):
            with spans.tracer.start_as_current_span("request"):
                await queue.publish("first", 1)
            await until(lambda: len(spans.consumers) == 2, "both messages")

    run(scenario())
    request, *inner = spans.of(SpanKind.INTERNAL)
    sent, handled = by_group(spans.producers), by_group(spans.consumers)
    # The header carries the producer's span, and the consumer, in a trace of its own, has a link to it.
    assert parent_of(sent["first"]) == id_of(request)
    assert links_of(handled["first"]) == [id_of(sent["first"])] and handled["first"].parent is None
    assert id_of(handled["first"])[0] != id_of(request)[0]
    # What is done in the handler, and what is published with its Ack, belongs to it.
    assert parent_of(inner[0]) == id_of(handled["first"])
    assert parent_of(sent["second"]) == id_of(handled["first"])
    assert links_of(handled["second"]) == [id_of(sent["second"])]
    assert [span.name for span in spans.producers] == [f"publish {place.queue}", f"ack {place.queue}"]
    assert {span.name for span in spans.consumers} == {f"process {place.queue}"}
    attributes = dict(handled["first"].attributes)
    assert attributes == {
        "messaging.system": "rqfast",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": place.queue,
        "messaging.consumer.group.name": "chain",
        "messaging.message.id": sent["first"].attributes["messaging.message.id"],
        "messaging.rqfast.message.group": "first",
        "messaging.rqfast.message.delivery_count": 1,
        "messaging.rqfast.outcome": "Ack",
    }
    assert sent["second"].attributes["messaging.operation.type"] == "send"
    assert all(span.status.status_code is StatusCode.UNSET for span in [*sent.values(), *handled.values()])


def test_the_header_is_w3c_traceparent(embedded: Place, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[tracing]) as queue:
        queue.publish("a", 1, headers={"own": 1})
        queue.publish_many([("b", 2), Message("b", 3, headers={"own": 3}), ("b", 4, 0)])
        queue.publish_soon("c", 5).result(30)
        headers = [lease.headers for lease in queue.claim_run(limit=9) + queue.claim_run(limit=9) + queue.claim_run()]
    one, many, soon = spans.producers
    contexts = [span.context for span in (one, many, many, many, soon)]
    want = [f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}" for at in contexts]
    assert [found["traceparent"] for found in headers] == want
    assert [found.get("own") for found in headers] == [1, None, 3, None, None]
    assert many.attributes["messaging.batch.message_count"] == 3


def test_as_a_child(embedded: Place, spans: Spans) -> None:
    tracing = Tracing(spans.provider, parent=True)
    worker = embedded.worker(hooks=[tracing])
    worker.subscriber()(lambda event: None)

    async def scenario() -> None:
        # What is current where the worker starts is no part of it.
        with spans.tracer.start_as_current_span("main"):
            async with serving(worker):
                with spans.tracer.start_as_current_span("request"):
                    await worker.publish("g", 1)
                async with embedded.connect() as queue:
                    await queue.publish("h", 2, headers={"traceparent": 7})  # of no trace
                await until(lambda: len(spans.consumers) == 2, "both messages")

    run(scenario())
    (sent,) = spans.producers
    handled = by_group(spans.consumers)
    assert parent_of(handled["g"]) == id_of(sent) and links_of(handled["g"]) == [id_of(sent)]
    assert handled["h"].parent is None and links_of(handled["h"]) == []


def test_a_batch_has_a_link_to_each(embedded: Place, spans: Spans) -> None:
    tracing = Tracing(spans.provider, parent=True)
    worker = embedded.worker(hooks=[tracing])

    @worker.subscriber(batch=10)
    async def handle(events: list[Any]) -> None:
        pass

    async def scenario() -> None:
        async with rqfast.connect_async(embedded.url, queue=embedded.queue, hooks=[tracing]) as queue:
            await queue.publish("a", 1)
            await queue.publish_many([("b", 2), ("c", 3)])
            async with serving(worker):
                await until(lambda: spans.consumers, "a batch")

    run(scenario())
    (handled,) = spans.consumers
    assert handled.parent is None
    assert sorted(links_of(handled)) == sorted(map(id_of, spans.producers))
    assert handled.attributes["messaging.batch.message_count"] == 3


def test_failures(spans: Spans) -> None:
    worker = rqfast.Worker(":memory:", hooks=[Tracing(spans.provider)])

    @worker.subscriber(max_attempts=2, dead_letter="given up", groups=["g"])
    async def fails(event: Any) -> None:
        raise OSError("no disk")

    with TestWorker(worker) as test:
        test.publish("g", 1, headers={"own": "x"})
        with pytest.raises(rqfast.InvalidMessage):
            test.publish("g", 1, headers={"own": float("nan")})
    first, second = spans.consumers
    assert [span.attributes["messaging.rqfast.outcome"] for span in (first, second)] == ["Retry", "Dead"]
    for span in (first, second):
        assert span.status.status_code is StatusCode.ERROR and span.status.description == "no disk"
        assert span.attributes["error.type"] == "OSError"
        assert [event.name for event in span.events] == ["exception"]
    sent, dead, refused = spans.producers
    # The dead letter goes on from there, and knows where its message came from.
    assert parent_of(dead) == id_of(second) and links_of(dead) == [id_of(sent)]
    assert refused.attributes["error.type"] == "rqfast.InvalidMessage"
    assert refused.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("batch", [None, 10], ids=["single", "batch"])
def test_a_refused_settlement(embedded: Place, spans: Spans, batch: int | None) -> None:
    worker = embedded.worker(hooks=[Tracing(spans.provider)])

    async def scenario() -> None:
        async with embedded.connect() as queue:

            async def gives_away() -> None:
                if worker.counts.claimed == 1:
                    await queue.release("g")

            async def one(event: Any) -> None:
                await gives_away()

            async def many(events: list[Any]) -> None:
                await gives_away()

            worker.subscriber(batch=batch, name="slow")(one if batch is None else many)
            await queue.publish("g", 1)
            async with serving(worker):
                await until(lambda: worker.counts.acked == 1, "the message, once more")
                assert worker.counts.lost == 1

    run(scenario())
    first, second = spans.consumers
    (refused,) = spans.of(SpanKind.CLIENT)
    assert parent_of(refused) == id_of(first) and refused.name == f"settle {embedded.queue}"
    assert refused.status.status_code is StatusCode.ERROR and refused.attributes["error.type"] == "LeaseLost"
    assert refused.attributes["messaging.operation.type"] == "settle"
    assert refused.attributes["messaging.rqfast.outcome"] == "lost"
    assert refused.attributes["messaging.rqfast.message.group"] == "g"
    assert second.attributes["messaging.rqfast.outcome"] == "Ack"


def test_by_hand(embedded: Place, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[tracing]) as queue:
        queue.publish("g", 1)
        queue.publish("lost", 2)
        for lease in queue.claim_many(limit=2):
            if lease.group_id == "lost":
                queue.release("lost")
                with pytest.raises(rqfast.LeaseLost), handling([tracing], lease, queue=embedded.queue):
                    queue.ack(lease)
            else:
                with handling([tracing], lease, "mine", embedded.queue):
                    queue.ack(lease, publish=[("next", 3)])
    sent, handled = by_group(spans.producers), by_group(spans.consumers)
    assert links_of(handled["g"]) == [id_of(sent["g"])] and parent_of(sent["next"]) == id_of(handled["g"])
    assert handled["g"].attributes["messaging.consumer.group.name"] == "mine"
    assert handled["lost"].attributes["messaging.rqfast.outcome"] == "lost"
    assert handled["lost"].status.status_code is StatusCode.ERROR


def test_without_an_sdk_nothing_is_added(embedded: Place) -> None:
    from opentelemetry.trace import NoOpTracerProvider

    tracing = Tracing(NoOpTracerProvider())
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[tracing]) as queue:
        queue.publish("g", 1)
        lease = queue.claim()
        assert lease is not None and lease.headers == {}
        with handling([tracing], lease):
            queue.ack(lease)


# -- metrics ----------------------------------------------------------------------------------------------


def test_metrics() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    metering = Metering(provider)
    worker = rqfast.Worker(":memory:", hooks=[metering])

    @worker.subscriber(name="sync", max_attempts=2, dead_letter=True)
    def sync(what: str) -> None:
        if what == "fails":
            raise OSError("no")

    with TestWorker(worker) as test:
        test.publish("group-1", "works")
        test.publish("group-2", "fails")
        with pytest.raises(rqfast.InvalidMessage):
            test.publish("group-2", "", headers={"own": float("nan")})
    found: dict[str, list[Any]] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found[metric.name] = list(metric.data.data_points)
    provider.shutdown()

    def counts(name: str, attribute: str) -> dict[Any, float]:
        return {
            point.attributes.get(attribute): getattr(point, "count", getattr(point, "value", None))
            for point in found[name]
        }

    group = "messaging.consumer.group.name"
    assert counts("messaging.client.consumed.messages", group) == {"sync": 3}
    assert counts("messaging.client.sent.messages", "messaging.operation.name") == {"publish": 2}
    assert counts("messaging.client.operation.duration", "error.type") == {None: 2, "rqfast.InvalidMessage": 1}
    assert counts("messaging.process.duration", "messaging.rqfast.outcome") == {"Ack": 1, "Retry": 1, "Dead": 1}
    assert counts("messaging.rqfast.lag", group) == counts("messaging.rqfast.attempts", group) == {"sync": 2}
    assert counts("messaging.rqfast.claim.wait", group) == {"sync": 3}
    assert "group-" not in str(found)
