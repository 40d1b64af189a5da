"""The same program with the sync class, which some users call from inside a running event loop.

See old_worker.py; here too one line is replaced.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import bench.reference as plain
import rqfast  # noqa: F401 - for the line that replaces the other

AT_ONCE = 256
VISIBILITY = 30.0
IDLE = 0.005


async def handle(transport: Any, lease: Any, failed: set[int], room: asyncio.Semaphore) -> None:
    """Work one message off; some fail the first time."""
    await asyncio.sleep(0.001)
    if lease.event.text == "fail" and lease.seq not in failed:
        failed.add(lease.seq)
        transport.nack(lease, delay=5)
    else:
        sys.stdout.write(f"{lease.group_id} {lease.seq} {lease.event.number}\n")
        transport.ack(lease)
    room.release()


async def main(url: str, name: str) -> None:
    """Claim one message at a time, and hand each to a task."""
    transport = plain.RqliteTransport.from_url(url)
    room, failed = asyncio.Semaphore(AT_ONCE), set[int]()
    async with asyncio.TaskGroup() as tasks:
        while True:
            lease = transport.claim(name, VISIBILITY)
            if lease is None:
                await asyncio.sleep(IDLE)
                continue
            if lease.event.text == "stop":
                transport.ack(lease)
                break
            await room.acquire()
            tasks.create_task(handle(transport, lease, failed, room))
    transport.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
