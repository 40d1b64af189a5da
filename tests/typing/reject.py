"""What type checkers must reject: each line with `# error:` and only those; read by them, never run.

The code is mypy's; pyright must find something on the same lines.
"""

from __future__ import annotations

from typing import Any

from rqfast import (
    Ack,
    AsyncTransport,
    Context,
    Counts,
    Lease,
    Message,
    Retry,
    SqliteTransport,
    Transport,
    Worker,
    connect,
    connect_async,
)


class Order:
    number: int = 0


def decode(text: str) -> Order:
    raise NotImplementedError


def from_int(number: int) -> Order:
    raise NotImplementedError


# -- leases have the type of decode=

queue = connect("queue.db", decode=decode)
lease = queue.claim()
lease.event  # error: union-attr
assert lease is not None
lease.event.price  # error: attr-defined
text: str = lease.event  # error: assignment
others: Transport[str] = queue  # error: assignment
strings: Lease[str] = lease  # error: assignment
numbers: list[Lease[int]] = queue.claim_many(limit=2)  # error: assignment
seqs: list[int] = queue.publish_many([])  # error: assignment
lease.nothing = 1  # error: attr-defined

# -- options

connect("queue.db", decode=from_int)  # error: arg-type
connect("queue.db", timeuot=3)  # error: call-overload
connect("queue.db", max_batch="many")  # error: call-overload
connect("queue.db", lost="ignore")  # error: call-overload
connect(7)  # error: call-overload
connect_async("queue.db", hooks=7)  # error: call-overload

# -- calls

queue.publish(7, 1)  # error: arg-type
queue.publish("g")  # error: call-arg
queue.publish("g", 1, headers={"a": [1]})  # error: dict-item
queue.publish("g", 1, 0, 3)  # error: call-arg
queue.publish_many(["g"])  # error: list-item
queue.publish_many([("g", 1, "first")])  # error: list-item
queue.ack(lease.seq)  # error: arg-type
queue.ack(lease, 3)  # error: call-arg
queue.nack(lease, "soon")  # error: arg-type
queue.dead_letter(lease)  # error: call-arg
queue.claim_many(limit="all")  # error: arg-type
queue.publish_to("jobs", 1)  # error: arg-type
Message("g", 1, ranks=3)  # error: call-arg
Message("g", 1).rank = 3  # error: misc
Retry("soon")  # error: arg-type
Ack([("g", 1)])  # error: call-arg


async def with_asyncio() -> None:
    async with connect_async("queue.db", decode=decode) as transport:
        transport.claim().event  # error: attr-defined
        found = await transport.claim()
        found.event  # error: union-attr
        wrong: AsyncTransport[str] = transport  # error: assignment
        blocking: Transport[Any] = transport  # error: assignment
    connect_async("queue.db").publish("g", 1)  # error: attr-defined


def with_hands(transport: SqliteTransport[Order]) -> None:
    one: Lease[str] | None = transport.claim()  # error: assignment


# -- workers

worker = Worker("queue.db", concurrency="ten")  # error: arg-type
worker = Worker("queue.db")


@worker.subscriber(group="a")  # error: type-var
async def says_text(order: Order) -> str:
    return "done"


@worker.subscriber(group="b")  # error: type-var
def says_the_class(order: Order) -> type[Ack]:
    return Ack


@worker.subscriber(group="c")
def looks(order: Order, ctx: Context) -> None:
    ctx.attempt = 3  # error: misc
    ctx.lease  # error: attr-defined


counts: Counts = worker.serve()  # error: assignment
