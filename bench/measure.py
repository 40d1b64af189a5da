"""What a stretch of work cost: time, and what the server and this process saw of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.cluster import Node

COUNTED = ("executions", "queries", "requests")


@dataclass
class Cost:
    """Of one round: messages done, and the sums for all of them."""

    messages: int
    seconds: float = 0.0
    cpu: float = 0.0
    entries: int = 0
    requests: int = 0

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


@contextmanager
def measured(node: Node, messages: int) -> Iterator[Cost]:
    """Measure the body; the server's counters are read outside of the time."""
    cost = Cost(messages)
    entries, requests = _entries(node), _requests(node)
    start, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.seconds = time.perf_counter() - start
    cost.cpu = time.process_time() - cpu
    cost.requests = _requests(node) - requests
    cost.entries = _entries(node) - entries


def _entries(node: Node) -> int:
    return int(node.raft()["last_log_index"])


def _requests(node: Node) -> int:
    status, body = node.request("GET", "/debug/vars")
    assert status == 200
    counters = json.loads(body)["http"]
    return sum(int(counters[name]) for name in COUNTED)


@dataclass
class Row:
    """Of one scenario: the median round of each side, and what it cost there for each message."""

    what: str
    ours: list[Cost]
    theirs: list[Cost]

    @property
    def ratio(self) -> float:
        """How many times as fast."""
        return median(cost.rate for cost in self.ours) / median(cost.rate for cost in self.theirs)

    def cells(self) -> list[str]:
        """As text, for a table."""
        ours, theirs = median_of(self.ours), median_of(self.theirs)
        return [
            self.what,
            f"{ours.rate:,.0f}",
            f"{theirs.rate:,.0f}",
            f"{self.ratio:,.1f}",
            *(
                f"{of(ours) / ours.messages:.{digits}f} | {of(theirs) / theirs.messages:.{digits}f}"
                for of, digits in (
                    (lambda cost: cost.entries, 3),
                    (lambda cost: cost.requests, 3),
                    (lambda cost: cost.cpu * 1e6, 0),
                )
            ),
        ]


def median_of(costs: list[Cost]) -> Cost:
    """The round of the median rate."""
    return sorted(costs, key=lambda cost: cost.rate)[len(costs) // 2]
