"""OpenTelemetry: spans of those who publish and those who handle, linked through the headers; and metrics.

>>> tracing = Tracing()
>>> worker = Worker(url, hooks=[tracing, Metering()])
>>> queue = connect(url, hooks=[tracing])

Names and attributes are those of the semantic conventions for messaging; rqfast's own begin with `messaging.rqfast.`.
Only the API is needed: without an SDK nothing is recorded, and no headers are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import (
        Link,
        NonRecordingSpan,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TracerProvider,
    )
except ModuleNotFoundError as _error:
    if (_error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ModuleNotFoundError(
        "rqfast.observe.otel needs opentelemetry-api: pip install 'rqfast[otel]'", name=_error.name
    ) from None

from ..model import Header
from .hooks import Event, Hooks, Sending

__all__ = ["Metering", "Tracing"]

NAME = "rqfast"
DEFAULT = "default"

Attributes = dict[str, str | int | float | bool]

# The span of what is being handled here.
_process: ContextVar[Span | None] = ContextVar("rqfast_process", default=None)

# Of what was handled here last, and is being settled.
_settling: ContextVar[SpanContext | None] = ContextVar("rqfast_settling", default=None)


class Tracing(Hooks):
    """A span for each call that publishes, for each call of a handler, and for each settlement that was refused.

    The first travels in the headers of the messages (W3C `traceparent`, or what the propagator writes); the second is
    linked to it, in a trace of its own.  What a handler publishes, also with its `Ack`, belongs to the handler's span.

    Args:
        tracer_provider: by default the global one.
        parent: make a handler's span a child of the span that published, in its trace, where a handler gets one
            message; of a batch they are linked all the same.
        propagator: by default the global one.

    Example:
        >>> worker = Worker(url, hooks=[Tracing(parent=True)])
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        parent: bool = False,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracer_provider)
        self._parent = parent
        self._propagator = propagator

    # -- producers ----------------------------------------------------------------------------------------

    def publishing(self, sending: Sending) -> Callable[[Sending], object] | None:
        """See `Hooks.publishing`."""
        attributes = _attributes(sending.call, "send", sending.queue)
        if sending.group:
            attributes["messaging.rqfast.message.group"] = sending.group
        if sending.count > 1:
            attributes["messaging.batch.message_count"] = sending.count
        span = self._tracer.start_span(
            f"{sending.call} {sending.queue or DEFAULT}",
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            links=_links([self._extracted(sending.sent)]),
        )
        if not span.get_span_context().is_valid:
            return None
        (self._propagator or propagate).inject(sending.headers, context=trace.set_span_in_context(span))
        return partial(_sent, span)

    def _extracted(self, headers: Mapping[str, Header] | None) -> Context:
        carrier = {name: value for name, value in (headers or {}).items() if isinstance(value, str)}
        if not carrier:
            return Context()
        return (self._propagator or propagate).extract(carrier, context=Context())

    # -- consumers ----------------------------------------------------------------------------------------

    def handling(self, events: Sequence[Event]) -> AbstractContextManager[object]:
        """See `Hooks.handling`."""
        return self._handling(events)

    @contextmanager
    def _handling(self, events: Sequence[Event]) -> Iterator[None]:
        producers = [self._extracted(event.headers) for event in events]
        context = producers[0] if self._parent and len(events) == 1 else Context()
        span = self._tracer.start_span(
            f"process {events[0].queue or DEFAULT}",
            # Not what is current where the worker was started: that span would never end.
            context=context,
            kind=SpanKind.CONSUMER,
            attributes=_of_messages(events),
            links=_links(producers),
        )
        token = contexts.attach(trace.set_span_in_context(span, context))
        mine = _process.set(span)
        try:
            yield
        finally:
            _process.reset(mine)
            contexts.detach(token)
            span.end()
            _settling.set(span.get_span_context())

    def handled(self, event: Event) -> None:
        """See `Hooks.handled`."""
        span = _process.get()
        if span is None:
            return
        said: Attributes = {"messaging.rqfast.outcome": event.outcome}
        span.set_attributes(said)
        if event.error is not None:
            span.record_exception(event.error)
            _fail(span, event.error)

    def lost(self, event: Event) -> None:
        """See `Hooks.lost`."""
        span = _process.get()
        if span is not None:
            _say_lost(span)
            return
        handled = _settling.get()
        if handled is not None and handled.is_valid:
            # The handler's span has ended with the handler, and may be of a whole batch.
            self._refused(event, handled)

    def _refused(self, event: Event, handled: SpanContext) -> None:
        span = self._tracer.start_span(
            f"settle {event.queue or DEFAULT}",
            context=trace.set_span_in_context(NonRecordingSpan(handled), Context()),
            kind=SpanKind.CLIENT,
            attributes=_of_messages([event], "settle"),
        )
        _say_lost(span)
        span.end()


class Metering(Hooks):
    """Metrics of the semantic conventions for messaging, and some of rqfast's own.

    Args:
        meter_provider: by default the global one.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = metrics.get_meter(NAME, meter_provider=meter_provider)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Number of messages sent to the queue."
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Duration of calls that publish."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Number of messages that went to a handler."
        )
        self._processing = meter.create_histogram("messaging.process.duration", "s", "Duration of handlers.")
        self._lag = meter.create_histogram(
            "messaging.rqfast.lag", "s", "From being published to being done with, delays included."
        )
        self._waited = meter.create_histogram(
            "messaging.rqfast.claim.wait", "s", "How long a place of the worker was free before its message came."
        )
        self._attempts = meter.create_histogram(
            "messaging.rqfast.attempts", "{delivery}", "Deliveries that a message took to be done with."
        )
        self._lost = meter.create_counter("messaging.rqfast.leases.lost", "{lease}", "Leases lost in work.")

    def publishing(self, sending: Sending) -> Callable[[Sending], object]:
        """See `Hooks.publishing`."""
        return self._ended

    def _ended(self, sending: Sending) -> None:
        attributes = _attributes(sending.call, "send", sending.queue)
        if sending.error is not None:
            attributes["error.type"] = _type_of(sending.error)
        self._operation.record(sending.seconds, attributes)
        if sending.count:
            self._sent.add(sending.count, attributes)

    def claimed(self, event: Event) -> None:
        """See `Hooks.claimed`."""
        attributes = _of_subscription(event)
        self._consumed.add(1, attributes)
        if event.waited is not None:
            self._waited.record(event.waited, attributes)

    def settled(self, event: Event) -> None:
        """See `Hooks.settled`."""
        attributes = _of_subscription(event)
        if event.outcome in ("Ack", "Drop", "Dead"):
            self._attempts.record(event.attempt, attributes)
            if event.age is not None:
                self._lag.record(event.age, attributes)
        attributes["messaging.rqfast.outcome"] = event.outcome
        if event.error is not None:
            attributes["error.type"] = _type_of(event.error)
        if event.seconds is not None:
            self._processing.record(event.seconds, attributes)

    def lost(self, event: Event) -> None:
        """See `Hooks.lost`."""
        self._lost.add(1, _of_subscription(event))


def _sent(span: Span, sending: Sending) -> None:
    if sending.seq is not None:
        span.set_attribute("messaging.message.id", str(sending.seq))
    elif sending.count > 1:
        span.set_attribute("messaging.batch.message_count", sending.count)
    if sending.error is not None:
        _fail(span, sending.error)
    span.end()


def _say_lost(span: Span) -> None:
    span.set_attributes({"messaging.rqfast.outcome": "lost", "error.type": "LeaseLost"})
    span.set_status(Status(StatusCode.ERROR, "the lease was lost"))


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", _type_of(error))
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _type_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _attributes(name: str, kind: str, queue: str) -> Attributes:
    return {
        "messaging.system": NAME,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue or DEFAULT,
    }


def _of_subscription(event: Event, operation: str = "process") -> Attributes:
    attributes = _attributes(operation, operation, event.queue)
    if event.subscription:
        attributes["messaging.consumer.group.name"] = event.subscription
    return attributes


def _of_messages(events: Sequence[Event], operation: str = "process") -> Attributes:
    attributes = _of_subscription(events[0], operation)
    if len(events) > 1:
        attributes["messaging.batch.message_count"] = len(events)
        return attributes
    return attributes | {
        "messaging.message.id": str(events[0].seq),
        "messaging.rqfast.message.group": events[0].group,
        "messaging.rqfast.message.delivery_count": events[0].attempt,
    }


def _links(producers: Sequence[Context]) -> list[Link]:
    found = [trace.get_current_span(context).get_span_context() for context in producers]
    each = {(one.trace_id, one.span_id): one for one in found if one.is_valid}
    return [Link(one) for one in each.values()]
