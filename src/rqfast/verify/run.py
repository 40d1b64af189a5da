"""Whether a database's queues are sound: their bookkeeping, and, on a cluster, that all nodes hold the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from ..errors import SchemaError
from ..sql import Statements, upgrade
from ..sql.names import INDEXES, TABLES, VIEWS, check_queue
from ..transport.schema import Database, on_database
from .bookkeeping import REFUSED, Bookkeeping
from .compare import Sums, advance
from .found import Finding, Report, TableState
from .nodes import BadRead, NodeLost, Nodes, describe, marks, settle

# How long a read of a whole table may take, in seconds.
PATIENCE = 60.0
# A page of a table: so many rows, and so many characters of payloads.
PAGE_ROWS, PAGE_CHARACTERS = 1000, 4 << 20

# The pages of each table, and the least key they begin with.
_OF_QUEUE = {
    "page_messages": -(1 << 63), "page_groups": "", "page_state": -(1 << 63), "page_lane": "", "page_dedup": "",
    "page_dead": -(1 << 63), "page_sequence": "", "page_objects": "",
}  # fmt: skip
_SHARED = {"page_registry": "rqfast_schema", "page_paused": "rqfast_paused"}
_TITLES = {"page_sequence": "sqlite_sequence", "page_objects": "indexes, views, triggers"}


async def verify(
    url: str,
    is_rqlite: bool,
    *,
    queue: str | None = None,
    repair: bool = False,
    wait: float = 10.0,
) -> Report:
    """Look at the queues of a database, and compare the nodes of a cluster.

    Args:
        queue: just this one; "" is the default queue.  None: all.
        repair: make anew what is derived, where it is wrong.
        wait: how long a leader may take to answer at all, and the nodes to come to one index, in seconds.

    Raises:
        SchemaError: there is no such file or queue; Unavailable, ConfigError: as `connect`.
    """

    async def work(database: Database) -> Report:
        report = Report()
        await _integrity(database, report)
        report.queues = await _queues(database, queue, report)
        await _bookkeeping(database, report, repair)
        if database.rqlite is not None:
            nodes = Nodes(database.rqlite)
            await _Comparison(nodes, report).run(wait)
        return report

    async def greet(database: Database) -> None:
        if database.rqlite is not None:
            await database.read([Statements(None).opening["registry_there"]])

    await on_database(url, is_rqlite, greet, max(1.0, wait))
    return await on_database(url, is_rqlite, work, PATIENCE)


async def _integrity(database: Database, report: Report) -> None:
    """Of the file itself; that of a node is looked at when the nodes are compared."""
    if database.rqlite is not None:
        return
    try:
        rows = await database.read([Statements(None).verify["integrity"]])
    except REFUSED as error:
        rows = [[str(error)]]
    report.findings += _broken(rows, "the file")


def _broken(rows: Sequence[Sequence[Any]], where: str) -> list[Finding]:
    if [list(row) for row in rows] == [["ok"]]:
        return []
    text = f"{where} is damaged: {rows[0][0] if rows else 'no answer'}; restore it from a backup"
    return [Finding("", "integrity", where, len(rows), text, False)]


async def _queues(database: Database, queue: str | None, report: Report) -> list[str]:
    opening = Statements(None).opening
    registry: list[list[Any]] = []
    try:
        if (await database.read([opening["registry_there"]]))[0][0]:
            registry = await database.read([opening["registry_read"]])
    except REFUSED as error:
        if report.findings:
            report.untold.append(f"which queues stand there: {error}")
            return []
        raise
    if queue is not None:
        name = check_queue(queue or None)
        upgrade.must_make(registry, name, create=False)
        return [queue]
    if not registry:
        raise SchemaError("no queue of rqfast is in this database")
    told = []
    for name, _ in registry:
        try:
            upgrade.must_make(registry, name or None, create=False)
            told.append(name)
        except SchemaError as error:
            report.untold.append(str(error))
    return told


async def _bookkeeping(database: Database, report: Report, repair: bool) -> None:
    for name in report.queues:
        books = Bookkeeping(database, name)
        found = Report()
        await books.look(found)
        if repair and found.findings:
            await books.mend(report)
            found = Report()
            await books.look(found)
        report.checks += found.checks
        report.findings += found.findings
        report.untold += found.untold


class _Moved(Exception):
    """Something was written, or a node was lost, while the tables were read."""


class _Comparison:
    """The tables of all queues on all nodes, at one index."""

    def __init__(self, nodes: Nodes, report: Report) -> None:
        self._nodes = nodes
        self._report = report

    async def run(self, wait: float) -> None:
        """Compare them, waiting so many seconds for the nodes to be at one index."""
        until = asyncio.get_running_loop().time() + wait
        report = self._report
        await self._nodes.find()
        report.nodes = self._nodes.states
        while True:
            if not await settle(self._nodes, until):
                told = describe(report.nodes) or "none answers"
                report.untold.append(
                    f"whether the nodes agree: busy, in {wait:g} s they were never at one index with nothing on its "
                    f"way ({told}); try again when less is written, or with a longer --wait"
                )
                break
            before = marks(report.nodes)
            try:
                tables, broken = await self._compare()
            except NodeLost as lost:
                next(state for state in report.nodes if state.node == lost.node).error = lost.why
                continue
            await self._nodes.look()
            if marks(report.nodes) == before:
                report.tables, report.index = tables, before[0][0]
                report.findings += broken
                break
        self._say_what_is_untold()

    def _say_what_is_untold(self) -> None:
        for state in self._report.nodes:
            if state.error:
                self._report.untold.append(f"what node {state.node} holds: {state.error}")
        for table in self._report.tables:
            if table.unread:
                self._report.untold.append(f"whether the nodes agree on {table.table}: {table.unread}")

    async def _compare(self) -> tuple[list[TableState], list[Finding]]:
        tables: list[TableState] = []
        shared = Statements(None)
        for page, table in _SHARED.items():
            state = await self._table(TableState(None, table), shared.verify[page], "", None)
            if page == "page_registry" or not state.unread:
                tables.append(state)
        for queue in self._report.queues:
            statements = Statements(queue or None)
            names = [statements.names[name] for name in (*TABLES, *INDEXES, *VIEWS, *statements.compat)]
            for page, least in _OF_QUEUE.items():
                title = _TITLES.get(page) or statements.names[page.removeprefix("page_")]
                last = {
                    "page_objects": orjson.dumps(names).decode(),
                    "page_messages": PAGE_CHARACTERS,
                    "page_dead": PAGE_CHARACTERS,
                }.get(page)
                tables.append(await self._table(TableState(queue, title), statements.verify[page], least, last))
        broken: list[Finding] = []
        for node in self._nodes.readable:
            _, rows = await self._nodes.read(node, [shared.verify["integrity"]])
            broken += _broken(rows, f"the database of node {node}")
        return tables, broken

    async def _table(self, state: TableState, text: str, least: Any, last: Any) -> TableState:
        """Read a table of all nodes side by side, a page at a time."""
        nodes = self._nodes.readable
        sums = Sums(nodes)
        begin, leave_out = least, None
        while True:
            statement = [text, *_lists(begin, leave_out), PAGE_ROWS, *([] if last is None else [last])]
            read = await asyncio.gather(*(self._page(node, statement) for node in nodes))
            errors = {node: found for node, found in zip(nodes, read, strict=True) if isinstance(found, str)}
            if errors:
                texts = "; ".join(f"node {node}: {text}" for node, text in errors.items())
                if len(errors) == len(nodes):
                    state.unread = texts
                else:
                    state.difference = f"cannot be read everywhere: {texts}"
                return state
            found = [page for page in read if not isinstance(page, str)]
            bound, pages = advance({node: rows for node, (_, rows) in zip(nodes, found, strict=True)})
            if bound is None:
                sums.finish(state)
                return state
            sums.add(pages, found[0][0])
            begin = leave_out = bound

    async def _page(self, node: str, statement: Sequence[Any]) -> tuple[list[str], list[list[Any]]] | str:
        try:
            return await self._nodes.read(node, statement)
        except BadRead as error:
            return str(error)


def _lists(begin: Any, leave_out: Any) -> tuple[str, str]:
    return orjson.dumps([begin]).decode(), orjson.dumps([leave_out]).decode()
