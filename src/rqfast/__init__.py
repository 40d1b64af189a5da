"""A message queue with one order for each group, on an rqlite cluster or in a SQLite file.

>>> import rqfast
>>> with rqfast.connect("queue.db") as t:
...     t.publish("customer-7", {"total": 3})
...     lease = t.claim()
...     t.ack(lease)
"""

from ._core import Lease
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
from .transport.over_loop import RqliteTransport
from .transport.over_thread import AsyncSqliteTransport
from .transport.rqlite_async import AsyncRqliteTransport
from .transport.sqlite_sync import SqliteTransport

__version__ = "0.1.0"

__all__ = [
    "AsyncRqliteTransport",
    "AsyncSqliteTransport",
    "AsyncTransport",
    "Closed",
    "ConfigError",
    "DeadLetter",
    "GroupInfo",
    "InvalidMessage",
    "Lease",
    "LeaseLost",
    "Message",
    "OutOfOrder",
    "OutcomeUnknown",
    "PublishIncomplete",
    "RqfastError",
    "RqliteTransport",
    "SchemaError",
    "SqliteTransport",
    "StatementError",
    "Stats",
    "StoredMessage",
    "Transport",
    "Unavailable",
    "connect",
    "connect_async",
]
