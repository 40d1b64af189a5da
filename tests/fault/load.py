"""A load of publishers and workers in threads, which write down what they were told; and what must hold."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.cluster import wait_until
from tests.contract.views import View

GROUPS = 6
Event = tuple[int, int]  # publisher, its count


class Load:
    """Publishers that each publish `count` messages in turn over the groups, and workers that ack them all.

    A worker that is told `LeaseLost` or `OutcomeUnknown` writes that down too: neither may be without cause.
    """

    def __init__(self, publishers: int, workers: int, count: int) -> None:
        self.publishers, self.workers, self.count = publishers, workers, count
        self.confirmed: dict[Event, int] = {}
        self.delivered: dict[str, list[tuple[Event, int]]] = defaultdict(list)  # by group, as leased
        self.acked: list[Event] = []
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    @property
    def total(self) -> int:
        return self.publishers * self.count

    def start(self, open_view: Callable[[], View]) -> None:
        """Start all threads; publishers share one transport, workers another."""
        publishing, working = open_view(), open_view()
        for number in range(self.publishers):
            self._thread(partial(self._publish, publishing, number))
        for _ in range(self.workers):
            self._thread(partial(self._work, working))

    def wait_confirmed(self, count: int, timeout: float = 60) -> None:
        wait_until(
            lambda: f"{count} confirmed publishes (now {len(self.confirmed)}; errors {self.errors!r:.500})",
            lambda: len(self.confirmed) >= count or bool(self.errors),
            timeout,
        )

    def finish(self, timeout: float = 90) -> None:
        """Wait until all is published and acked, then check it."""
        wait_until(
            lambda: f"{self.total} acks (now {len(self.confirmed)} confirmed, {len(self.acked)} acked)",
            lambda: len(self.acked) >= self.total or bool(self.errors),
            timeout,
        )
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), f"{thread.name} has not ended"
        assert self.errors == []
        self.check()

    def check(self) -> None:
        """No confirmed publish lost, none twice, order kept in each group."""
        assert len(self.confirmed) == self.total
        assert sorted(self.acked) == sorted(self.confirmed), "acked is what was confirmed, each once"
        assert len(set(self.confirmed.values())) == self.total, "each publish has a seq of its own"
        for group, leased in self.delivered.items():
            seqs = [seq for _, seq in leased]
            assert seqs == sorted(set(seqs)), f"{group}: delivered in order of seq, each once"
            for event, seq in leased:
                assert self.confirmed[event] == seq
            for publisher in range(self.publishers):
                counts = [count for (who, count), _ in leased if who == publisher]
                assert counts == sorted(counts), f"{group}: out of publisher {publisher}'s order"

    def _thread(self, step: Callable[[], None]) -> None:
        def run() -> None:
            try:
                step()
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, name=f"load-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _publish(self, view: View, number: int) -> None:
        for count in range(self.count):
            seq = view.publish(f"g{count % GROUPS}", [number, count])
            self.confirmed[number, count] = seq

    def _work(self, view: View) -> None:
        lease: Any = None
        while len(self.acked) < self.total and not self.errors:
            # A long visibility: what a fault strands would come back too late for the test's patience.
            lease = view.claim("w", 600, wait=0.2)
            if lease is None:
                continue
            event: Event = (lease.event[0], lease.event[1])
            with self._lock:
                self.delivered[lease.group_id].append((event, lease.seq))
            assert lease.attempts == 1
            view.ack(lease)
            with self._lock:
                self.acked.append(event)
