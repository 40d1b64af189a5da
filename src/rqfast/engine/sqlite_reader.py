"""Reads beside the writer: a connection of their own, since in WAL mode neither waits for the other."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from .hold import Hold, let_go

# Connections of a parent process: closing one in the child would touch the parent's locks and log, so they stay.
inherited: list[sqlite3.Connection] = []


def read_together(db: sqlite3.Connection, statements: Sequence[Sequence[Any]]) -> list[list[list[Any]]]:
    """The rows of each statement, all of one state of the database."""
    db.execute("BEGIN")
    try:
        return [[list(row) for row in db.execute(text, parameters)] for text, *parameters in statements]
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


class SqliteReader:
    """Opens when it is first asked; may be asked by any thread, one after another."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._db: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._lock = Hold()

    def ask(self, statements: Sequence[Sequence[Any]]) -> list[list[list[Any]]]:
        """The rows of each statement; raises what sqlite3 raises."""
        self._after_fork()
        try:
            with self._lock:
                if self._db is None:
                    self._db = sqlite3.connect(
                        self._path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
                    )
                    self._db.execute("PRAGMA query_only=1")
                return read_together(self._db, statements)
        except BaseException:
            let_go(self._lock)
            raise

    def close(self) -> None:
        """Close the connection; a later question opens another."""
        self._after_fork()
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        if self._db is not None:
            inherited.append(self._db)
        self._db, self._lock, self._pid = None, Hold(), os.getpid()
