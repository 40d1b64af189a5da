"""Group core: client CPU of a call over the loop's own floor, the whole client included (encoding, HTTP, replies)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from rqfast import connect_async
from rqfast._core import decode_reply, slot_rows

from .coalescer import Coalescer
from .floor import cpu_of_futures
from .program import Lane, publish_of, texts_of
from .report import Report, Row
from .servers import Server
from .sizes import Sizes
from .workload import VISIBILITY, Work, check_published, check_worked, fill, queue_on

pytestmark = [pytest.mark.benchmark(group="core"), pytest.mark.timeout(600)]

IN_FLIGHT = 2048
US = 1e6

Publish = Callable[[str, Any], Any]


async def cpu_of_publishes(publish: Publish, work: Work) -> float:
    """Process time of all publishes; groups and events are there beforehand."""
    rows = list(work.rows())
    turn = iter(rows)

    async def task() -> None:
        for group, event in turn:
            await publish(group, event)

    start = time.process_time()
    await asyncio.gather(*(task() for _ in range(IN_FLIGHT)))
    return time.process_time() - start


def run_publishes(server: Server, work: Work, opening: Callable[[str], Any]) -> float:
    """On a new queue."""

    async def run(queue: str) -> float:
        async with opening(queue) as transport:
            return await cpu_of_publishes(transport.publish, work)

    with queue_on(server) as queue:
        seconds = asyncio.run(run(queue))
        check_published(server, queue, work)
        return seconds


def test_publish_cpu(benchmark: Any, server: Server, report: Report, sizes: Sizes, rounds: int) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    floors: list[float] = []
    work = Work(sizes.floor, 1000)

    def one_round() -> None:
        floor = cpu_of_futures(work.messages, IN_FLIGHT)
        floors.append(floor / work.messages * US)
        plain = run_publishes(server, work, lambda queue: Coalescer(server, queue))
        mine = run_publishes(server, work, lambda queue: connect_async(server.url, queue=queue))
        theirs.append((plain - floor) / work.messages * US)
        ours.append((mine - floor) / work.messages * US)

    benchmark.pedantic(one_round, rounds=rounds)
    benchmark.extra_info["floor_us"] = floors
    what = f"client CPU of a publish over the floor, {IN_FLIGHT:,} in flight"
    against = "coalescer in plain Python and orjson"
    report.add(benchmark, Row("core", server.name, what, against, "us", ours, theirs, None, at_most=True))
    add_cpu(benchmark, report, server, what, ours, 0.6)
    benchmark.extra_info["cpu"] = {
        "publish, rqfast, over the floor": ours,
        "publish, coalescer in plain Python, over the floor": theirs,
    }


def test_claim_and_ack_cpu(benchmark: Any, server: Server, report: Report, sizes: Sizes, rounds: int) -> None:
    ours: list[float] = []
    work = Work(sizes.floor // 2, 4000)

    async def work_off(transport: Any, k: int, done: list[Any]) -> None:
        worker = f"w{k}"
        while (lease := await transport.claim(worker, VISIBILITY)) is not None:
            done.append(lease)
            await transport.ack(lease)

    async def run(queue: str, done: list[Any]) -> float:
        async with connect_async(server.url, queue=queue) as transport:
            start = time.process_time()
            await asyncio.gather(*(work_off(transport, k, done) for k in range(IN_FLIGHT)))
            return time.process_time() - start

    def one_round() -> None:
        floor = cpu_of_futures(2 * work.messages, IN_FLIGHT)
        done: list[Any] = []
        with queue_on(server) as queue:
            fill(server, queue, work)
            mine = asyncio.run(run(queue, done))
            check_worked(server, queue, work, ((lease.group_id, lease.event["number"]) for lease in done))
        ours.append((mine - floor) / work.messages * US)

    benchmark.pedantic(one_round, rounds=rounds)
    add_cpu(benchmark, report, server, f"client CPU of a claim+ack over the floor, {IN_FLIGHT:,} in flight", ours, 0.9)
    benchmark.extra_info["cpu"] = {"claim+ack, rqfast, over the floor": ours}


def add_cpu(benchmark: Any, report: Report, server: Server, what: str, ours: list[float], goal: float) -> None:
    """A row with an absolute goal."""
    report.add(benchmark, Row("core", server.name, what, "", "us", ours, [], goal, at_most=True))


def test_encoding(benchmark: Any) -> None:
    """The core alone, without I/O: 1,000 publishes become a request."""
    texts, work = texts_of("bench"), Work(1000, 100)
    rows = list(work.rows())

    def encode() -> int:
        return len(Lane(texts).request([publish_of(group, event) for group, event in rows]).body)

    assert benchmark.pedantic(encode, rounds=200, warmup_rounds=20) > 50_000


def test_decoding(benchmark: Any) -> None:
    """A reply of 1,000 rows is taken apart."""
    row = [1, "g1", '{"number":1}', 1, 0, None, 1.7e9, 1.7e9, 0, 7]
    reply = orjson.dumps({"results": [{}, {"columns": list("abcdefghij"), "values": [row] * 1000}]})

    def decode() -> int:
        found, error = decode_reply(reply)
        assert error is None
        return len(slot_rows(found)[1])

    assert benchmark.pedantic(decode, rounds=200, warmup_rounds=20) == 1000
