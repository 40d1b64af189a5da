"""Another program holds the database: what callers are told stays true afterwards."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import rqfast
from tests.cluster import wait_until
from tests.contract.conftest import COLOURS
from tests.contract.views import Address, open_address


@contextmanager
def held(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction of another program, as long as this lasts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        other.execute("ROLLBACK")


def check_told(path: Path, told: dict[str, Any]) -> None:
    """What publishers of these events were told is true of the file."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT event, seq FROM messages").fetchall()
    seqs = dict(rows)
    assert len(seqs) == len(rows), "published twice"
    for event, said in told.items():
        seq = seqs.get(f'"{event}"')
        if isinstance(said, rqfast.Unavailable | rqfast.Closed):
            assert seq is None, f"{event}: told {said!r}, and it is in"
        elif not isinstance(said, rqfast.OutcomeUnknown):
            assert seq == said, f"{event}: told {said!r}"


async def answers(calls: dict[str, asyncio.Future[Any]]) -> dict[str, Any]:
    async with asyncio.timeout(30):
        said = await asyncio.gather(*calls.values(), return_exceptions=True)
    return dict(zip(calls, said, strict=True))


def test_a_lock_held_for_longer_than_calls_wait(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"

    async def script() -> dict[str, Any]:
        async with rqfast.connect_async(path, busy_timeout=0.3) as transport:
            told = {"before": transport.publish("g", "before")}
            await told["before"]
            with held(path):
                told["one"] = transport.publish("g", "one")
                await asyncio.sleep(0.1)
                told["two"] = transport.publish("g", "two")
                said = await answers(told)
                assert isinstance(said["one"], rqfast.Unavailable)
                assert isinstance(said["two"], rqfast.Unavailable)
                told["three"] = transport.publish("g", "three")
                await asyncio.sleep(0.1)
            said = await answers(told)
            assert isinstance(said["three"], int)
            await transport.publish("g", "after")
            return said

    check_told(path, asyncio.run(script()))


@pytest.mark.parametrize("released", ["before", "after"])
def test_closing_while_a_lock_is_held(tmp_path: Path, released: str) -> None:
    """The lock goes before or after the time-out of the transaction that waits for it."""
    path = tmp_path / "queue.db"

    async def script() -> dict[str, Any]:
        transport = await rqfast.connect_async(path, busy_timeout=0.8)
        told = {"before": transport.publish("g", "before")}
        await told["before"]
        with held(path):
            told["in flight"] = transport.publish("g", "in flight")
            await asyncio.sleep(0.1)
            told["in line"] = transport.publish("g", "in line")
            closing = asyncio.ensure_future(transport.close())
            await asyncio.sleep(0.1 if released == "before" else 1.0)
        async with asyncio.timeout(30):
            await closing
        return await answers(told)

    check_told(path, asyncio.run(script()))


def test_the_loop_ends_while_a_lock_is_held(tmp_path: Path) -> None:
    """A transaction that waits for the lock cannot be called back: nobody is told that it was not applied.

    The tasks are cancelled as `asyncio.run` does at its end, and `close` when its patience does.
    """
    path = tmp_path / "queue.db"

    async def script() -> dict[str, Any]:
        transport: Any = await rqfast.connect_async(path, busy_timeout=20)
        told = {"before": transport.publish("g", "before")}
        await told["before"]
        with held(path):
            told["in flight"] = transport.publish("g", "in flight")
            await asyncio.sleep(0.1)
            told["in line"] = transport.publish("g", "in line")
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            async with asyncio.timeout(10):
                await asyncio.wait((told["in flight"],))
        async with asyncio.timeout(30):
            await transport.close()
        return await answers(told)

    check_told(path, asyncio.run(script()))


@pytest.mark.parametrize("colour", COLOURS)
def test_a_claim_that_acknowledged_and_then_meets_a_lock(tmp_path: Path, colour: str) -> None:
    """Its `ack=` was applied, so it is not told that nothing was: it found nothing."""
    path = tmp_path / "queue.db"
    with open_address(Address(str(path), {}, colour), busy_timeout=0.1) as view, ThreadPoolExecutor(1) as pool:
        view.publish("g", "before")
        lease = view.claim("w", 600)
        assert lease is not None
        view.publish("later", "after", delay=0.3)
        claim = pool.submit(view.claim, "w", 600, wait=0.8, ack=lease)
        wait_until("the ack of a waiting claim", lambda: seqs_of(path) != [lease.seq, lease.seq + 1])
        with held(path):
            assert claim.result(30) is None
        assert seqs_of(path) == [lease.seq + 1]
        following = view.claim("w", wait=10)
        assert following is not None and following.event == "after"


def seqs_of(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as database:
        return [seq for (seq,) in database.execute("SELECT seq FROM messages ORDER BY seq")]
