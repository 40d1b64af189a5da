"""SQLite under asyncio: the loop goes on while the database works or is locked."""

import asyncio
import gc
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rqfast import InvalidMessage, Lease, LeaseLost, connect_async


def test_the_loop_goes_on_while_another_program_holds_the_file(tmp_path: Path) -> None:
    """The lock is released by the same loop: were it blocked, the publish would end as Unavailable."""
    path = tmp_path / "queue.db"

    async def script() -> list[int]:
        async with connect_async(path, busy_timeout=20) as transport:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            publishes = [transport.publish("g", n) for n in range(3)]
            for _ in range(5):
                await asyncio.sleep(0.01)
                assert not any(publish.done() for publish in publishes)
            other.execute("COMMIT")
            other.close()
            async with asyncio.timeout(30):
                return await asyncio.gather(*publishes)

    seqs = asyncio.run(script())
    assert seqs == sorted(seqs)
    assert len(seqs) == 3


def test_a_claim_waits_while_the_loop_goes_on(tmp_path: Path) -> None:
    async def script() -> int:
        async with connect_async(tmp_path / "queue.db") as transport:
            claim = transport.claim(wait=None)
            await asyncio.sleep(0.05)
            assert not claim.done()
            seq = await transport.publish("g", 1)
            async with asyncio.timeout(30):
                lease = await claim
            assert lease is not None
            assert lease.seq == seq
            return seq

    assert asyncio.run(script()) == 1


def test_a_claim_that_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its error knows the frame that holds its future, and the future knows its error."""

    def errors() -> int:
        gc.collect()
        return sum(type(one) is LeaseLost for one in gc.get_objects())

    async def named(transport: Any) -> None:
        claim = transport.claim(ack=Lease(1, "g", None, "~w:x.1.0"))
        await claim

    async def bounded(transport: Any) -> None:
        await asyncio.wait_for(transport.claim(ack=Lease(1, "g", None, "~w:x.1.0")), 30)

    async def script() -> int:
        async with connect_async(tmp_path / "queue.db") as transport:
            before = errors()
            for way in (named, bounded) * 3:
                with suppress(LeaseLost):
                    await way(transport)
            return errors() - before

    # The last one may still be on its way out.
    assert asyncio.run(script()) <= 1


def test_bytes_that_a_model_takes_for_json_fail_nobody_else(tmp_path: Path) -> None:
    class Model:
        def model_dump_json(self) -> bytes:
            return b"\xff"

    async def script() -> int:
        async with connect_async(tmp_path / "queue.db") as transport:
            good = transport.publish("g", 1)
            with pytest.raises(InvalidMessage):
                transport.publish("g", Model())
            return await good

    assert asyncio.run(script()) == 1


def test_a_publish_behind_a_head_that_is_not_due_wakes_no_claim(tmp_path: Path) -> None:
    """A claim that goes out without a look, and finds nothing, would write for nothing."""
    sent: list[int] = []

    async def script() -> None:
        async with connect_async(tmp_path / "queue.db") as transport:
            await transport.publish("g", 0, rank=-1, delay=1000)
            waiting = transport.claim(wait=None)
            await asyncio.sleep(0.05)
            transport._gather.fresh = sent.append
            await transport.publish("g", 1)
            waiting.cancel()

    asyncio.run(script())
    assert sent == []
