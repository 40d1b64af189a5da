"""Opening a queue on rqlite: its tables made or checked, its lanes registered, its time learned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from ..errors import StatementError
from ..sql import Statements, upgrade
from .rqlite import CERTAIN_READ, EXECUTE, READ, RqliteEngine
from .time import JUMP, WATCH, QueueClock, Reading, log_refused, must_jump, must_watch

Rows = list[list[Any]]


class RqliteOpening:
    """Opens one queue; each step may be repeated, since every write is guarded or changes nothing the second time."""

    def __init__(
        self,
        engine: RqliteEngine,
        statements: Statements,
        queue: str | None,
        *,
        create: bool,
        clock: QueueClock,
        deadline: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._statements = statements
        self._queue = queue
        self._create = create
        self._clock = clock
        self._deadline = deadline

    async def run(self, lanes: Sequence[str]) -> None:
        """Open it and register these lanes.

        Raises:
            Unavailable: no leader in time; ConfigError: the credentials; SchemaError, StatementError: the tables.
        """
        await self._make()
        opening = self._statements.opening
        names = orjson.dumps(upgrade.expected(self._statements)).decode()
        objects, columns = await self._read([opening["objects"], names], [opening["columns"]], reads=_first_cells)
        upgrade.check_complete(self._statements, self._queue, (row[0] for row in objects), (row[0] for row in columns))
        await self._start_clock()
        queue = self._statements.queue
        await self._write(
            [queue["lane_open"], orjson.dumps(list(lanes)).decode(), self._clock.now()], [queue["lane_prune"]]
        )
        await self.forget_statistics()

    async def forget_statistics(self) -> None:
        """Remove what the planner noted of the queue's tables: such notes make for plans that read them whole."""
        opening = self._statements.opening
        tables = orjson.dumps(upgrade.expected(self._statements)).decode()
        if not (await self._read([opening["statistics_there"]], reads=_first_cell))[0][0][0]:
            return
        if (await self._read([opening["statistics_read"], tables], reads=_first_cell))[0][0][0]:
            await self._write([opening["statistics_delete"], tables])
            await self._write([opening["statistics_reload"]])

    async def _make(self) -> None:
        while upgrade.must_make(await self._registry(), self._queue, self._create):
            try:
                await self._write(*upgrade.making(self._statements, self._queue))
            except StatementError as error:
                if not upgrade.was_second(error.text):
                    raise

    async def _registry(self) -> Rows:
        there = await self._read([self._statements.opening["registry_there"]], reads=_first_cell)
        if not there[0][0][0]:
            return []
        read = self._statements.opening["registry_read"]
        return (await self._read([read], reads=lambda rows: [(row[0], int(row[1])) for row in rows[0]]))[0]

    async def _start_clock(self) -> None:
        if self._clock.source is not None:
            return
        reading, wall = await self._read_clock()
        if not must_jump(reading, wall):
            self._clock.saw(max(reading.t, wall))
            if must_watch(reading, wall):
                await asyncio.sleep(WATCH)
                self._clock.saw((await self._read_clock())[0].t)
            return
        if reading.held:
            await asyncio.sleep(WATCH)
            wall += WATCH
        await self._write([self._statements.opening["clock_jump"], reading.t, wall, int(reading.held)])
        now = (await self._read_clock())[0].t
        if wall - now > JUMP:
            log_refused(wall - now, self._engine.cluster.leader or "the leader")
        self._clock.saw(now)

    async def _read_clock(self) -> tuple[Reading, float]:
        opening = self._statements.opening
        # Weak: answered by the leader itself, and so never written to the log.
        clock, wall = await self._engine.repeat(
            READ,
            [[opening["clock"]], [opening["server_wall"]]],
            deadline=self._deadline,
            names=["clock", "server_wall"],
            reads=_clocks,
        )
        return _clocks([clock, wall])

    async def _read(self, *statements: list[Any], reads: Callable[[list[Rows]], object]) -> list[Rows]:
        return await self._engine.repeat(
            CERTAIN_READ, statements, deadline=self._deadline, names=["opening"] * len(statements), reads=reads
        )

    async def _write(self, *statements: list[Any]) -> None:
        await self._engine.repeat(EXECUTE, statements, deadline=self._deadline, names=["opening"] * len(statements))


def _first_cell(rows: list[Rows]) -> int:
    return int(rows[0][0][0])


def _first_cells(rows: list[Rows]) -> list[list[Any]]:
    return [[row[0] for row in found] for found in rows]


def _clocks(rows: list[Rows]) -> tuple[Reading, float]:
    """The queue's clock and the server's."""
    clock, wall = rows
    t, boot, boot_t, held = clock[0]
    told = wall[0][0] if wall else None
    return Reading(float(t), boot, boot_t, bool(held)), time.time() if told is None else float(told)
