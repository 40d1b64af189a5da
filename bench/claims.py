"""Single claims, one in flight, in turn on two queues: is one slower than the other?"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .measure import quantile
from .report import Report, Row
from .workload import VISIBILITY

WARM = 10
MS = 1e3
BLOCKS = 5


async def claims_in_turn(
    transports: Sequence[Any],
    count: int,
    *,
    min_priority: int = 0,
    warm: bool = True,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> list[list[float]]:
    """How long each claim took on each transport, in seconds; what was claimed is acknowledged outside of the time.

    `beside` is run once a turn, and its times come last.
    """
    times: list[list[float]] = [[] for _ in transports]
    others: list[float] = []
    for n in range(-WARM if warm else 0, count):
        turn = list(zip(transports, times, strict=True))
        for transport, taken in turn if n % 2 else turn[::-1]:
            start = time.perf_counter()
            lease = await transport.claim("w", VISIBILITY, min_priority)
            if n >= 0:
                taken.append(time.perf_counter() - start)
            assert lease is not None, "a claim found nothing"
            await transport.ack(lease)
        if beside is not None:
            start = time.perf_counter()
            await beside()
            others.append(time.perf_counter() - start)
    return times if beside is None else [*times, others]


def blocks_of(values: Sequence[float]) -> list[float]:
    """The medians of five parts, in ms: how far they lie apart is the spread of the median."""
    size = max(1, len(values) // BLOCKS)
    return [quantile(values[k * size : (k + 1) * size], 0.5) * MS for k in range(min(BLOCKS, len(values)))]


def add_claims(
    benchmark: Any,
    report: Report,
    group: str,
    server: str,
    what: str,
    against: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    goal: float | None = 1.5,
    longest: float | None = None,
    beside: Sequence[float] = (),
) -> None:
    """The row of the medians, and one of the longest single claim where that has a goal (ms): beside the longest
    without, and the longest of as many plain writes of one row."""
    extra = {f"p{p}_ms": round(quantile(ours, p / 100) * MS, 3) for p in (50, 99)} | {
        "max_ms": round(max(ours) * MS, 3)
    }
    benchmark.extra_info[what] = extra
    row = Row(group, server, what, against, "ms", blocks_of(ours), blocks_of(theirs), goal, at_most=True, extra=extra)
    report.add(benchmark, row)
    if longest is not None:
        other = f"{against}: {max(theirs) * MS:.1f} ms; INSERT of one row: {max(beside) * MS:.1f} ms"
        what = f"{what}: longest single claim"
        report.add(benchmark, Row(group, server, what, other, "ms", [max(ours) * MS], [], longest, at_most=True))
