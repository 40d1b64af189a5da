"""A message queue with one order for each group, on an rqlite cluster or in a SQLite file.

A worker calls your function for each message; by hand it is publish, claim and ack:

>>> import rqfast
>>> worker = rqfast.Worker("queue.db")  # or "http://node1:4001,node2:4001,node3:4001"
>>> @worker.subscriber(prefix="customer-", max_attempts=5, dead_letter=True)
... async def ship(order, ctx):
...     print(ctx.group, order)
>>> worker.run()

>>> with rqfast.connect("queue.db") as queue:
...     queue.publish("customer-7", {"total": 3})
...     lease = queue.claim()
...     queue.ack(lease)

What there is; each has a help of its own, as help(rqfast.Transport):

    connect, connect_async                      open a queue by its URL
    Transport, AsyncTransport                   what an open queue can do: publish, claim, settle, operate
    RqliteTransport, AsyncRqliteTransport,
    SqliteTransport, AsyncSqliteTransport       the classes that `connect` chooses from
    Message, Lease                              what goes in; what a claim gives
    StoredMessage, DeadLetter, GroupInfo, Stats what operators see
    Worker, Subscription, Context               serve handlers; what a handler knows of its message
    Ack, Retry, RetryAfter, Drop, Dead          outcomes: what a handler makes of a message (Outcome)
    Exponential, Counts, Database               back-off; what a worker has done; for its start-up hooks
    Hooks, Event, Sending                       told of what happens, for metrics and traces
    Inbox, Address, Column                      a table of your own as a source of messages; roles of its columns:
                                                Id, Group, Priority, RetryAt, Attempt, LockedUntil, Token, Payload,
                                                Header, Headers, ProcessedAt
    RqfastError                                 the root of all errors: LeaseLost, OutOfOrder, Unavailable,
                                                OutcomeUnknown, StatementError, SchemaError, PublishIncomplete,
                                                InvalidMessage, ConfigError, Closed

Beside these: rqfast.testing for tests of handlers, rqfast.worker.lifespan for web applications, rqfast.devserver for
tests over HTTP.  All else is internal.
"""

from ._core import Lease
from .address.inbox import Address, Inbox
from .address.roles import (
    Attempt,
    Column,
    Group,
    Header,
    Headers,
    Id,
    LockedUntil,
    Payload,
    Priority,
    ProcessedAt,
    RetryAt,
    Token,
)
from .api import AsyncTransport, Transport
from .connect import connect, connect_async
from .errors import (
    Closed,
    ConfigError,
    InvalidMessage,
    LeaseLost,
    OutcomeUnknown,
    OutOfOrder,
    PublishIncomplete,
    RqfastError,
    SchemaError,
    StatementError,
    Unavailable,
)
from .model import DeadLetter, GroupInfo, Message, Stats, StoredMessage
from .observe.hooks import Event, Hooks, Sending
from .transport.over_loop import RqliteTransport
from .transport.over_thread import AsyncSqliteTransport
from .transport.rqlite_async import AsyncRqliteTransport
from .transport.sqlite_sync import SqliteTransport
from .worker.backoff import Exponential
from .worker.context import Context
from .worker.counts import Counts
from .worker.database import Database
from .worker.outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter
from .worker.subscription import Subscription
from .worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "Address",
    "AsyncRqliteTransport",
    "AsyncSqliteTransport",
    "AsyncTransport",
    "Attempt",
    "Closed",
    "Column",
    "ConfigError",
    "Context",
    "Counts",
    "Database",
    "Dead",
    "DeadLetter",
    "Drop",
    "Event",
    "Exponential",
    "Group",
    "GroupInfo",
    "Header",
    "Headers",
    "Hooks",
    "Id",
    "Inbox",
    "InvalidMessage",
    "Lease",
    "LeaseLost",
    "LockedUntil",
    "Message",
    "OutOfOrder",
    "Outcome",
    "OutcomeUnknown",
    "Payload",
    "Priority",
    "ProcessedAt",
    "PublishIncomplete",
    "Retry",
    "RetryAfter",
    "RetryAt",
    "RqfastError",
    "RqliteTransport",
    "SchemaError",
    "Sending",
    "SqliteTransport",
    "StatementError",
    "Stats",
    "StoredMessage",
    "Subscription",
    "Token",
    "Transport",
    "Unavailable",
    "Worker",
    "connect",
    "connect_async",
]
