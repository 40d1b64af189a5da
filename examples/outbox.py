"""A transactional outbox: an order's row and the event that tells of it are written together, or neither is.

    python examples/outbox.py [URL [ORDERS]]        URL: http://host:4001 for rqlite; by default a temporary file

Kill it wherever you like and run it again with the same URL: it goes on, no order is without its event, no event
without its order, and each order is shipped once.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

from rqfast import Ack, AsyncTransport, StatementError, Worker, connect_async
from rqfast.worker.lifespan import serving


async def schema(db: Any) -> None:
    """The service's own tables, in the database of the queue."""
    await db.execute("CREATE TABLE IF NOT EXISTS orders(number INTEGER PRIMARY KEY, total REAL NOT NULL)")
    await db.execute("CREATE TABLE IF NOT EXISTS shipments(number INTEGER NOT NULL)")


async def place(queue: AsyncTransport[Any], number: int, total: float) -> None:
    """Write the order, and publish it, in one transaction."""
    try:
        await queue.publish(
            f"order/{number}",
            {"number": number, "total": total},
            with_statements=[["INSERT INTO orders(number, total) VALUES(?, ?)", number, total]],
        )
    except StatementError as error:
        if "UNIQUE" not in error.text:
            raise
        # Placed by an earlier run, whose end nobody saw; the event was published with it, and nothing happened now.
        print(f"order {number} was there")
    else:
        print(f"order {number} placed")


async def ship(order: dict[str, Any]) -> Ack:
    """The shipment commits with the Ack, and not at all if the lease was lost: so each order is shipped once."""
    return Ack(with_statements=[["INSERT INTO shipments(number) VALUES(?)", order["number"]]])


async def report(db: Any) -> None:
    """What was shipped."""
    print("shipped:", *[row[0] for row in await db.query("SELECT number FROM shipments ORDER BY number")])


async def main(url: str, orders: int) -> None:
    """Place orders, and ship them."""
    async with connect_async(url, max_poll=0.1) as queue:
        # The lease is short, so that the example goes on soon where it was killed before.
        worker = Worker(queue, visibility=0.5)
        worker.on_startup(schema)
        worker.on_shutdown(report)
        worker.subscriber(prefix="order/")(ship)
        async with serving(worker):
            for number in range(1, orders + 1):
                await place(queue, number, 9.90 * number)
            while (await queue.stats()).messages:  # a service would go on
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        where = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/shop.db"
        asyncio.run(main(where, int(sys.argv[2]) if len(sys.argv) > 2 else 5))
