"""A chain of three handlers, each handing on to the next: every step of every order is done exactly once.

    python examples/chain.py [URL [ORDERS]]        URL: http://host:4001 for rqlite; by default a temporary file

What a handler writes and what it hands on commit with its Ack, in one transaction.  Kill it wherever you like and run
it again with the same URL: it goes on where it was.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

from rqfast import Ack, Message, StatementError, Worker, connect_async
from rqfast.worker.lifespan import serving


async def schema(db: Any) -> None:
    """Each step writes a row; nothing in the table keeps it from doing so twice."""
    await db.execute("CREATE TABLE IF NOT EXISTS started(number INTEGER PRIMARY KEY)")
    await db.execute("CREATE TABLE IF NOT EXISTS steps(number INTEGER NOT NULL, step TEXT NOT NULL)")


def written(order: dict[str, Any], step: str) -> list[Any]:
    """The statement of a step."""
    return ["INSERT INTO steps(number, step) VALUES(?, ?)", order["number"], step]


async def charge(order: dict[str, Any]) -> Ack:
    """First step."""
    return Ack(
        publish=[Message(f"pack/{order['number']}", order | {"paid": True})],
        with_statements=[written(order, "charged")],
    )


def pack(order: dict[str, Any]) -> Ack:
    """Second step: a plain function, run in a thread."""
    return Ack(
        publish=[Message(f"send/{order['number']}", order | {"boxes": 1})],
        with_statements=[written(order, "packed")],
    )


async def send(order: dict[str, Any]) -> Ack:
    """Last step."""
    return Ack(with_statements=[written(order, "sent")])


async def report(db: Any) -> None:
    """How often each step was done."""
    rows = await db.query("SELECT step, count(*), count(DISTINCT number) FROM steps GROUP BY step ORDER BY step")
    for step, times, orders in rows:
        print(f"{step} {times} times, for {orders} orders")


async def main(url: str, orders: int) -> None:
    """Start the chain for each order, and wait until all are at its end."""
    async with connect_async(url, max_poll=0.1) as queue:
        # The lease is short, so that the example goes on soon where it was killed before.
        worker = Worker(queue, visibility=0.5)
        worker.on_startup(schema)
        worker.on_shutdown(report)
        worker.subscriber(prefix="charge/")(charge)
        worker.subscriber(prefix="pack/")(pack)
        worker.subscriber(prefix="send/")(send)
        async with serving(worker):
            for number in range(1, orders + 1):
                start = [["INSERT INTO started VALUES(?)", number]]
                try:
                    await queue.publish(f"charge/{number}", {"number": number}, with_statements=start)
                except StatementError as error:
                    if "UNIQUE" not in error.text:  # else an earlier run has started it
                        raise
            while (await queue.stats()).messages:  # a service would go on
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        where = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/chain.db"
        asyncio.run(main(where, int(sys.argv[2]) if len(sys.argv) > 2 else 5))
