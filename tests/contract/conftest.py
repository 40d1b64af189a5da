"""One suite on every engine in both colours. A new engine is one function and one line in `ENGINES`."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.contract.views import Clock, Database, QueueUnderTest, Row, queue_name, stop_background_loop
from tests.devserver import DevDatabase


class EmbeddedDatabase:
    """An SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path.as_posix()}"
        self._keeper: sqlite3.Connection | None = None
        self._shm = -1

    def sql(self, statement: str, params: tuple[object, ...]) -> list[Row]:
        with closing(self._connect()) as connection:
            return [tuple(row) for row in connection.execute(statement, params)]

    def execute(self, statement: str, params: tuple[object, ...]) -> None:
        with closing(self._connect()) as connection:
            connection.execute(statement, params)

    def entries(self) -> int:
        """`iChange` of the write-ahead log's index: one up at each commit that wrote a page.

        The file stays open till the end: closing any handle of it would drop this process's locks on it. And
        the connection stays open too, so that the file is not made anew with a count from 0.
        """
        if self._keeper is None:
            self._keeper = self._connect()
            self._keeper.execute("SELECT count(*) FROM sqlite_master").fetchall()
            self._shm = os.open(f"{self.path}-shm", os.O_RDONLY)
        os.lseek(self._shm, 8, os.SEEK_SET)
        count: int = struct.unpack("=I", os.read(self._shm, 4))[0]
        return count

    def drop(self, queue: str | None) -> None:
        pass  # the file goes with its folder

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            os.close(self._shm)
            self._keeper = None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)


class ClusterDatabase:
    """The database of a session's rqlite servers, or of its dev server."""

    def __init__(self, cluster: Cluster | DevDatabase) -> None:
        self.cluster = cluster
        self.url = cluster.url

    def sql(self, statement: str, params: tuple[object, ...]) -> list[Row]:
        return self.cluster.query(statement, *params)

    def execute(self, statement: str, params: tuple[object, ...]) -> None:
        self.cluster.execute(statement, *params)

    def entries(self) -> int:
        return self.cluster.raft_entries()

    def drop(self, queue: str | None) -> None:
        """Drop a queue's tables, views and row in the registry; with the default queue all others go too."""
        prefix = "rqfast_" if queue is None else f"rqfast_{queue}_"
        rows = self.cluster.query(
            "SELECT type, name FROM sqlite_master WHERE type IN ('table','view') AND substr(name,1,?)=?",
            len(prefix),
            prefix,
        )
        if queue is None:
            rows += [("table", "messages"), ("table", "groups")]
        statements: list[list[object]] = [[f'DROP {kind} IF EXISTS "{name}"'] for kind, name in sorted(rows)[::-1]]
        registry = "SELECT 1 FROM sqlite_master WHERE name='rqfast_schema'"
        if queue is not None and self.cluster.query(registry):
            statements.append(["DELETE FROM rqfast_schema WHERE queue=?", queue])
        if statements:
            self.cluster.execute_many(statements)

    def close(self) -> None:
        pass


def embedded(request: pytest.FixtureRequest) -> Database:
    folder: Path = request.getfixturevalue("tmp_path")
    return EmbeddedDatabase(folder / f"{queue_name()}.db")


def dev_server(request: pytest.FixtureRequest) -> Database:
    return ClusterDatabase(DevDatabase(request.getfixturevalue("dev_server")))


def one_node(request: pytest.FixtureRequest) -> Database:
    return ClusterDatabase(request.getfixturevalue("one_node"))


def three_nodes(request: pytest.FixtureRequest) -> Database:
    return ClusterDatabase(request.getfixturevalue("three_nodes"))


ENGINES: dict[str, Callable[[pytest.FixtureRequest], Database]] = {
    "embedded": embedded,
    "dev server": dev_server,
    "one node": one_node,
    "three nodes": three_nodes,
}
IN_PROCESS = ("embedded", "dev server")  # no rqlited needed
COLOURS = ("sync", "async")
BOTH = [
    pytest.param(
        (engine, colour),
        id=f"{engine}-{colour}",
        marks=() if engine in IN_PROCESS else pytest.mark.cluster(engine),
    )
    for engine in ENGINES
    for colour in COLOURS
]


@pytest.fixture(scope="session", autouse=True)
def _background_loop() -> Iterator[None]:
    yield
    stop_background_loop()


@pytest.fixture(params=BOTH)
def q(request: pytest.FixtureRequest) -> Iterator[QueueUnderTest]:
    """A queue that no other test uses, under a name of its own."""
    engine, colour = request.param
    yield from queue_of(request, engine, colour, queue_name())


@pytest.fixture(params=BOTH)
def default_q(request: pytest.FixtureRequest) -> Iterator[QueueUnderTest]:
    """The default queue (`queue=None`) in a database that has no other queue, before and after."""
    engine, colour = request.param
    yield from queue_of(request, engine, colour, None)


@pytest.fixture(params=COLOURS)
def embedded_q(request: pytest.FixtureRequest) -> Iterator[QueueUnderTest]:
    """The same on the embedded engine only: for what is decided before an engine has any part in it."""
    yield from queue_of(request, "embedded", request.param, queue_name())


@pytest.fixture
def clock() -> Clock:
    """A clock moved by hand, at 1,700,000,000."""
    return Clock()


def queue_of(request: pytest.FixtureRequest, engine: str, colour: str, queue: str | None) -> Iterator[QueueUnderTest]:
    """A queue on an engine in a colour; None is the default one, in a database of its own."""
    database = ENGINES[engine](request)
    if queue is None:
        database.drop(None)
    under_test = QueueUnderTest(engine, colour, database, queue)
    yield under_test
    under_test.close()
