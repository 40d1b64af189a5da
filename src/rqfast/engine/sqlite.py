"""The embedded engine: one batch is one `BEGIN IMMEDIATE .. COMMIT` on the standard library's sqlite3.

Owns the connection, the lane's number and the queue's clock; not thread-safe by itself, whoever calls it holds a
lock (`pipeline.combine`) or is its only thread (`transport.over_thread`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from .._core import Batch, Outcome, Texts
from ..errors import (
    Closed,
    ConfigError,
    NotHeld,
    OutcomeUnknown,
    Published,
    RqfastError,
    SchemaError,
    Unavailable,
)
from ..sql import Statements, upgrade
from .sqlite_reader import SqliteReader, inherited, read_together
from .sqlite_refusals import is_busy, is_missing, refusal, refuse_read_only
from .time import IDLE, JUMP, WATCH, QueueClock, Reading, anchored, boot_clock, log_refused, must_jump

log: logging.Logger = logging.getLogger("rqfast")

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


class SqliteEngine:
    """One SQLite file (or memory) as the home of a queue."""

    def __init__(
        self,
        path: str,
        *,
        queue: str | None,
        create: bool,
        clock: Callable[[], float] | None,
        synchronous: str,
        busy_timeout: float,
        dedup_window: float,
        decode: Callable[[str], Any],
        name: Callable[[], str],
    ) -> None:
        if sqlite3.sqlite_version_info < (3, 38):
            raise ConfigError(f"SQLite 3.38 or newer is needed, this Python has {sqlite3.sqlite_version}")
        self.path = path
        self.queue = queue
        self.clock: QueueClock = QueueClock(clock)
        self.statements: Statements = Statements(queue)
        self._create = create
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._window = dedup_window
        self._decode = decode
        self._tell_name = name
        self._name = ""
        self._texts = Texts(self.statements.queue, False, self.statements.operate)
        self._db: sqlite3.Connection | None = None
        # A database in memory has one connection.
        self._reader = None if path == ":memory:" else SqliteReader(path, busy_timeout)
        self.closed: bool = False
        self._pid = 0
        self._at = -1
        self._phase = "begin"
        self._lane = ""
        self._n = 0
        self._forget_at = 0.0

    # -- opening ------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect, make or check the tables, register the lane, read the clock."""
        if not self._create and self.path != ":memory:" and is_missing(self.path):
            raise SchemaError(f"there is no file {self.path}, and create=False makes none")
        self._pid = os.getpid()
        self._name = self._tell_name()
        try:
            self._db = self._connect()
            self._open_queue()
        except sqlite3.Error as error:
            self._disconnect()
            raise self.as_error(error, "open") from error
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        """Close the connection for good."""
        self.closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection; in a process that inherited it, only forget it."""
        db, self._db = self._db, None
        if self._reader is not None:
            self._reader.close()
        if db is None:
            return
        if self._pid != os.getpid():
            inherited.append(db)
        else:
            db.close()

    def _connect(self) -> sqlite3.Connection:
        refuse_read_only(self.path)
        db = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        # Turning the log on needs the file alone for a moment, and does not wait for it by itself.
        give_up = time.monotonic() + self._busy_timeout
        while True:
            try:
                db.execute("PRAGMA journal_mode=WAL").fetchall()
                break
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() > give_up:
                    db.close()
                    raise
                time.sleep(0.01)
        db.execute(f"PRAGMA synchronous={self._synchronous}")
        # Statement journals and sorters stay off the disk; a killed process leaves no file of them behind.
        db.execute("PRAGMA temp_store=MEMORY")
        return db

    def _open_queue(self) -> None:
        while upgrade.must_make(self._registry(), self.queue, self._create):
            try:
                self._transaction(upgrade.making(self.statements, self.queue, beside_old=self._is_old()))
            except sqlite3.IntegrityError as error:
                if not upgrade.was_second(str(error)):
                    raise
        opening = self.statements.opening
        objects = self.read(opening["objects"], orjson.dumps(upgrade.expected(self.statements)).decode())
        columns = self.read(opening["columns"])
        upgrade.check_complete(self.statements, self.queue, (r[0] for r in objects), (r[0] for r in columns))
        self._start_clock()
        self._open_lane()
        self._forget_statistics()

    def _is_old(self) -> bool:
        """Whether the plain transport made tables here: in a copy of a server's database, which may go back there."""
        return bool(
            self.read(self.statements.opening["objects"], orjson.dumps([self.statements.names["messages"]]).decode())
        )

    def _forget_statistics(self) -> None:
        """Remove what the planner noted of the queue's tables: such notes make for plans that read them whole."""
        self._forget_at = time.monotonic() + upgrade.HOUR
        opening = self.statements.opening
        tables = orjson.dumps(upgrade.expected(self.statements)).decode()
        if self.read(opening["statistics_there"])[0][0] and self.read(opening["statistics_read"], tables)[0][0]:
            self._transaction([[opening["statistics_delete"], tables]])
            self._connection().execute(opening["statistics_reload"])

    def _registry(self) -> list[list[Any]]:
        opening = self.statements.opening
        if not self.read(opening["registry_there"])[0][0]:
            return []
        return self.read(opening["registry_read"])

    def _start_clock(self) -> None:
        if self.clock.source is not None:
            return
        reading, wall, boot = self._read_clock(), time.time(), boot_clock()
        start = anchored(reading, boot)
        if start is None:
            start = max(reading.t, wall) if boot is not None else self._jump(reading, wall)
        elif reading.t > 0.0 and start - reading.t > IDLE and wall - start > JUMP:
            # A clock that was wrong when the machine started, and was set since: followed once the queue is idle.
            start = max(start, self._jump(reading, wall))
        if boot is not None:
            self._transaction([[self.statements.opening["boot_anchor"], boot[0], start - boot[1], reading.boot_t]])
            start = anchored(self._read_clock(), boot_clock()) or start
        self.clock.saw(start)

    def _jump(self, reading: Reading, wall: float) -> float:
        """Carry t over the time in which nobody moved it; the time to start from."""
        if not must_jump(reading, wall):
            return max(reading.t, wall)
        if reading.held:
            time.sleep(WATCH)
            wall += WATCH
        self._transaction([[self.statements.opening["clock_jump"], reading.t, wall, int(reading.held)]])
        now = self._read_clock().t
        if wall - now > JUMP:
            log_refused(wall - now, "this machine")
        return now

    def _read_clock(self) -> Reading:
        t, boot, boot_t, held = self.read(self.statements.opening["clock"])[0]
        return Reading(float(t), boot, boot_t, bool(held))

    def _renew_lane(self) -> None:
        try:
            self._open_lane()
        except sqlite3.Error as error:
            raise self.as_error(error, "lane_open") from error

    def _open_lane(self) -> None:
        self._lane, self._n = uuid.uuid4().hex[:16], 0
        queue = self.statements.queue
        lanes = orjson.dumps([self._lane]).decode()
        self._transaction([[queue["lane_open"], lanes, self.clock.now()], [queue["lane_prune"]]])

    # -- running ------------------------------------------------------------------------------------------

    def run(self, batch: Batch) -> list[list[Any]]:
        """Run a batch as one transaction and return its rows; checked, ready for `resolve`.

        Raises:
            Unavailable: the database stayed locked; nothing was applied.
            StatementError, SchemaError: SQLite refused; nothing was applied.
        """
        db = self._connection()
        self._forget_hourly()
        for attempt in (1, 2):
            number = self._n + 1
            program = self.program(batch, self._lane, number)
            try:
                slots = self._transaction(program, db)
            except sqlite3.Error as error:
                name = batch.statement_names[self._at] if self._at >= 0 else self._phase
                if attempt == 1 and self._at == 0 and "NOT NULL" in str(error):
                    # The lane was pruned after a day of silence, and nothing was applied.
                    self._renew_lane()
                    batch.forget_program()
                    continue
                refusal = "NOT NULL" in str(error)
                if refusal and name == "guard":
                    raise NotHeld(self._lost(batch)) from None
                if refusal and name == "dedup_guard":
                    raise Published(self._first(batch)) from None
                raise self.as_error(error, name) from error
            break
        self._n = number
        if not batch.check(slots, number):
            raise SchemaError("the lane's row vanished inside a transaction: the database is corrupt")
        return slots

    def program(self, batch: Batch, lane: str, number: int) -> list[list[Any]]:
        """The statements of a batch under this number of a lane."""
        return batch.program(self._texts, lane, number, self.clock.now(), self._window, self._name)

    def lane_statements(self, lane: str) -> tuple[list[Any], list[Any]]:
        """What registers a lane, unless it is, and what reads its number."""
        queue = self.statements.queue
        opening = [queue["lane_open"], orjson.dumps([lane]).decode(), self.clock.now()]
        return opening, [self.statements.opening["lane_number"], lane]

    def recover(self, batch: Batch) -> list[list[Any]] | None:
        """The rows of a batch whose run was interrupted; None when it was not applied, and may be run again.

        A read is proof here: the file is the one copy, and no late request can arrive.
        """
        db = self._connection()
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if batch.number:
                slots: list[list[Any]] = [[] for _ in batch.statement_names]
                for slot, statement in batch.reread(self._texts, self._lane):
                    slots[slot] = self.read(*statement)
                if batch.check(slots, batch.number):
                    self._n = batch.number
                    return slots
        except sqlite3.Error as error:
            raise OutcomeUnknown(
                f"{self.path}: {error}; a transaction was interrupted, and it could not be read what became of it: "
                "this call may have taken effect"
            ) from error
        batch.forget_program()
        return None

    def _lost(self, batch: Batch) -> set[int]:
        """Which acks of a refused bundle were lost."""
        try:
            return set(orjson.loads(self.read(self.statements.queue["ack_lost"], batch.lost_read())[0][0]))
        except sqlite3.Error as error:
            raise self.as_error(error, "ack_lost") from error

    def _first(self, batch: Batch) -> int:
        """The seq with which the message of a refused bundle was published before."""
        try:
            rows = self.read(self.statements.queue["dedup_first"], batch.dedup_id)
        except sqlite3.Error as error:
            raise self.as_error(error, "dedup_first") from error
        if not rows:
            raise Unavailable(
                f"{self.path}: the dedup id {batch.dedup_id!r} stood, and its window ended at that moment; nothing was "
                "applied, call again"
            )
        return int(rows[0][0])

    def _forget_hourly(self) -> None:
        if time.monotonic() < self._forget_at:
            return
        try:
            self._forget_statistics()
        except sqlite3.Error as error:
            log.warning("%s: statistics could not be removed, claims may be slow: %s", self.path, error)

    def resolve(self, batch: Batch, slots: Sequence[list[Any] | None]) -> Outcome:
        """Give each call of the batch its outcome."""
        outcome = batch.resolve(slots, self.clock.now(), self._decode, self.clock.now)
        self.clock.saw(outcome.t)
        return outcome

    def look(self, min_priority: int, only: tuple[str, str] | None = None) -> tuple[bool, float | None]:
        """Whether a claim (of these groups only) would find work, and when the next that is held back will be ready."""
        name, text, parameters = self.statements.look(min_priority, only)
        try:
            work, ready_at, t = self.read(text, self.clock.now(), *parameters)[0]
        except sqlite3.Error as error:
            raise self.as_error(error, name) from error
        self.clock.saw(t)
        return bool(work), ready_at

    @property
    def reads_apart(self) -> bool:
        """Whether `ask` goes past the connection that writes, so that its caller needs no lock."""
        return self._reader is not None

    def ask(self, names: list[str], statements: list[list[Any]]) -> list[list[list[Any]]]:
        """Run plain reads of one state of the database; returns the rows of each."""
        try:
            if self._reader is not None:
                return self._reader.ask(statements)
            return read_together(self._connection(), statements)
        except sqlite3.Error as error:
            raise self.as_error(error, names[0]) from error

    def read(self, text: str, *parameters: object) -> list[list[Any]]:
        """Run one plain read."""
        return [list(row) for row in self._connection().execute(text, parameters).fetchall()]

    def _connection(self) -> sqlite3.Connection:
        if self.closed:
            raise Closed("this transport was closed")
        if self._pid != os.getpid():
            # After fork: SQLite connections must not be carried over.  The child opens its own.
            self._disconnect()
        if self._db is None:
            self.open()
        assert self._db is not None
        return self._db

    def _transaction(self, program: list[list[Any]], db: sqlite3.Connection | None = None) -> list[list[Any]]:
        if db is None:
            db = self._connection()
        slots = []
        self._at, self._phase = -1, "begin"
        try:
            db.execute("BEGIN IMMEDIATE")
            for self._at, statement in enumerate(program):
                rows = db.execute(statement[0], statement[1:]).fetchall()
                slots.append([list(row) for row in rows])
            self._at, self._phase = -1, "commit"
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return slots

    def as_error(self, error: sqlite3.Error, doing: str) -> RqfastError:
        """What an error of SQLite means to a caller."""
        if is_busy(error):
            return Unavailable(
                f"{self.path}: locked by another program for {self._busy_timeout:g} s; nothing was applied, "
                "call again or raise busy_timeout="
            )
        return refusal(error, self.path, doing)
