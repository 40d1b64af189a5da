"""One hot group: runs of 100 against single claims, in turn, on one real node."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from rqfast import connect
from tests.cluster import NO_SERVER, Cluster, find_rqlited

LIMIT = 100
ROUNDS = 5
# So many messages are worked in a round; more are behind them.
SINGLE = 500
RUNS = 20_000
BEHIND = 5_000

Side = Callable[[Any, int], list[Any]]


def single_then(view: Any, count: int) -> list[Any]:
    """Claim, then acknowledge."""
    done = []
    while len(done) < count:
        lease = view.claim("w")
        view.ack(lease)
        done.append(lease.event)
    return done


def single_with(view: Any, count: int) -> list[Any]:
    """Acknowledge in the commit of the next claim."""
    done = []
    lease = view.claim("w")
    while len(done) < count:
        done.append(lease.event)
        lease = view.claim("w", ack=lease)
    return done


def run_then(view: Any, count: int) -> list[Any]:
    """Claim a run, then acknowledge it as a list."""
    done = []
    while len(done) < count:
        run = view.claim_run("w", 30, LIMIT)
        assert view.ack_many(run) == []
        done += [lease.event for lease in run]
    return done


def run_with(view: Any, count: int) -> list[Any]:
    """Acknowledge in the commit of the next run."""
    done = []
    run = view.claim_run("w", 30, LIMIT)
    while len(done) < count:
        done += [lease.event for lease in run]
        run = view.claim_run("w", 30, LIMIT, ack=run)
    return done


SIDES: dict[str, tuple[Side, int]] = {
    "claim, then ack": (single_then, SINGLE),
    "claim with the last ack": (single_with, SINGLE),
    "claim_run, then ack_many": (run_then, RUNS),
    "claim_run with the last acks": (run_with, RUNS),
}


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    """One rqlited."""
    if find_rqlited() is None:
        pytest.skip(NO_SERVER)
    with Cluster(1) as cluster:
        yield cluster


def rate(cluster: Cluster, side: Side, count: int) -> tuple[float, float]:
    """Messages a second and Raft entries a message; each message once, in order."""
    with connect(cluster.url, queue=f"q{uuid.uuid4().hex[:12]}") as view:
        view.publish_many(("hot", {"n": n, "text": "x" * 40}) for n in range(count + BEHIND))
        entries, start = cluster.raft_entries(), time.perf_counter()
        done = side(view, count)
        seconds = time.perf_counter() - start
        assert [event["n"] for event in done] == list(range(len(done))) and len(done) >= count
        return len(done) / seconds, (cluster.raft_entries() - entries) / len(done)


@pytest.mark.timeout(600)
def test_one_hot_group(benchmark: BenchmarkFixture, node: Cluster) -> None:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}

    def one_round() -> None:
        for name, (side, count) in SIDES.items():
            found[name].append(rate(node, side, count))

    benchmark.pedantic(one_round, rounds=ROUNDS)
    rates = {name: median(one for one, _ in results) for name, results in found.items()}
    for name, results in found.items():
        benchmark.extra_info[name] = {
            "messages a second": [round(one) for one, _ in results],
            "Raft entries a message": round(results[-1][1], 3),
        }
    for single, run in (tuple(SIDES)[::2], tuple(SIDES)[1::2]):
        benchmark.extra_info[f"{run}: times {single}"] = round(rates[run] / rates[single], 1)
