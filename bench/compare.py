"""Rounds of all sides in turn, on one server, in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .measure import Cost
from .report import Report, Row, costs_of
from .servers import Server

RQFAST = "rqfast"
PER_SECOND = "/s"

Sides = dict[str, Callable[[], Cost]]


def rounds_of(benchmark: Any, rounds: int, sides: Sides) -> dict[str, list[Cost]]:
    """Let each side run in each round; the time that pytest-benchmark shows is that of the side "rqfast"."""
    costs: dict[str, list[Cost]] = {name: [] for name in sides}

    def others() -> None:
        for name, run in sides.items():
            if name != RQFAST:
                costs[name].append(run())

    benchmark.pedantic(lambda: costs[RQFAST].append(sides[RQFAST]()), setup=others, rounds=rounds)
    benchmark.extra_info["sides"] = costs_of(costs)
    return costs


def add_rates(
    benchmark: Any,
    report: Report,
    server: Server,
    what: str,
    costs: dict[str, list[Cost]],
    goals: Mapping[str, float | None],
) -> None:
    """A row for each other side: messages a second against its own, and the goal."""
    ours = [cost.rate for cost in costs[RQFAST]]
    for side, goal in goals.items():
        theirs = [cost.rate for cost in costs[side]]
        against = f"{side}: {costs[side][0].how}" if costs[side][0].how else side
        row = Row(benchmark.group, server.name, what, against, PER_SECOND, ours, theirs, goal)
        row.extra = benchmark.extra_info["sides"]
        report.add(benchmark, row)


def cpu_of(costs: dict[str, list[Cost]]) -> dict[str, list[float]]:
    """Client CPU a message of each side, in us, one value a round."""
    return {side: [cost.cpu / cost.messages * 1e6 for cost in found] for side, found in costs.items()}
