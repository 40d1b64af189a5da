"""A process that writes to an SQLite file what its parent tells it, and kills itself in the middle when told so.

Started as a script: it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import sys
from typing import Any


def apply(db: sqlite3.Connection, program: list[list[Any]], crash_after: int | None) -> tuple[int, list[Any]]:
    """Apply a program; returns how many were applied before, and the rows of each statement."""
    slots = []
    db.execute("BEGIN IMMEDIATE")
    try:
        for text, *parameters in program[:crash_after]:
            slots.append([list(row) for row in db.execute(text, parameters)])
        if crash_after is not None:
            die()
        order: int = db.execute("UPDATE applied SET n=n+1 RETURNING n").fetchone()[0]
    except BaseException:
        if crash_after is not None:
            die()
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return order, slots


def die() -> None:
    """As if somebody had killed it."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def main() -> None:
    db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None, cached_statements=256)
    # Only the process dies here, never the machine.
    db.execute("PRAGMA synchronous=OFF")
    while True:
        try:
            program, crash_after = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = apply(db, program, crash_after)
        except sqlite3.Error as error:
            answer = error
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
