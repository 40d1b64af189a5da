"""A worker program of the shape that users of the plain transport have.

test_program.py runs it as it stands, and with one line replaced: the one that opens the transport.

    python old_worker.py URL NAME

It writes a line for each message that it has done, and ends when it is given one that says so.
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
        await transport.nack(lease, delay=5)
    else:
        sys.stdout.write(f"{lease.group_id} {lease.seq} {lease.event.number}\n")
        await transport.ack(lease)
    room.release()


async def main(url: str, name: str) -> None:
    """Claim one message at a time, and hand each to a task."""
    transport = await plain.AsyncRqliteTransport.from_url(url)
    room, failed = asyncio.Semaphore(AT_ONCE), set[int]()
    async with asyncio.TaskGroup() as tasks:
        while True:
            lease = await transport.claim(name, VISIBILITY)
            if lease is None:
                await asyncio.sleep(IDLE)
                continue
            if lease.event.text == "stop":
                await transport.ack(lease)
                break
            await room.acquire()
            tasks.create_task(handle(transport, lease, failed, room))
    await transport.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
