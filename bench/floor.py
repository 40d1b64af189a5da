"""The loop's own floor: what awaiting costs, whatever is awaited."""

from __future__ import annotations

import asyncio
import time


def cpu_of_futures(count: int, in_flight: int) -> float:
    """Process time, in seconds, of `count` bare futures: awaited by so many tasks and resolved in batches."""

    async def run() -> float:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []
        numbers = iter(range(count))

        def resolve() -> None:
            batch = waiting[:]
            waiting.clear()
            for future in batch:
                future.set_result(None)

        async def task() -> None:
            for _ in numbers:
                future = loop.create_future()
                if not waiting:
                    loop.call_soon(resolve)
                waiting.append(future)
                await future

        start = time.process_time()
        await asyncio.gather(*(task() for _ in range(in_flight)))
        return time.process_time() - start

    return asyncio.run(run())
