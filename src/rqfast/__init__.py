"""A message queue with one order for each group, on an rqlite cluster or in a SQLite file.

>>> import rqfast
>>> with rqfast.connect("queue.db") as t:
...     t.publish("customer-7", {"total": 3})
...     lease = t.claim()
...     t.ack(lease)
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
