"""A fan-in: readings of 1,000 customers come in all at once, and one subscription works them, each customer in order.

python examples/fan_in.py [URL]        URL: http://host:4001 for rqlite; by default a file in a temporary folder
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator

from rqfast import Context, Worker, connect_async
from rqfast.worker.lifespan import serving

CUSTOMERS, READINGS = 1000, 5


def readings() -> Iterator[tuple[str, int]]:
    """The first of every customer, then the second of every customer, and so on."""
    for number in range(READINGS):
        for customer in range(CUSTOMERS):
            yield f"customer/{customer}", number


async def main(url: str) -> None:
    """Publish, work, check."""
    done: dict[str, list[int]] = defaultdict(list)
    at_work, most = set[str](), 0

    async with connect_async(url, max_poll=0.1) as queue:
        # Of 1,000 groups 64 are in work at once, in fair turns; of one group never more than one message.
        worker = Worker(queue, concurrency=64)

        @worker.subscriber(prefix="customer/")
        async def total(reading: int, ctx: Context) -> None:
            nonlocal most
            assert ctx.group not in at_work, "two readings of one customer at once"
            at_work.add(ctx.group)
            most = max(most, len(at_work))
            await asyncio.sleep(0.001)
            done[ctx.group].append(reading)
            at_work.remove(ctx.group)

        start = time.monotonic()
        async with serving(worker):
            await queue.publish_many(readings())
            while (await queue.stats()).messages:
                await asyncio.sleep(0.05)
        seconds = time.monotonic() - start

    count = sum(map(len, done.values()))
    in_order = sum(numbers == list(range(READINGS)) for numbers in done.values())
    print(f"{count:,} readings of {len(done):,} customers, {in_order:,} of them in order")
    print(f"up to {most} at once, {count / seconds:,.0f} a second")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/readings.db"))
