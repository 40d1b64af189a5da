"""Group claim+ack: many workers, a thousand of them, and one."""

from __future__ import annotations

from typing import Any

import pytest

from . import bare, ours, plain, raw
from .best import Best
from .compare import RQFAST, add_rates, cpu_of, rounds_of
from .measure import Cost, middle, stopwatch
from .report import Report, Row
from .servers import Server
from .sizes import Sizes
from .workload import Work, fill, queue_on

pytestmark = [pytest.mark.benchmark(group="claim+ack", timer=stopwatch), pytest.mark.timeout(900)]

GROUPS, MANY_GROUPS = 1000, 4000
WORKERS, MANY_WORKERS = 64, 1024
# What the raw ceiling is with no more in flight than rqfast has.
ALIKE, SHAPE_ALIKE = "raw with 1,024 in flight", raw.Shape(512, 2)
CONCURRENCY = (1, 8, 64, 256, 1024)
GOALS = {"1 node": {"bare": 12, "httpx": 100}, "3 nodes": {"bare": 10, "httpx": 80}}


class Sides:
    """All sides on one server, each on a queue that was just filled."""

    def __init__(self, server: Server, best: Best, sizes: Sizes) -> None:
        self.server, self._best, self._sizes = server, best, sizes

    def filled(self, run: Any, work: Work, *setting: Any, **options: Any) -> Cost:
        """One run."""
        with queue_on(self.server) as queue:
            fill(self.server, queue, work)
            cost: Cost = run(self.server, queue, work, *setting, **options)
            return cost

    def run_bare(self, callers: int) -> Cost:
        """The bare client with so many in flight."""
        return self.filled(bare.claim_and_ack, Work(self._sizes.bare_worked, GROUPS), callers)

    def run_plain(self, callers: int) -> Cost:
        """The plain transport with so many callers."""
        messages = self._sizes.plain_alone if callers == 1 else max(self._sizes.plain_worked, callers)
        return plain.claim_and_ack(self.server, messages, callers)

    def run_raw(self, shape: raw.Shape) -> Cost:
        """The raw ceiling."""
        return self.filled(raw.claim_and_ack, Work(self._sizes.worked_wide, MANY_GROUPS), shape)

    def try_raw(self, shape: raw.Shape) -> Cost:
        """The same, in short."""
        return self.filled(raw.claim_and_ack, Work(self._sizes.worked_wide // 3, MANY_GROUPS), shape)

    def bare_best(self) -> tuple[int, dict[int, Cost]]:
        """The better number in flight."""
        return self._best.of(f"bare claim {self.server.name}", bare.CALLERS, self.run_bare)

    def plain_best(self) -> tuple[int, dict[int, Cost]]:
        """The best number of callers."""
        return self._best.of(f"httpx claim {self.server.name}", plain.CALLERS, self.run_plain)

    def raw_best(self) -> raw.Shape:
        """The best shape."""
        return self._best.of(f"raw claim {self.server.name}", raw.WORK_SHAPES, self.try_raw)[0]


@pytest.fixture
def sides(server: Server, best: Best, sizes: Sizes) -> Sides:
    """Of this server."""
    return Sides(server, best, sizes)


def test_workers(benchmark: Any, server: Server, report: Report, sides: Sides, sizes: Sizes, rounds: int) -> None:
    callers, bares = sides.bare_best()
    pool, plains = sides.plain_best()
    work = Work(sizes.worked, GROUPS)
    costs = rounds_of(
        benchmark,
        rounds,
        {
            "httpx": lambda: sides.run_plain(pool),
            "bare": lambda: sides.run_bare(callers),
            RQFAST: lambda: sides.filled(ours.claim_and_ack, work, WORKERS),
        },
    )
    goals = GOALS.get(server.name, GOALS["1 node"])
    add_rates(benchmark, report, server, f"{WORKERS} workers, claim then ack, {GROUPS:,} groups", costs, goals)
    cpu = cpu_of(costs)
    benchmark.extra_info["cpu"] = {
        "claim+ack, rqfast": cpu[RQFAST],
        "claim+ack, bare": cpu["bare"],
        "claim+ack, httpx": cpu["httpx"],
    }
    curve = {
        n: sides.filled(ours.claim_and_ack, Work(min(sizes.worked, 400 + 20 * n), MANY_GROUPS), n).rate
        for n in CONCURRENCY
    }
    for n in bare.FEW_CALLERS:
        bares[n] = sides.filled(bare.claim_and_ack, Work(sizes.bare_worked // 8, GROUPS), n)
    benchmark.extra_info["throughput"] = {
        RQFAST: curve,
        "bare": {n: cost.rate for n, cost in sorted(bares.items())},
        "httpx": {n: cost.rate for n, cost in plains.items()},
    }


def test_many_workers(benchmark: Any, server: Server, report: Report, sides: Sides, sizes: Sizes, rounds: int) -> None:
    pool, shape = sides.plain_best()[0], sides.raw_best()
    work = Work(sizes.worked_wide, MANY_GROUPS)
    costs = rounds_of(
        benchmark,
        min(rounds, 3),
        {
            "httpx": lambda: sides.run_plain(pool),
            "raw": lambda: sides.run_raw(shape),
            ALIKE: lambda: sides.run_raw(SHAPE_ALIKE),
            RQFAST: lambda: sides.filled(ours.claim_and_ack, work, MANY_WORKERS),
        },
    )
    what = f"{MANY_WORKERS:,} in flight, claim then ack, {MANY_GROUPS:,} groups"
    add_rates(benchmark, report, server, what, costs, {"httpx": 280, "raw": 0.9, ALIKE: None})


@pytest.mark.parametrize(
    ("together", "what", "goal", "entries"),
    [
        (True, "one worker, lease = claim(ack=lease)", 3.3, 1.0),
        (False, "one worker, ack(lease), then claim", 2.0, 2.0),
    ],
    ids=["together", "apart"],
)
def test_one_worker(
    benchmark: Any,
    server: Server,
    report: Report,
    sides: Sides,
    sizes: Sizes,
    rounds: int,
    together: bool,
    what: str,
    goal: float,
    entries: float,
) -> None:
    work = Work(sizes.worked_alone, 100)
    costs = rounds_of(
        benchmark,
        min(rounds, 3),
        {
            "httpx": lambda: sides.run_plain(1),
            RQFAST: lambda: sides.filled(ours.claim_and_ack, work, 1, together=together),
        },
    )
    add_rates(benchmark, report, server, what, costs, {"httpx": goal})
    cost = middle(costs[RQFAST])
    # The first claim of all has no ack to go with.
    written = [round((cost.entries - together) / cost.messages, 2)]
    report.add(
        benchmark,
        Row("claim+ack", server.name, what, "httpx writes 4.0", "Raft entries", written, [], entries, at_most=True),
    )
