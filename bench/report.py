"""The rows of a report: what was measured against what, the ratio and the goal that stands beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from .measure import Cost, Spread, middle, quantile

NO_DIFFERENCE = "no difference"
# A spread above this is noise, and proves neither a difference nor its absence.
STEADY = 0.2


@dataclass
class Row:
    """One figure.

    Attributes:
        ours, theirs: one value a round; `theirs` is empty where the goal is absolute.
        goal: of the ratio ours/theirs, or of ours where there is no other side; None: shown for orientation only.
        at_most: the goal is an upper bound, and less is better.
    """

    group: str
    server: str
    what: str
    against: str
    unit: str
    ours: list[float]
    theirs: list[float]
    goal: float | None
    at_most: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, of the medians."""
        if not self.theirs or not (other := Spread.of(self.theirs).median):
            return None
        return Spread.of(self.ours).median / other

    @property
    def differs(self) -> bool:
        """Whether the two sides lie outside of each other's spread."""
        ours, theirs = Spread.of(self.ours), Spread.of(self.theirs)
        return ours.low > theirs.high or ours.high < theirs.low

    @property
    def is_even(self) -> bool:
        """Whether it was measured more than once, without a difference."""
        return len(self.theirs) > 1 and len(self.ours) > 1 and not self.differs

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without one.  A difference inside a small spread is none."""
        value = self.ratio if self.theirs else Spread.of(self.ours).median
        if self.goal is None or value is None:
            return None
        if self.is_even and Spread.of(self.ours).half <= STEADY and Spread.of(self.theirs).half <= STEADY:
            value = 1.0
        return value <= self.goal if self.at_most else value >= self.goal

    def cells(self) -> list[str]:
        """As text: what, against, ours, theirs, ratio, goal, reached."""
        ratio = "" if self.ratio is None else f"{digits(self.ratio)}x"
        if self.is_even:
            ratio = f"{NO_DIFFERENCE} ({ratio})"
        times = "x" if self.theirs else ""
        goal = "" if self.goal is None else f"{'at most ' if self.at_most else ''}{self.goal:g}{times}"
        verdict = {None: "", True: "yes", False: "no"}[self.reached]
        theirs = spread_text(self.theirs, self.unit) if self.theirs else ""
        return [self.what, self.against, spread_text(self.ours, self.unit), theirs, ratio, goal, verdict]

    def as_json(self) -> dict[str, Any]:
        """For extra_info."""
        return asdict(self) | {"ratio": self.ratio, "reached": self.reached, "cells": self.cells()}


def digits(value: float) -> str:
    """Three significant digits, and none of a large number's lost."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread_text(values: list[float], unit: str) -> str:
    """Median and half of the spread."""
    spread = Spread.of(values)
    around = f" ±{spread.half:.0%}" if len(values) > 1 else ""
    return f"{digits(spread.median)} {unit}{around}"


class Report:
    """The rows of a session."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.machine: dict[str, str] = {}
        self.disks: dict[str, str] = {}

    def add(self, benchmark: Any, row: Row) -> None:
        """Take in a row; it goes into pytest-benchmark's JSON as well."""
        self.rows.append(row)
        benchmark.extra_info.setdefault("rows", []).append(row.as_json())

    def print(self) -> None:
        """All tables."""
        console = Console(width=160)
        for name, value in (self.machine | self.disks).items():
            console.print(f"{name:>12}: {value}", highlight=False)
        for group in dict.fromkeys((row.group, row.server) for row in self.rows):
            table = Table("", "against", "rqfast", "other side", "ratio", "goal", "reached", title=", ".join(group))
            for row in self.rows:
                if (row.group, row.server) == group:
                    table.add_row(*row.cells())
            console.print(table)


def costs_of(costs: dict[str, list[Cost]]) -> dict[str, Any]:
    """What the sides of a comparison cost a message, for extra_info: of the round of the median rate."""
    found: dict[str, Any] = {}
    for side, rounds in costs.items():
        cost = middle(rounds)
        found[side] = {
            "rates": [round(one.rate, 1) for one in rounds],
            "how": cost.how,
            "raft_entries_a_message": round(cost.entries / cost.messages, 4),
            "requests_a_message": None if cost.requests < 0 else round(cost.requests / cost.messages, 4),
            "client_cpu_us_a_message": round(cost.cpu / cost.messages * 1e6, 2),
        }
        if cost.latencies:
            found[side] |= {f"p{p}_ms": round(quantile(cost.latencies, p / 100) * 1e3, 2) for p in (50, 99)}
    return found
