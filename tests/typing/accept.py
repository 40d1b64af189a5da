"""What type checkers must accept; read by them, never run."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, assert_type

import rqfast
from rqfast import (
    Ack,
    AsyncTransport,
    Context,
    Counts,
    DeadLetter,
    Event,
    Exponential,
    Group,
    GroupInfo,
    Hooks,
    Id,
    Inbox,
    Lease,
    LockedUntil,
    Message,
    Outcome,
    Payload,
    Retry,
    Sending,
    SqliteTransport,
    Stats,
    StoredMessage,
    Subscription,
    Transport,
    Worker,
    connect,
    connect_async,
)
from rqfast.observe import handling
from rqfast.testing import Handled, TestWorker


class Order:
    """Like a pydantic model."""

    number: int = 0

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, *, strict: bool | None = None) -> Order:
        raise NotImplementedError


# -- a transport of orders --------------------------------------------------------------------------------


def of_orders() -> None:
    queue = connect("queue.db", decode=Order.model_validate_json)
    assert_type(queue, Transport[Order])
    with queue as entered:
        assert_type(entered, Transport[Order])
    lease = queue.claim(wait=None)
    assert_type(lease, Lease[Order] | None)
    assert lease is not None
    assert_type(lease, Lease[Order])
    assert_type(lease.event, Order)
    assert_type(lease.event.number, int)
    assert_type(queue.claim(ack=lease), Lease[Order] | None)
    run = queue.claim_run(limit=10, visibility=timedelta(seconds=30))
    assert_type(run, list[Lease[Order]])
    assert_type(queue.claim_many(limit=10, ack=run), list[Lease[Order]])
    assert_type(queue.ack_many(run), list[Lease[Any]])
    assert_type(queue.peek("g"), list[StoredMessage[Order]])
    assert_type(queue.peek("g")[0].event, Order)
    assert_type(queue.dead_letters(), list[DeadLetter[Order]])
    assert_type(queue.dead_letters()[0].event, Order)


def with_options() -> None:
    assert_type(
        connect("http://node1:4001", timeout=3, queue="orders", decode=Order.model_validate_json), Transport[Order]
    )
    assert_type(connect(Path("queue.db"), synchronous="NORMAL", decode=None), Transport[Any])
    assert_type(connect(decode=len), Transport[int])
    assert_type(SqliteTransport("queue.db", decode=Order.model_validate_json), SqliteTransport[Order])
    assert_type(SqliteTransport("queue.db"), SqliteTransport[Any])
    options: dict[str, Any] = {"queue": "orders"}
    connect("queue.db", **options)


def without_decode() -> None:
    queue = connect("queue.db")
    assert_type(queue, Transport[Any])
    lease = queue.claim()
    assert_type(lease, Lease[Any] | None)
    assert lease is not None
    lease.event["anything"].goes()


def calls(queue: Transport[Any], lease: Lease[Any]) -> None:
    assert_type(queue.publish("g", {"order": 1}, 2, delay=1.5, headers={"a": 1, "b": None}, dedup_id="x"), int)
    assert_type(queue.publish_soon("g", b"1"), futures.Future[int])
    assert_type(queue.publish_many([("g", 1), ("g", 2, 3), Message("g", 3, rank=-1)], atomic=True), array[int])
    queue.publish_many(Message("g", number) for number in range(3))
    queue.ack(lease, publish=[("g", 1)], with_statements=[["DELETE FROM t WHERE a=?", 1]])
    assert_type(queue.extend(lease, timedelta(minutes=1)), float)
    assert_type(queue.stats(), Stats)
    assert_type(queue.groups(order="depth", after="g"), list[GroupInfo])
    assert_type(queue.queues(), list[str])
    assert_type(queue.redrive(seqs=[1, 2]), int)


def of_an_order(queue: Transport[Order]) -> None:
    """Takes each engine's."""


def engines(lease: Lease[Order]) -> None:
    of_an_order(connect("queue.db", decode=Order.model_validate_json))
    of_an_order(SqliteTransport("queue.db", decode=Order.model_validate_json))
    of_an_order(rqfast.RqliteTransport("http://node1", decode=Order.model_validate_json))
    anything: Lease[object] = lease
    connect("queue.db").ack(anything)
    assert_type(Lease(1, "g", Order(), "token"), Lease[Order])


# -- for asyncio ------------------------------------------------------------------------------------------


async def of_orders_async() -> None:
    async with connect_async("queue.db", decode=Order.model_validate_json) as queue:
        lease = await queue.claim(wait=5)
        assert_type(lease, Lease[Order] | None)
        assert lease is not None
        assert_type(lease.event, Order)
        assert_type(await queue.claim_run(limit=3), list[Lease[Order]])
        assert_type(await queue.peek("g"), list[StoredMessage[Order]])
        assert_type(await queue.dead_letters(), list[DeadLetter[Order]])
        await of_an_order_async(queue)
    opened = await connect_async("queue.db", decode=Order.model_validate_json)
    await of_an_order_async(opened)
    await of_an_order_async(rqfast.AsyncSqliteTransport("queue.db", decode=Order.model_validate_json))
    await of_an_order_async(rqfast.AsyncRqliteTransport("http://node1", decode=Order.model_validate_json))


async def of_an_order_async(queue: AsyncTransport[Order]) -> None:
    future = queue.claim()
    assert_type(future, asyncio.Future[Lease[Order] | None])
    assert_type(await queue.publish("g", 1), int)
    assert_type(await (await queue.publish_soon("g", 1)), int)

    async def messages() -> AsyncIterator[Message]:
        yield Message("g", 1)

    assert_type(await queue.publish_many(messages()), array[int])
    first, second = await asyncio.gather(queue.publish("g", 1), queue.stats())
    assert_type(first, int)
    assert_type(second, Stats)


async def without_decode_async() -> None:
    async with connect_async("queue.db", max_poll=0.1) as queue:
        lease = await queue.claim()
        assert_type(lease, Lease[Any] | None)


# -- workers ----------------------------------------------------------------------------------------------

worker = Worker("queue.db", name="orders", visibility=timedelta(minutes=1), hooks=[Hooks()])


@worker.subscriber(group="a", max_attempts=3, dead_letter=True, backoff=Exponential(first=2))
async def waits(order: Order, ctx: Context) -> Outcome | None:
    assert_type(ctx.attempt, int)
    ctx.publish(("g", 1), Message("g", 2))
    return Ack(publish=[("g", 1)]) if order.number else Retry(delay=timedelta(seconds=3))


@worker.subscriber(group="b")
def plain(order: Order) -> None:
    raise Retry


@worker.subscriber(group="c", batch=10)
async def many(orders: list[Order], contexts: list[Context]) -> list[Outcome | None]:
    return [Ack() for _ in orders]


@worker.subscriber(group="d", batch=10)
def each(orders: list[Order]) -> list[Ack]:
    return [Ack() for _ in orders]


class Sync:
    """An object that is called."""

    async def __call__(self, order: Order) -> Ack:
        return Ack()


worker.add(Subscription(None, Sync(), group="e"))
worker.subscriber(group="f", name="again")(plain)


@worker.on_startup
async def prepare(db: rqfast.Database) -> None:
    await db.execute("CREATE TABLE IF NOT EXISTS t(a)")


async def still_a_function(order: Order, ctx: Context) -> None:
    # Declared, it is the function that it was.
    assert_type(await waits(order, ctx), Outcome | None)
    plain(order)
    assert_type(await worker.serve(), Counts)


@dataclass
class Job:
    id: Annotated[int, Id(generated=True)]
    target: Annotated[str, Group(fifo=True)]
    locked_until: Annotated[float | None, LockedUntil]
    payload: Annotated[str, Payload]


inbox = Inbox(Job, table="jobs")


@worker.subscriber(inbox.group("crm"))
async def job(change: dict[str, Any]) -> None:
    assert_type(inbox.roles["id"], str)


def posted(queue: Transport[Any]) -> None:
    queue.publish_to(inbox.group("crm"), {"customer": 7}, retry_after=timedelta(hours=1))


# -- testing and observing --------------------------------------------------------------------------------


def tested() -> None:
    with TestWorker(worker) as test:
        test.publish("a", {"number": 1})
        test.advance(timedelta(seconds=3))
        assert_type(test.handled, list[Handled])
        assert_type(test.counts, Counts)


class Mine(Hooks):
    def publishing(self, sending: Sending) -> Callable[[Sending], object]:
        sending.headers["mine"] = 1
        return self.ended

    def ended(self, sending: Sending) -> None:
        assert_type(sending.error, BaseException | None)

    def handling(self, events: Sequence[Event]) -> AbstractContextManager[None]:
        return self.around(events[0])

    @contextmanager
    def around(self, event: Event) -> Generator[None, None, None]:
        yield

    def settled(self, event: Event) -> None:
        assert_type(event.seconds, float | None)


def by_hand(lease: Lease[Order]) -> None:
    connect("queue.db", hooks=[Mine()], decode=Order.model_validate_json)
    with handling([Mine()], lease, "mine") as said:
        said.outcome = "Drop"
