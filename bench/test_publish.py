"""Group publish: single calls in flight, whole iterables, and a script's own loop."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from . import bare, ours, plain, raw
from .best import Best
from .compare import PER_SECOND, RQFAST, add_rates, cpu_of, rounds_of
from .measure import Cost, stopwatch
from .report import Report, Row
from .servers import Server
from .sizes import Sizes
from .workload import Work, queue_on

pytestmark = [pytest.mark.benchmark(group="publish", timer=stopwatch), pytest.mark.timeout(900)]

IN_FLIGHT = 4096
GROUPS = 1000
# What the raw ceiling is with no more in flight than rqfast has.
ALIKE, SHAPE_ALIKE = "raw with 4,096 in flight", raw.Shape(2048, 2)
GOALS = {"1 node": {"bare": 15, "httpx": 150, "raw": 0.9}, "3 nodes": {"bare": 10, "httpx": 110, "raw": 0.9}}
CONCURRENCY = (1, 8, 64, 256, 1024, 4096)
# The 8 bytes of each seq, and what an allocator adds to a list of them that grows.
BYTES_A_MESSAGE = 12


def raw_best(server: Server, best: Best, sizes: Sizes) -> raw.Shape:
    """The shape in which raw publishes fastest."""

    def try_one(shape: raw.Shape) -> Cost:
        with queue_on(server) as queue:
            return raw.publish(server, queue, Work(sizes.publishes // 2, GROUPS), shape)

    return best.of(f"raw publish {server.name}", raw.PUBLISH_SHAPES, try_one)[0]


def test_single_calls(benchmark: Any, server: Server, report: Report, best: Best, sizes: Sizes, rounds: int) -> None:
    def on_new_queue(run: Any, messages: int, setting: Any) -> Cost:
        with queue_on(server) as queue:
            cost: Cost = run(server, queue, Work(messages, GROUPS), setting)
        return cost

    callers, bares = best.of(
        f"bare publish {server.name}", bare.CALLERS, lambda n: on_new_queue(bare.publish, sizes.bare_publishes, n)
    )
    pool, plains = best.of(
        f"httpx publish {server.name}",
        plain.CALLERS,
        lambda n: plain.publish(server, max(200, sizes.plain_publishes if n > 1 else 0), n),
    )
    shape = raw_best(server, best, sizes)
    costs = rounds_of(
        benchmark,
        rounds,
        {
            "httpx": lambda: plain.publish(server, sizes.plain_publishes, pool),
            "bare": lambda: on_new_queue(bare.publish, sizes.bare_publishes, callers),
            "raw": lambda: on_new_queue(raw.publish, sizes.publishes, shape),
            ALIKE: lambda: on_new_queue(raw.publish, sizes.publishes, SHAPE_ALIKE),
            RQFAST: lambda: on_new_queue(ours.publish, sizes.publishes, IN_FLIGHT),
        },
    )
    goals = GOALS.get(server.name, GOALS["1 node"]) | {ALIKE: None}
    add_rates(benchmark, report, server, f"single publish, {IN_FLIGHT:,} in flight", costs, goals)
    curve = {n: on_new_queue(ours.publish, min(sizes.publishes, 600 + 20 * n), n).rate for n in CONCURRENCY}
    cpu = cpu_of(costs)
    benchmark.extra_info["cpu"] = {
        "publish, rqfast": cpu[RQFAST],
        "publish, bare": cpu["bare"],
        "publish, httpx": cpu["httpx"],
    }
    for n in bare.FEW_CALLERS:
        bares[n] = on_new_queue(bare.publish, sizes.bare_publishes // 8, n)
    benchmark.extra_info["throughput"] = {
        RQFAST: curve,
        "bare": {n: cost.rate for n, cost in sorted(bares.items())},
        "httpx": {n: cost.rate for n, cost in plains.items()},
    }


def test_publish_many(benchmark: Any, server: Server, report: Report, best: Best, sizes: Sizes, rounds: int) -> None:
    work = Work(sizes.many, GROUPS)
    shape = raw_best(server, best, sizes)

    def on_new_queue(run: Any, *setting: Any) -> Cost:
        with queue_on(server) as queue:
            cost: Cost = run(server, queue, work, *setting)
        return cost

    costs = rounds_of(
        benchmark,
        min(rounds, 3),
        {
            "raw": lambda: on_new_queue(raw.publish, shape),
            "async": lambda: on_new_queue(ours.publish_many_async),
            "publish_soon": lambda: on_new_queue(ours.publish_soon),
            RQFAST: lambda: on_new_queue(ours.publish_many_sync),
        },
    )
    add_rates(benchmark, report, server, f"publish_many of {work.messages:,}, sync", costs, {"raw": 0.9})
    raws, sync = ([cost.rate for cost in costs[side]] for side in ("raw", RQFAST))
    for what, side, against, theirs, goal in (
        (f"publish_many of {work.messages:,}, async", "async", f"raw: {shape}", raws, 0.9),
        ("publish_soon for each row, then flush, sync", "publish_soon", "publish_many, sync", sync, 0.5),
    ):
        rates = [cost.rate for cost in costs[side]]
        report.add(benchmark, Row("publish", server.name, what, against, PER_SECOND, rates, theirs, goal))
    cpu = cpu_of(costs)
    benchmark.extra_info["cpu"] = {
        "publish_many, sync": cpu[RQFAST],
        "publish_many, async": cpu["async"],
        "bodies encoded beforehand": cpu["raw"],
    }
    report.add(
        benchmark,
        Row("core", server.name, "client CPU of publish_many, a row", "", "us", cpu[RQFAST], [], 0.8, at_most=True),
    )


def test_memory(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    """In a process of its own, so that nothing else's memory is seen."""
    messages = sizes.memory
    with queue_on(server) as queue:
        command = [sys.executable, "-m", "bench.memory", server.url, queue, str(messages)]
        told = benchmark.pedantic(
            lambda: subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout, rounds=1
        )
    grown = json.loads(told)
    what = f"memory of publish_many(iterator), {messages:,}: growth after the first tenth"
    row = Row("publish", server.name, what, "", "bytes a message", [grown["bytes_a_message"]], [], BYTES_A_MESSAGE)
    row.at_most, row.extra = True, grown
    report.add(benchmark, row)
