"""Statements on SQLite, with the server's idea of what happens when one of them fails.

One connection writes, one reads; both belong to one thread.  What the server would put into its log is counted.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from .body import Statement
from .clock import Clock
from .flags import Flags
from .parameters import MAX_PARAMETERS, Parameter
from .results import Answer, Counts, Failed, Result, Rows
from .returning import Returned, returned
from .shape import Shape, Shapes
from .tokens import statements
from .values import fill, text

_BREAKING = re.compile(
    r"^\s*PRAGMA\s+(\w+\.)?"
    r"(journal_mode\s*[=(]|wal_autocheckpoint\s*[=(]|wal_checkpoint\b|synchronous\s*[=(])",
    re.IGNORECASE,
)
_NOT_A_READ = "attempt to change database via query operation"
BUSY_SECONDS = 10.0
STEPS = 10_000


class Refused(Exception):
    """A statement that cannot be run, in the words of the server's driver."""


Step: TypeAlias = Callable[[Statement, bool], tuple[Result, bool]]

_FAILURES = (sqlite3.Error, Refused, ValueError)


class Database:
    """One SQLite file as the server sees it.

    Args:
        path: the file; made where there is none.
        synchronous: how SQLite writes it: OFF, NORMAL or FULL.
        clock: the time that SQL tells.
    """

    def __init__(self, path: Path, synchronous: str, clock: Clock) -> None:
        self.index: int = 1
        self._shapes = Shapes()
        self._clock = clock
        self._changes = self._last_insert_id = 0
        self._deadline = 0.0
        self._connections: list[sqlite3.Connection] = []
        try:
            self._writer = self._open(path, synchronous)
            self._reader = self._open(path, synchronous)
            self._reader.execute("PRAGMA query_only=ON")
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, synchronous: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._connections.append(db)
        db.text_factory = text
        db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, MAX_PARAMETERS)
        db.execute("PRAGMA journal_mode=WAL").fetchone()
        db.execute(f"PRAGMA synchronous={synchronous}")
        self._clock.install(db)
        self._shapes.watch(db)
        return db

    def interrupt(self) -> None:
        """End the statement that runs; from any thread."""
        for db in self._connections:
            db.interrupt()

    def close(self) -> None:
        """Close the file."""
        for db in self._connections:
            if db.in_transaction:
                db.execute("ROLLBACK")
            db.close()
        self._clock.close()

    # -- whole requests -----------------------------------------------------------------------------------

    def execute(self, given: list[Statement], flags: Flags) -> Answer:
        """/db/execute: an entry of the log; in a transaction the first failure ends it and undoes all."""
        return self._guarded(given, flags, lambda: self._apply(given, flags, self._change))

    def query(self, given: list[Statement], flags: Flags) -> Answer:
        """/db/query: reads on the connection that cannot write; an entry of the log at level strong."""
        return self._guarded(given, flags, lambda: self._read_all(given, flags.strong))

    def request(self, given: list[Statement], flags: Flags) -> Answer:
        """/db/request: reads and writes.

        Only reads are as on /db/query.  With a write among them it is one entry, and a statement that does not
        prepare is passed over, in a transaction too.
        """
        return self._guarded(given, flags, lambda: self._request(given, flags))

    def _guarded(self, given: list[Statement], flags: Flags, run: Callable[[], Answer]) -> Answer:
        if any(_BREAKING.match(statement.text) for statement in given):
            return Answer(error="disallowed pragma")
        if flags.db_timeout <= 0:
            return run()
        self._deadline = time.monotonic() + flags.db_timeout
        for db in self._connections:
            db.set_progress_handler(self._is_late, STEPS)
        try:
            return run()
        finally:
            self._deadline = 0.0
            for db in self._connections:
                db.set_progress_handler(None, 0)

    def _is_late(self) -> bool:
        return self._deadline > 0 and time.monotonic() > self._deadline

    def _request(self, given: list[Statement], flags: Flags) -> Answer:
        if not flags.strong and all(self._is_read(statement.text) for statement in given):
            return self._read_all(given, strong=False)
        return self._apply(given, flags, self._mixed)

    def _apply(self, given: list[Statement], flags: Flags, step: Step) -> Answer:
        """Run statements as one entry of the log."""
        self.index += 1
        answer = Answer(index=self.index)
        if flags.transaction and (error := self._command("BEGIN IMMEDIATE")):
            return Answer(error=error)
        for statement in given:
            if statement.text == "":
                continue
            result, is_fatal = step(statement, flags.parse)
            answer.results.append(result)
            if is_fatal and flags.transaction:
                self._rollback()
                return answer
        if flags.transaction and (error := self._command("COMMIT")):
            self._rollback()
            return Answer(error=error)
        return answer

    def _read_all(self, given: list[Statement], strong: bool) -> Answer:
        self.index += strong
        results: list[Result] = []
        for statement in given:
            if statement.text != "":
                results.append(self._rows(self._reader, statement)[0])
        if self._reader.in_transaction:  # someone's BEGIN: later reads would go on seeing this moment
            self._reader.execute("ROLLBACK")
        return Answer(results, index=self.index if strong else 0)

    def _command(self, sql: str) -> str:
        try:
            self._writer.execute(sql)
        except sqlite3.Error as error:
            return str(error)
        return ""

    def _rollback(self) -> None:
        self._shapes.forget()
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _is_read(self, sql: str) -> bool:
        try:
            parts = statements(sql)
            return not parts or self._shapes.of(self._reader, parts[0]).is_read
        except _FAILURES:
            return False

    # -- statements: each gives its result, and whether it ends a transaction ---------------------------------

    def _change(self, statement: Statement, parse: bool) -> tuple[Result, bool]:
        start = time.perf_counter()
        what = returned(statement.text) if parse else Returned.COUNTS
        if what is not Returned.COUNTS:
            rows, failed = self._rows(self._writer, statement, is_change=True)
            if rows.error:
                return Failed(rows.error), failed
            return Rows() if what is Returned.NOTHING else rows, failed
        try:
            is_blank = self._execute(statement)
        except _FAILURES as error:
            return Failed(self._text(error, "execute")), True
        if is_blank:
            return Counts(0, 0, time.perf_counter() - start), False
        return Counts(self._last_insert_id, self._changes, time.perf_counter() - start), False

    def _mixed(self, statement: Statement, parse: bool) -> tuple[Result, bool]:
        try:
            parts = statements(statement.text)
            is_read = not parts or self._shapes.of(self._writer, parts[0]).is_read
        except _FAILURES as error:
            return Failed(str(error)), False
        return self._rows(self._writer, statement) if is_read else self._change(statement, parse)

    def _execute(self, statement: Statement) -> bool:
        start, given = 0, statement.parameters
        parts = statements(statement.text)
        for part in parts:
            self._check_time("execute")
            shape = self._shapes.of(self._writer, part)
            count = shape.places.count
            if given and len(given) - start < count:
                raise Refused(f"not enough args to execute query: want {count} got {len(given)}")
            for _ in self._run(self._writer, shape, _taken(given, start, count)):
                pass
            self._count(shape)
            start += count
        return not parts

    def _rows(self, db: sqlite3.Connection, statement: Statement, is_change: bool = False) -> tuple[Rows, bool]:
        began, start, given, rows = time.perf_counter(), 0, statement.parameters, Rows()
        try:
            parts = statements(statement.text)
            for number, part in enumerate(parts, 1):
                self._check_time("query")
                shape = self._shapes.of(db, part)
                count = shape.places.count
                if len(given) - start < count:
                    raise Refused(f"not enough args to execute query: want {count} got {len(given) - start}")
                if not shape.is_read and db is self._reader:
                    raise Refused(_NOT_A_READ)
                if number == len(parts):
                    rows = self._fetch(db, shape, _taken(given, start, count))
                start += count
                if is_change:
                    self._count(shape)
        except _FAILURES as error:
            return Rows(error=self._text(error, "query")), True
        rows.seconds = time.perf_counter() - began
        return rows, False

    def _fetch(self, db: sqlite3.Connection, shape: Shape, given: list[Parameter]) -> Rows:
        cursor = self._run(db, shape, given)
        columns = [shape.places.restored(column[0]) for column in cursor.description or ()]
        rows = cursor.fetchall()
        types = shape.types(columns)
        if rows and "" in types:
            fill(types, rows[0])
        return Rows(columns, types, rows)

    def _run(self, db: sqlite3.Connection, shape: Shape, given: list[Parameter]) -> sqlite3.Cursor:
        if shape.tokens[0].word == "ROLLBACK":
            self._shapes.forget()
        try:
            return db.execute(shape.places.text, shape.places.values(given))
        except sqlite3.Error:
            if shape.counts:
                self._changes = 0
            raise

    def _count(self, shape: Shape) -> None:
        """Take note of what SQLite counts; EXPLAIN would reset it, and other statements tell it again."""
        if shape.counts:
            counted = self._writer.execute("SELECT changes(), last_insert_rowid()").fetchone()
            self._changes, self._last_insert_id = counted

    def _check_time(self, what: str) -> None:
        if self._is_late():
            raise Refused(f"{what} timeout")

    def _text(self, error: Exception, what: str) -> str:
        return f"{what} timeout" if str(error) == "interrupted" and self._is_late() else str(error)


def _taken(given: list[Parameter], start: int, count: int) -> list[Parameter]:
    """The parameters for one of several statements: as many as it has places, and all that have names."""
    own = given[start : start + count]
    return own + [one for at, one in enumerate(given) if one.name and not start <= at < start + count]
