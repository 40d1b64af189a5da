"""Metrics for Prometheus: counters and histograms of what a process does, gauges of what is in a queue.

>>> from prometheus_client import start_http_server
>>> worker = Worker(url, hooks=[Metrics()])
>>> QueueCollector(url)
>>> start_http_server(9000)

Labels are names of subscriptions, outcomes, methods and queues: few, and never groups.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

try:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry
except ModuleNotFoundError as _error:
    if (_error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise ModuleNotFoundError(
        "rqfast.observe.prometheus needs prometheus-client: pip install 'rqfast[prometheus]'", name=_error.name
    ) from None

from .hooks import Event, Hooks, Sending
from .queue_collector import QueueCollector
from .tally import Handled, Histogram, Sent

__all__ = ["Metrics", "QueueCollector"]

# A message is done with: it does not come again.
LAST = ("Ack", "Drop", "Dead")


class Metrics(Hooks, Collector):
    """Counts what workers and transports of this process do: pass it as one of their `hooks`, as often as you like.

    Added up here and read at a scrape: 1 to 2 us for a message.  prometheus_client's multi-process mode does not see
    it: each process serves its own.

    Args:
        registry: where it registers; None: nowhere.

    Example:
        >>> metrics = Metrics()
        >>> worker = Worker(url, hooks=[metrics])
        >>> queue = connect(url, hooks=[metrics])
    """

    def __init__(self, registry: CollectorRegistry | None = REGISTRY) -> None:
        self._lock = threading.Lock()
        self._handled: dict[str, Handled] = {}
        self._sent: dict[str, Sent] = {}
        if registry is not None:
            registry.register(self)

    # -- as hooks -----------------------------------------------------------------------------------------

    def publishing(self, sending: Sending) -> Callable[[Sending], object]:
        """See `Hooks.publishing`."""
        return self._ended

    def _ended(self, sending: Sending) -> None:
        with self._lock:
            sent = self._sent.get(sending.call)
            if sent is None:
                sent = self._sent[sending.call] = Sent()
            sent.messages += sending.count
            sent.failures += sending.error is not None
            sent.works.add(sending.seconds)

    def _of(self, event: Event) -> Handled:
        handled = self._handled.get(event.subscription)
        if handled is None:
            handled = self._handled[event.subscription] = Handled()
        return handled

    def claimed(self, event: Event) -> None:
        """See `Hooks.claimed`."""
        with self._lock:
            handled = self._of(event)
            handled.claims += 1
            if event.waited is not None:
                handled.waits.add(event.waited)

    def settled(self, event: Event) -> None:
        """See `Hooks.settled`."""
        with self._lock:
            handled = self._of(event)
            outcomes = handled.outcomes
            outcomes[event.outcome] = outcomes.get(event.outcome, 0) + 1
            handled.errors += event.error is not None
            if event.seconds is not None:
                handled.works.add(event.seconds)
            if event.outcome in LAST:
                handled.attempts.add(event.attempt)
                if event.age is not None:
                    handled.lags.add(event.age)

    def lost(self, event: Event) -> None:
        """See `Hooks.lost`."""
        with self._lock:
            self._of(event).lost += 1

    def extended(self, event: Event) -> None:
        """See `Hooks.extended`."""
        with self._lock:
            self._of(event).extended += 1

    # -- for the registry ---------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """What was counted (for prometheus_client)."""
        with self._lock:
            found = [*self._of_subscriptions(), *self._of_calls()]
        yield from found

    def _of_subscriptions(self) -> list[Metric]:
        labels = ["subscription"]
        claims = CounterMetricFamily("rqfast_claims", "Messages that went to a handler.", labels=labels)
        handled = CounterMetricFamily(
            "rqfast_handled", "Outcomes that took effect.", labels=["subscription", "outcome"]
        )
        errors = CounterMetricFamily("rqfast_handler_errors", "Handlers that raised an exception.", labels=labels)
        lost = CounterMetricFamily("rqfast_leases_lost", "Leases lost while a handler worked.", labels=labels)
        extended = CounterMetricFamily("rqfast_leases_extended", "Leases extended.", labels=labels)
        waits = HistogramMetricFamily(
            "rqfast_claim_wait_seconds", "How long a place of the worker was free before its message came.",
            labels=labels,
        )  # fmt: skip
        works = HistogramMetricFamily("rqfast_handle_seconds", "How long handlers worked.", labels=labels)
        lags = HistogramMetricFamily(
            "rqfast_lag_seconds", "From being published to being done with, delays included.", labels=labels
        )
        attempts = HistogramMetricFamily(
            "rqfast_attempts", "Deliveries that a message took to be done with.", labels=labels
        )
        for name, one in self._handled.items():
            claims.add_metric([name], one.claims)
            errors.add_metric([name], one.errors)
            lost.add_metric([name], one.lost)
            extended.add_metric([name], one.extended)
            for outcome, count in one.outcomes.items():
                handled.add_metric([name, outcome], count)
            for family, histogram in ((waits, one.waits), (works, one.works), (lags, one.lags)):
                _add(family, name, histogram)
            _add(attempts, name, one.attempts)
        return [claims, handled, errors, lost, extended, waits, works, lags, attempts]

    def _of_calls(self) -> list[Metric]:
        labels = ["call"]
        messages = CounterMetricFamily("rqfast_published", "Messages published.", labels=labels)
        failures = CounterMetricFamily("rqfast_publish_failures", "Calls to publish that failed.", labels=labels)
        works = HistogramMetricFamily("rqfast_publish_seconds", "How long calls to publish took.", labels=labels)
        for call, sent in self._sent.items():
            messages.add_metric([call], sent.messages)
            failures.add_metric([call], sent.failures)
            _add(works, call, sent.works)
        return [messages, failures, works]


def _add(family: HistogramMetricFamily, label: str, histogram: Histogram) -> None:
    buckets = [("+Inf" if bound == float("inf") else str(bound), float(count)) for bound, count in histogram.cumulated]
    family.add_metric([label], buckets=buckets, sum_value=histogram.total)
