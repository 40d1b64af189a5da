"""A fork with an embedded queue open: both sides go on, each with calls of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import rqfast
from tests.contract.conftest import ENGINES, EmbeddedDatabase
from tests.contract.forked import fork_and_fail, fork_elsewhere, fork_on_a_loop, fork_while_busy
from tests.contract.processes import HAS_FORK, SPAWN, join_all
from tests.contract.views import Queue, queue_name, run_async

pytestmark = pytest.mark.skipif(not HAS_FORK, reason="no fork on this system")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Queue]:
    q = Queue("embedded", "sync", EmbeddedDatabase(tmp_path / "queue.db"), queue_name())
    yield q
    q.close()


def run(work: Callable[..., None], *args: Any) -> None:
    process = SPAWN.Process(target=work, args=args, daemon=True)
    process.start()
    join_all([process], 60)


def events(q: Queue) -> list[str]:
    return [event for (event,) in q.sql(f"SELECT event FROM {q.table('messages')} ORDER BY seq")]


@pytest.fixture(params=["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))])
def sq(request: pytest.FixtureRequest) -> Iterator[Queue]:
    q = Queue(request.param, "sync", ENGINES[request.param](request), queue_name())
    yield q
    q.close()


def test_a_fork_while_other_threads_work(sq: Queue) -> None:
    """What waits at the fork is the parent's and is published once; a child claims under a name of its own."""
    q = sq
    run(fork_while_busy, q.address)
    rows = q.sql(f"SELECT group_id, event FROM {q.table('messages')} ORDER BY seq")
    for number in range(6):
        found = [int(event) for group, event in rows if group == f"parent {number}"]
        assert found == list(range(len(found)))
    assert not any(group.startswith("child") for group, _ in rows)


def test_a_fork_on_a_loop_with_calls_in_flight(sq: Queue) -> None:
    """They are the parent's; its transport belongs to its loop, and says so in the child."""
    q = sq
    run(fork_on_a_loop, q.address)
    rows = q.sql(f"SELECT group_id, event FROM {q.table('messages')} ORDER BY seq")
    assert rows == [("parent", str(n)) for n in range(100)]


def test_a_relative_path_stays_where_it_was(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    run(fork_elsewhere, str(here), str(there))
    assert list(there.iterdir()) == []
    with closing(sqlite3.connect(here / "queue.db")) as database:
        found = [event for (event,) in database.execute("SELECT event FROM messages ORDER BY seq")]
    assert found == ['"before"', '"child"', '"parent"']


@pytest.mark.parametrize("url", ["queue.db", "sqlite:///queue.db"])
def test_a_relative_path_of_a_twin_that_opens_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    async def script() -> None:
        monkeypatch.chdir(here)
        transport: rqfast.AsyncSqliteTransport[Any] = rqfast.AsyncSqliteTransport(url)
        monkeypatch.chdir(there)
        await transport.publish("g", 1)
        await transport.close()

    run_async(script(), "a publish from another folder")
    assert list(there.iterdir()) == []
    assert (here / "queue.db").exists()


@pytest.mark.parametrize("how", ["locked", "no file"])
def test_a_child_that_cannot_open_the_file_at_first(embedded: Queue, how: str) -> None:
    run(fork_and_fail, embedded.address, how)
    assert events(embedded) == ['"before"', '"child"', '"parent"']
