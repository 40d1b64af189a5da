"""How fast one client is, on the embedded engine and on one real node: `make bench`.

Each figure is a rate of whole calls, each confirmed by its own commit; a run that lost a message or broke the order of
a group fails.
"""

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from rqfast import connect_async
from tests import cluster

GROUPS = 1000
MESSAGES = 20_000
ROUNDS = 3

Setup = Callable[[], tuple[tuple[str], dict[str, Any]]]


@pytest.fixture(params=["embedded", "one node"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database."""
    if request.param == "embedded":
        yield str(tmp_path / "queue.db")
        return
    if cluster.find_rqlited() is None:
        pytest.skip("no rqlited on PATH or in RQFAST_RQLITED")
    with cluster.Cluster(1) as nodes:
        yield nodes.urls[0]


def fresh_queue() -> tuple[tuple[str], dict[str, Any]]:
    """A queue of its own for each round."""
    return (f"q{uuid.uuid4().hex[:12]}",), {}


def tell(benchmark: BenchmarkFixture, what: str) -> None:
    """Put the rate beside the time."""
    benchmark.extra_info[f"{what} a second"] = round(MESSAGES / benchmark.stats.stats.median)


async def publish(url: str, queue: str, in_flight: int) -> None:
    """Publish with so many single calls in flight; the seqs must rise in each group."""
    numbers = iter(range(MESSAGES))
    seqs: dict[int, list[int]] = defaultdict(list)

    async with connect_async(url, queue=queue) as transport:

        async def publisher() -> None:
            for n in numbers:
                seqs[n % GROUPS].append(await transport.publish(f"g{n % GROUPS}", {"n": n, "text": "x" * 40}))

        await asyncio.gather(*(publisher() for _ in range(in_flight)))
    assert sum(map(len, seqs.values())) == MESSAGES
    assert len({seq for of_group in seqs.values() for seq in of_group}) == MESSAGES


async def work(url: str, queue: str, workers: int, together: bool) -> None:
    """Claim and acknowledge all; `together` acknowledges in the commit of the next claim."""
    done: dict[str, list[int]] = defaultdict(list)
    async with connect_async(url, queue=queue) as transport:

        async def worker() -> None:
            lease = await transport.claim("w")
            while lease is not None:
                done[lease.group_id].append(lease.event)
                if together:
                    lease = await transport.claim("w", ack=lease)
                else:
                    await transport.ack(lease)
                    lease = await transport.claim("w")

        await asyncio.gather(*(worker() for _ in range(workers)))
    assert done == {f"g{k}": list(range(k, MESSAGES, GROUPS)) for k in range(GROUPS)}


def filled_queue(url: str) -> Setup:
    """A queue with all messages in it, for each round."""

    def setup() -> tuple[tuple[str], dict[str, Any]]:
        arguments, options = fresh_queue()

        async def fill() -> None:
            async with connect_async(url, queue=arguments[0]) as transport:
                await transport.publish_many((f"g{n % GROUPS}", n) for n in range(MESSAGES))

        asyncio.run(fill())
        return arguments, options

    return setup


@pytest.mark.parametrize("in_flight", [64, 4096])
def test_publish(benchmark: BenchmarkFixture, url: str, in_flight: int) -> None:
    benchmark.pedantic(lambda queue: asyncio.run(publish(url, queue, in_flight)), setup=fresh_queue, rounds=ROUNDS)
    tell(benchmark, "publishes")


@pytest.mark.parametrize("together", [False, True], ids=["claim, then ack", "claim with ack"])
@pytest.mark.parametrize("workers", [64, 1024])
def test_work(benchmark: BenchmarkFixture, url: str, workers: int, together: bool) -> None:
    benchmark.pedantic(
        lambda queue: asyncio.run(work(url, queue, workers, together)), setup=filled_queue(url), rounds=ROUNDS
    )
    tell(benchmark, "messages")
