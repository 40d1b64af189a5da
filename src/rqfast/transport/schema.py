"""The tables of a database, for whoever looks after them: which queues stand there, and whether old workers are let in.

Opens no queue and makes nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from ..engine.rqlite import CERTAIN_READ, EXECUTE, FIRST_PATIENCE, RqliteEngine
from ..errors import ConfigError, SchemaError
from ..sql import Statements, upgrade
from ..sql.names import TABLES, VIEWS, check_queue, quote, table_names
from .desk import Reads
from .rqlite_async import RQLITE_OPTIONS, parse_nodes
from .sqlite_sync import sqlite_path

T = TypeVar("T")
Rows = list[list[Any]]
Statement = Sequence[Any]

TIMEOUT = 10.0


@dataclass(frozen=True)
class Schema:
    """What stands in a database.

    Attributes:
        queues: name -> version of its tables; "" is the default queue.
        triggers: those that keep old workers in order; none once `finish` was called.
        old_leases: messages that old workers hold now.
        plain: the plain transport's tables stand there, and rqfast has not taken them over yet.
    """

    queues: dict[str, int]
    triggers: list[str]
    old_leases: int
    plain: bool = False


class Database:
    """Plain reads and writes, whatever the engine; that of rqlite may be asked itself."""

    def __init__(
        self,
        read: Callable[[Statement], Awaitable[Rows]],
        write: Callable[[Sequence[Statement]], Awaitable[None]],
        rqlite: RqliteEngine | None = None,
    ) -> None:
        self.read = read
        self.write = write
        self.rqlite = rqlite


async def read_schema(url: str, is_rqlite: bool) -> Schema:
    """See what stands there (Schema).

    Raises:
        SchemaError: there is no such file; Unavailable, ConfigError: as `connect`.
    """
    return await on_database(url, is_rqlite, _read_schema)


async def finish(url: str, is_rqlite: bool) -> Schema:
    """Let no old worker in any more: the triggers go.  May be repeated; returns what stood there before (Schema).

    Raises:
        SchemaError: the default queue is not there; Unavailable, ConfigError: as `connect`.
    """

    async def work(database: Database) -> Schema:
        schema = await _read_schema(database)
        upgrade.must_make(list(schema.queues.items()), None, create=False)
        if schema.triggers:
            await database.write([[text] for text in Statements(None).finish.values()])
        return schema

    return await on_database(url, is_rqlite, work)


async def check_schema(url: str, is_rqlite: bool, queue: str | None = None) -> dict[str, list[str]]:
    """What is wrong with the tables of each queue, or just this one ("" is the default): queue -> texts, none: nothing.

    Raises:
        SchemaError: there is no such file or queue; Unavailable, ConfigError: as `connect`.
    """

    async def work(database: Database) -> dict[str, list[str]]:
        schema = await _read_schema(database)
        if queue is not None:
            upgrade.must_make(list(schema.queues.items()), check_queue(queue or None), create=False)
        names = list(schema.queues) if queue is None else [queue]
        return {name: await _faults(database, name, schema.queues[name]) for name in names}

    return await on_database(url, is_rqlite, work)


async def _faults(database: Database, queue: str, version: int) -> list[str]:
    if version != upgrade.SCHEMA_VERSION:
        return [f"version {version}, and this rqfast knows {upgrade.SCHEMA_VERSION}"]
    statements = Statements(queue or None)
    wanted = upgrade.expected(statements)
    found = await database.read([statements.opening["objects"], orjson.dumps(wanted).decode()])
    columns = await database.read([statements.opening["columns"]])
    there = {row[0] for row in found}
    missing = [name for name in wanted if name not in there]
    missing += [f"column {name}" for name in upgrade.missing_columns(row[0] for row in columns)]
    return [f"{name} is missing" for name in missing]


async def drop_queue(url: str, is_rqlite: bool, queue: str) -> None:
    """Drop the tables of a named queue, with all that is in them; nothing where it is not there.

    Raises:
        SchemaError: there is no such file; Unavailable, ConfigError: as `connect`.
    """
    if check_queue(queue) is None:
        raise ConfigError("the default queue is dropped by nobody")
    names = table_names(queue)

    async def work(database: Database) -> None:
        if not (await database.read([Statements(None).opening["registry_there"]]))[0][0]:
            return
        drops = [f"DROP VIEW IF EXISTS {quote(names[name])}" for name in VIEWS]
        drops += [f"DROP TABLE IF EXISTS {quote(names[name])}" for name in TABLES]
        await database.write([["DELETE FROM rqfast_schema WHERE queue=?", queue], *([text] for text in drops)])

    await on_database(url, is_rqlite, work)


async def on_tables(url: str, is_rqlite: bool, work: Callable[[Reads], Awaitable[T]]) -> T:
    """Run `work`, which makes plain reads of tables that are the user's own.

    Raises:
        SchemaError: there is no such file; Unavailable, ConfigError: as `connect`.
    """

    async def run(database: Database) -> T:
        async def read(names: list[str], statements: list[list[Any]]) -> list[Rows]:
            return [await database.read(statement) for statement in statements]

        return await work(read)

    return await on_database(url, is_rqlite, run)


async def _read_schema(database: Database) -> Schema:
    statements = Statements(None)
    opening = statements.opening
    queues: dict[str, int] = {}
    if (await database.read([opening["registry_there"]]))[0][0]:
        queues = {row[0]: row[1] for row in await database.read([opening["registry_read"]])}
    names = orjson.dumps(upgrade.triggers(statements)).decode()
    triggers = [row[0] for row in await database.read([opening["objects"], names])]
    old_leases = (await database.read([opening["old_leases"]]))[0][0] if "" in queues else 0
    tables = table_names(None)
    plain = orjson.dumps([tables["messages"], tables["groups"]]).decode()
    is_plain = "" not in queues and len(await database.read([opening["objects"], plain])) > 1
    return Schema(queues, triggers, old_leases, is_plain)


async def on_database(
    url: str, is_rqlite: bool, work: Callable[[Database], Awaitable[T]], timeout: float = TIMEOUT
) -> T:
    """Run `work`, each of whose reads and writes may take `timeout` seconds.

    Raises:
        SchemaError: there is no such file; Unavailable, ConfigError: as `connect`.
    """
    return await (_on_rqlite if is_rqlite else _on_sqlite)(url, work, timeout)


async def _on_rqlite(url: str, work: Callable[[Database], Awaitable[T]], timeout: float) -> T:
    own = dict(RQLITE_OPTIONS)
    cluster, auth = parse_nodes(url, own)
    engine = RqliteEngine(cluster, auth=auth, ssl=own["ssl"], lane_table=Statements(None).names["lane"])
    engine.open()
    loop = asyncio.get_running_loop()
    patience = FIRST_PATIENCE if timeout <= TIMEOUT else timeout

    async def send(path: str, statements: Sequence[Statement]) -> list[Rows]:
        until = loop.time() + timeout
        names = ["schema"] * len(statements)
        return await engine.repeat(path, statements, deadline=lambda: until, names=names, patience=patience)

    async def read(statement: Statement) -> Rows:
        return (await send(CERTAIN_READ, [statement]))[0]

    async def write(statements: Sequence[Statement]) -> None:
        await send(EXECUTE, statements)

    try:
        return await work(Database(read, write, engine))
    finally:
        await engine.close()


def _existing(url: str) -> Path:
    """The file of a database; connecting to one that is not there would make it."""
    path = Path(sqlite_path(url))
    if not path.is_file():
        raise SchemaError(f"{path}: there is no such database")
    return path


async def _on_sqlite(url: str, work: Callable[[Database], Awaitable[T]], timeout: float) -> T:
    path = _existing(url)
    with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection:

        async def read(statement: Statement) -> Rows:
            return [list(row) for row in connection.execute(statement[0], tuple(statement[1:]))]

        async def write(statements: Sequence[Statement]) -> None:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                for text, *parameters in statements:
                    connection.execute(text, parameters)

        try:
            return await work(Database(read, write))
        except sqlite3.Error as error:
            raise SchemaError(f"{path}: {error}") from error
