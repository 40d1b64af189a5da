"""A process of rqfast's own on an SQLite file that is killed before its n-th statement, for every n.

Started as a script with a folder and the file to begin with.  It forks for each n: the child works on a copy of the
file, writes down which calls have returned, and kills itself.  The first child lives, and keeps what the file was like
after each call.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import rqfast

NOW = 5000.0
NEXT = [("next", n) for n in range(4)]
TABLES = ("messages", "groups", "rqfast_dedup", "rqfast_dead", "rqfast_state", "sqlite_sequence", "own")


class Mortal(sqlite3.Connection):
    """Dies before it runs its `last` statement; statements of all connections count."""

    done = 0
    last = -1

    def execute(self, *args: Any) -> sqlite3.Cursor:
        if Mortal.done == Mortal.last:
            os.kill(os.getpid(), signal.SIGKILL)
        Mortal.done += 1
        return super().execute(*args)


def begin(path: Path) -> None:
    """A queue with some messages, and a table of the user's own."""
    with rqfast.connect(str(path), clock=lambda: NOW - 100) as queue:
        queue.publish_many((f"g{n % 6}", n) for n in range(24))
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE own(n INT)")


def calls(queue: rqfast.Transport) -> Iterator[Callable[[], Any]]:
    """Calls of every kind, in an order that gives each something to do."""
    held: list[rqfast.Lease[Any]] = []

    def take(limit: int = 1) -> None:
        held.extend(queue.claim_many("w", 30, limit))

    yield lambda: queue.publish("g0", "plain")
    yield lambda: queue.publish("new", "full", 3, rank=-1, delay=5, headers={"a": 1}, dedup_id="id")
    yield lambda: queue.publish("new", "not again", dedup_id="id")
    yield lambda: queue.publish_many([("g1", 1), ("g2", 2), ("other", 3)], atomic=True)
    yield lambda: queue.publish("g1", "with", with_statements=[["INSERT INTO own VALUES(?)", 1]])
    yield lambda: take(5)
    yield lambda: queue.extend(held[0], 60)
    yield lambda: queue.ack(held.pop(0))
    yield lambda: queue.nack(held.pop(0), 7)
    yield lambda: queue.defer(held.pop(0), 3)
    yield lambda: queue.dead_letter(held.pop(0), "why")
    yield lambda: queue.ack(held.pop(0), publish=NEXT, with_statements=[["INSERT INTO own VALUES(?)", 2]])
    yield lambda: take()
    yield lambda: held.extend(queue.claim_many("w", 30, 1, ack=[held.pop(0)]))
    yield lambda: held.__setitem__(slice(None), queue.claim_run("w", 30, 3))
    yield lambda: queue.extend_many(held, 40)
    yield lambda: queue.ack_many([held.pop(0)])
    yield lambda: queue.nack_many(held)
    yield lambda: queue.pause("g3")
    yield lambda: queue.resume("g3")
    yield lambda: queue.pause()
    yield lambda: queue.resume()
    yield lambda: queue.redrive()
    yield lambda: queue.delete(queue.peek("g0", 1)[0].seq)
    yield lambda: queue.claim("w", 30)
    yield lambda: queue.release("g1")
    yield lambda: queue.purge("g5")
    yield lambda: queue.purge(everything=True)


def snapshot(path: Path) -> list[list[Any]]:
    """What stands in the file, but for lanes and for what a token is made of."""
    with closing(sqlite3.connect(path)) as db:
        tables = []
        for table in TABLES:
            cursor = db.execute(f'SELECT * FROM "{table}" ORDER BY 1')
            names = [column[0] for column in cursor.description]
            tables.append([[_plain(value, name) for value, name in zip(row, names, strict=True)] for row in cursor])
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return tables


def _plain(value: Any, name: str) -> Any:
    return value and value.split(":")[0] if name == "locked_by" else value


def work(path: Path, told: Callable[[int], None]) -> None:
    """Make the calls, and tell of each that has returned."""
    queue = rqfast.connect(str(path), clock=lambda: NOW, synchronous="OFF")
    for number, call in enumerate(calls(queue)):
        call()
        told(number)


def child(path: Path, last: int) -> None:
    """Do the work on this file, up to a statement."""
    Mortal.last = last
    real = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: real(*args, **kwargs, factory=Mortal)  # type: ignore[assignment]
    with open(f"{path}.told", "ab", buffering=0) as told:
        work(path, lambda number: told.write(b"."))
        told.write(b"!")


def fork(path: Path, last: int) -> int:
    """A child that does so; returns how it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child(path, last)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    folder = Path(sys.argv[1])
    begin(folder / "first.db")
    last, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        path = folder / f"{last}.db"
        shutil.copy(folder / "first.db", path)
        code = fork(path, last)
        last += 1
    sys.exit(code)


if __name__ == "__main__":
    main()
