"""The bookkeeping of one queue: looked at by plain reads, and what is derived made anew.

Each check is one statement, so it sees one state of the database whatever is written meanwhile.  Programs of the plain
transport write a message and its group one after the other: what is found counts when it is still so a moment later.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from ..errors import SchemaError, StatementError
from ..sql import Statements
from ..sql.names import INDEXES, TABLES, TRIGGERS, VIEWS
from ..sql.remake import remake
from ..transport.schema import Database, Rows
from .checks import CHECKS, Check, finding, lacks, of_objects
from .found import Finding, Report

# Rows of one check that are told apart, looks before something counts, and seconds between two.
MOST = 100
LOOKS, PAUSE = 3, 0.1
# What one statement says of itself; that nobody answers is another matter.
REFUSED = (StatementError, SchemaError, sqlite3.Error)


class Bookkeeping:
    """Of one queue; `queue` "" is the default one."""

    def __init__(self, database: Database, queue: str) -> None:
        self._database = database
        self._queue = queue
        self._statements = Statements(queue or None)
        self._there: list[str] = []
        self._anew: list[str] = []
        self._failed: list[Check] = []

    async def look(self, report: Report) -> None:
        """Make all checks, and write down what they found.

        Raises:
            Unavailable: no leader answers.
        """
        report.findings += await self._objects()
        self._failed = []
        has_state = True
        for check in CHECKS:
            report.checks += 1
            missing = lacks(check, self._statements, self._there)
            if not has_state and self._statements.names["state"] in self._statements.verify[check.name]:
                missing = [f"the row of {self._statements.names['state']}"]
            if missing:
                report.untold.append(f"{self._called}: {check.name} needs {', '.join(missing)}")
                continue
            try:
                found = await self._confirmed(check)
            except REFUSED as error:
                report.untold.append(f"{self._called}: {check.name}: {error}")
                continue
            if found is not None:
                report.findings.append(found)
                self._failed.append(check)
                has_state = has_state and check.name != "state_row"

    async def mend(self, report: Report) -> None:
        """Make anew what is derived, as far as `look` found it wrong; messages are not touched.

        Raises:
            Unavailable: no leader answers.
        """
        await self._try(report, "the indexes, views and triggers", self._mend_objects)
        if self._anew:
            # Some checks could not be made without them.
            await self.look(Report())
        for check in self._failed:
            if check.mends:

                async def work(check: Check = check) -> str:
                    return await self._mend(check)

                await self._try(report, check.name, work)

    async def _try(self, report: Report, what: str, work: Callable[[], Awaitable[str]]) -> None:
        try:
            done = await work()
        except REFUSED as error:
            report.untold.append(f"{self._called}: {what} could not be mended: {error}")
            return
        if done:
            report.mended.append(f"{self._called}: {done}")

    @property
    def _called(self) -> str:
        return f"queue {self._queue}" if self._queue else "default queue"

    async def _read(self, name: str, *parameters: Any) -> Rows:
        return await self._database.read([self._statements.verify[name], *parameters])

    async def _objects(self) -> list[Finding]:
        names = self._statements.names
        wanted = [names[name] for name in (*TABLES, *INDEXES, *VIEWS, *TRIGGERS)]
        objects = await self._read("objects", orjson.dumps(wanted).decode())
        self._there = [row[0] for row in objects]
        columns = await self._database.read([self._statements.opening["columns"]])
        found, self._anew = of_objects(self._statements, self._queue, objects, [row[0] for row in columns])
        return found

    async def _confirmed(self, check: Check) -> Finding | None:
        """What a check finds again and again."""
        rows = await self._read(check.name, MOST)
        for _ in range(LOOKS - 1):
            if not rows:
                return None
            await asyncio.sleep(PAUSE)
            before = {row[1] for row in rows}
            again = await self._read(check.name, MOST)
            rows = [row for row in again if row[1] in before]
            transient = len(again) - len(rows)
        return finding(check, self._queue, rows, rows[0][0] - transient) if rows else None

    # -- mending --------------------------------------------------------------------------------------------

    async def _mend_objects(self) -> str:
        if not self._anew:
            return ""
        await self._write([text for name in self._anew for text in remake(self._statements, name)])
        return f"made anew: {', '.join(self._statements.names[name] for name in self._anew)}"

    async def _mend(self, check: Check) -> str:
        """Run the statements that mend it until nothing is left, or nothing changes any more."""
        first = left = await self._count(check)
        while left:
            await self._write([self._statements.verify[name] for name in check.mends])
            before, left = left, await self._count(check)
            if left >= before:
                break
        return check.done.format(n=f"{first - left:,}") if left < first else ""

    async def _count(self, check: Check) -> int:
        rows = await self._read(check.name, 1)
        return int(rows[0][0]) if rows else 0

    async def _write(self, texts: Sequence[str]) -> None:
        await self._database.write([[text] for text in texts])
