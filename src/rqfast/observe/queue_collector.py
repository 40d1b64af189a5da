"""Gauges of what is in a queue, read when Prometheus asks."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from ..api import Transport
from ..connect import connect
from ..errors import ConfigError, RqfastError
from ..model import Stats
from ..transport import checks
from ..transport.blocking import BlockingTransport
from .states import states

log: logging.Logger = logging.getLogger("rqfast.observe")

# The label of the default queue: an empty one counts as none.
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Reading:
    """Stats, and how long they took, in seconds."""

    stats: Stats
    seconds: float


class QueueCollector(Collector):
    """Reads `stats()` at each scrape, one read at a time, in a thread of its own.

    A scrape never fails for it, and waits no longer than `timeout`: where the stats could not be had, `rqfast_up` is 0
    and there are no other gauges.  One process that does this for a queue is enough: see `Transport.stats` for what
    it costs.

    Args:
        source: a URL or a path as `connect` takes it (None: RQFAST_URL), opened at the first scrape, making no queue;
            or a blocking transport, which stays its owner's.
        queues: of a URL: which queues; None is the default one, whose label is "default".
        registry: where it registers; None: nowhere.
        timeout: seconds that a scrape waits.
        **options: of `connect`.

    Raises:
        ConfigError: an argument.

    Example:
        >>> QueueCollector("http://node1:4001,node2:4001", queues=["orders", "mails"])
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Transport[Any] | None = None,
        queues: Iterable[str | None] = (None,),
        *,
        registry: CollectorRegistry | None = REGISTRY,
        timeout: float = 2.0,
        **options: Any,
    ) -> None:
        self._timeout = checks.option_seconds(timeout, "timeout")
        self._registry = registry
        if isinstance(source, BlockingTransport):
            if options or tuple(queues) != (None,):
                raise ConfigError("queues= and other options belong to the transport, which was passed open")
            self._looks: list[_Look] = [_Look(source._options.queue, source)]
        elif "queue" in options:
            raise ConfigError(
                f"queue={options['queue']!r}: a collector reads several, say queues=[{options['queue']!r}]"
            )
        elif source is None or isinstance(source, str | os.PathLike):
            self._looks = [_Look(name, None, source, options) for name in _names(queues)]
        else:
            raise ConfigError(
                f"a QueueCollector takes a URL, a path or a blocking transport, not {type(source).__name__}"
            )
        if registry is not None:
            registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Names, for the registry: nothing is read to register."""
        return _families([])

    def collect(self) -> Iterator[Metric]:
        """The gauges (for prometheus_client)."""
        end = time.monotonic() + self._timeout
        begun = [(look, look.begin()) for look in self._looks]
        yield from _families([(look.queue, look.found(reading, end)) for look, reading in begun])

    def close(self) -> None:
        """Unregister, and close what it has opened."""
        if self._registry is not None:
            self._registry.unregister(self)
            self._registry = None
        for look in self._looks:
            look.close()


class _Look:
    """Reads the stats of one queue."""

    def __init__(
        self, queue: str | None, transport: Any, url: Any = None, options: dict[str, Any] | None = None
    ) -> None:
        self.queue = queue or DEFAULT
        self._open = (url, {"queue": queue, "create": False} | (options or {}))
        self._transport: Transport[Any] | None = transport
        self._owns = transport is None
        self._lock = threading.Lock()
        self._reading: futures.Future[Reading] | None = None
        self._closed = False
        self._is_up = True

    def begin(self) -> futures.Future[Reading]:
        """Read, unless that is going on from an earlier scrape."""
        with self._lock:
            if self._reading is None or self._reading.done():
                self._reading = futures.Future()
                name = f"rqfast-stats-{self.queue}"
                threading.Thread(target=self._read, args=(self._reading,), name=name, daemon=True).start()
            return self._reading

    def _read(self, reading: futures.Future[Reading]) -> None:
        try:
            start = time.monotonic()
            stats = self._opened().stats()
            reading.set_result(Reading(stats, time.monotonic() - start))
        except Exception as error:
            reading.set_exception(error)

    def _opened(self) -> Transport[Any]:
        with self._lock:
            closed, transport = self._closed, self._transport
        if not closed and transport is None:
            url, options = self._open
            transport = connect(url, **options)
            with self._lock:
                closed = self._closed
                self._transport = None if closed else transport
            if closed:
                transport.close()
        if closed or transport is None:
            raise RqfastError("this collector was closed")
        return transport

    def found(self, reading: futures.Future[Reading], end: float) -> Reading | None:
        """What was read, where it comes in time."""
        try:
            found = reading.result(max(0.0, end - time.monotonic()))
        except Exception as error:
            if self._is_up:
                why = "they did not come in time" if not reading.done() else str(error)
                log.warning("queue %r: no stats for Prometheus: %s", self.queue, why)
            self._is_up = False
            return None
        if not self._is_up:
            log.info("queue %r: stats for Prometheus again", self.queue)
        self._is_up = True
        return found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            transport, self._transport = self._transport, None
        if transport is not None and self._owns:
            transport.close()


def _names(queues: Any) -> list[str | None]:
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise ConfigError(f"queues= is a list of names, not {type(queues).__name__}")
    names = list(dict.fromkeys(queues))
    if not names:
        raise ConfigError("queues= is empty: name a queue, or None for the default one")
    return names


def _families(found: Sequence[tuple[str, Reading | None]]) -> list[Metric]:
    labels = ["queue"]
    up = GaugeMetricFamily("rqfast_up", "Whether the queue's stats could be read.", labels=labels)
    seconds = GaugeMetricFamily("rqfast_stats_seconds", "How long reading the stats took.", labels=labels)
    messages = GaugeMetricFamily("rqfast_messages", "Messages in the queue by state.", labels=["queue", "state"])
    gauges = {
        "groups": GaugeMetricFamily("rqfast_groups", "Groups that have messages, or are paused.", labels=labels),
        "paused": GaugeMetricFamily("rqfast_paused_groups", "Groups that are paused.", labels=labels),
        "queue_paused": GaugeMetricFamily("rqfast_queue_paused", "Whether the whole queue is paused.", labels=labels),
        "dead": GaugeMetricFamily("rqfast_dead_letters", "Dead letters.", labels=labels),
        "oldest_claimable_age": GaugeMetricFamily(
            "rqfast_oldest_claimable_age_seconds", "How long a claimable message has waited, at most; 0: none is.",
            labels=labels,
        ),
        "oldest_in_work_age": GaugeMetricFamily(
            "rqfast_oldest_in_work_age_seconds", "How long work has been going on, at most; 0: none is.", labels=labels
        ),
    }  # fmt: skip
    for queue, reading in found:
        up.add_metric([queue], 0.0 if reading is None else 1.0)
        if reading is None:
            continue
        seconds.add_metric([queue], reading.seconds)
        for state, count in states(reading.stats).items():
            messages.add_metric([queue, state], count)
        for name, family in gauges.items():
            family.add_metric([queue], float(getattr(reading.stats, name) or 0))
    return [up, seconds, messages, *gauges.values()]
