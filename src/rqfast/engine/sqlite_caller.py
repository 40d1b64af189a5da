"""A publish inside a transaction that the caller has open, on a connection of the caller's own.

The same statements as of any publish, between a savepoint and its release: whatever fails, the caller's transaction is
as it was before.  The message is there when the caller commits, and only then.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from typing import Any

from .._core import Batch, Batcher, Publish, Slot
from ..errors import InvalidMessage, SchemaError
from .sqlite import SqliteEngine

# An ORM's session holds a connection of its pool, which holds the driver's.
DEPTH = 6


class SqliteCaller:
    """Publishes through connections of callers, into the queue of one engine."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._lane = f"caller-{uuid.uuid4().hex[:16]}"

    def publish(self, call: Publish, given: Any) -> int:
        """Write a message; returns its seq.

        Raises:
            TypeError, InvalidMessage: not a connection to the queue's file, or none with a transaction.
            Unavailable: locked by another program.
        """
        db = driver_connection(given)
        self._check(db)
        if not db.in_transaction:
            # Python's own way: a transaction begins with the first write.
            db.execute("BEGIN")
        batcher = Batcher(1, 1, 1 << 30)
        call.future = slot = Slot()
        batcher.add(call)
        batch = batcher.take(0)
        assert batch is not None
        cursor = db.cursor()
        cursor.row_factory = None
        cursor.execute("SAVEPOINT rqfast_publish")
        try:
            slots = self._run(cursor, batch)
            cursor.execute("RELEASE rqfast_publish")
        except BaseException as error:
            if db.in_transaction:
                cursor.execute("ROLLBACK TO rqfast_publish")
                cursor.execute("RELEASE rqfast_publish")
            if isinstance(error, sqlite3.Error):
                raise self._engine.as_error(error, "publish") from error
            raise
        finally:
            cursor.close()
        self._engine.resolve(batch, slots)
        seq: int = slot.result()
        return seq

    def _run(self, cursor: sqlite3.Cursor, batch: Batch) -> list[list[Any]]:
        opening, read = self._engine.lane_statements(self._lane)
        cursor.execute(opening[0], opening[1:])
        number = cursor.execute(read[0], read[1:]).fetchone()[0] + 1
        slots: list[list[Any]] = []
        for statement in self._engine.program(batch, self._lane, number):
            slots.append([list(row) for row in cursor.execute(statement[0], statement[1:]).fetchall()])
        if not batch.check(slots, number):
            raise SchemaError(f"{self._engine.path}: the lane's row vanished inside a transaction: it is corrupt")
        return slots

    def _check(self, db: sqlite3.Connection) -> None:
        path = self._engine.path
        if path == ":memory:":
            raise InvalidMessage("connection=: a queue in memory has one connection, its own", "connection")
        files = [row[2] for row in db.execute("PRAGMA database_list").fetchall() if row[1] == "main"]
        if not files or not files[0] or not os.path.samefile(files[0], path):
            raise InvalidMessage(
                f"connection= is to {files[0] if files and files[0] else 'a database in memory'!r}, the queue is in "
                f"{path!r}: they commit together only in one file",
                "connection",
            )
        own = db.isolation_level is None and getattr(db, "autocommit", -1) in (-1, True)
        if not db.in_transaction and (own or getattr(db, "autocommit", -1) is True):
            raise InvalidMessage(
                "connection= has no transaction open, and would begin none by itself: execute BEGIN first", "connection"
            )


def driver_connection(given: Any) -> sqlite3.Connection:
    """The sqlite3 connection of what the caller has: itself, or that of a session or connection of an ORM.

    Raises:
        TypeError: there is none in it.
    """
    found = given
    for _ in range(DEPTH):
        if isinstance(found, sqlite3.Connection):
            return found
        inner = getattr(found, "driver_connection", None)
        if inner is None:
            inner = getattr(found, "connection", None)
            inner = inner() if callable(inner) and not isinstance(inner, sqlite3.Connection) else inner
        if inner is None:
            break
        found = inner
    raise TypeError(f"connection= is a sqlite3.Connection, or a session that has one, not {type(given).__name__}")
