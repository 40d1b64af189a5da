"""A database of the plain transport becomes one of rqfast: by many processes at once, or by one that is killed."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.reference import Event
from tests.cluster import Cluster
from tests.contract.conftest import COLOURS, EmbeddedDatabase
from tests.contract.processes import SPAWN, join_all, open_and_use
from tests.contract.test_schema import OLD_TABLES, make_old, old_publish, order
from tests.contract.views import Address, Row, View, open_address
from tests.moving.conftest import MixedQueue
from tests.proxy import Proxy, contains

PROCESSES = 10
SECONDS = 100.0
# So many that the upgrade takes a while.
MANY = 150_000
FILL = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?) "
    "INSERT INTO messages(group_id,event) SELECT 'g'||(i%1000), '{\"number\":'||i||'}' FROM n"
)


def registry(q: MixedQueue) -> list[Row]:
    """The queues that stand there."""
    there = q.sql("SELECT count(*) FROM sqlite_master WHERE name='rqfast_schema'")
    return q.sql("SELECT queue FROM rqfast_schema") if there != [(0,)] else []


def triggers(q: MixedQueue) -> int:
    return int(q.sql("SELECT count(*) FROM sqlite_master WHERE type='trigger'")[0][0])


def open_and_hang(address: Any, options: dict[str, Any]) -> None:
    """Open the queue, and stay until killed."""
    open_address(address, **options)
    threading.Event().wait(SECONDS)


def test_ten_processes_upgrade_at_once_while_old_ones_go_on(any_q: MixedQueue) -> None:
    make_old(any_q)
    for n in range(50):
        old_publish(any_q, f"old {n % 5}", str(n))
    processes = [SPAWN.Process(target=open_and_use, args=(any_q.address, n), daemon=True) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    published = 50
    while any(process.is_alive() for process in processes) and published < 400:
        old_publish(any_q, f"old {published % 5}", str(published))
        published += 1
    join_all(processes, SECONDS)
    assert registry(any_q) == [("",)]
    assert triggers(any_q) == 9
    seen = order(any_q.open())
    # Each process took one message, of whichever group.
    assert len(seen) == published + 5 * PROCESSES - PROCESSES
    for group in {group for group, _ in seen}:
        events = [event for its_group, event in seen if its_group == group]
        assert events == sorted(events), group


def open_until_killed(address: Any, most: int) -> None:
    """Open the queue; the kernel kills this process when it writes beyond so many bytes of a file."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    open_address(address)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on the size of files")
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("most", [50_000, 500_000, 2_000_000])
def test_a_process_that_is_killed_in_the_midst_of_an_upgrade(tmp_path: Path, colour: str, most: int) -> None:
    """Of a file: the transaction has begun to write its pages, and none of it stays."""
    with closing(MixedQueue("embedded", colour, EmbeddedDatabase(tmp_path / "queue.db"))) as q:
        make_old(q)
        q.execute(FILL, MANY)
        process = SPAWN.Process(target=open_until_killed, args=(q.address, most), daemon=True)
        process.start()
        process.join(SECONDS)
        assert process.exitcode == -signal.SIGXFSZ
        assert registry(q) == []
        view = q.open()
        assert (registry(q), triggers(q)) == ([("",)], 9)
        lease = view.claim("w", 600)
        assert lease is not None
        assert q.sql("SELECT count(*) FROM messages") == [(MANY,)]
        assert q.sql('SELECT count(*) FROM "groups"') == [(1000,)]


@pytest.mark.parametrize("late", [False, True], ids=["delivered", "delivered after another's"])
def test_a_client_that_is_killed_while_its_upgrade_is_on_the_way(q: MixedQueue, late: bool) -> None:
    if q.engine == "three nodes":
        pytest.skip("one proxy, one node")
    make_old(q)
    for n in range(10):
        old_publish(q, "g", Event(n).model_dump_json())
    node = urlsplit(q.url)
    assert node.hostname is not None and node.port is not None
    with Proxy(node.hostname, node.port) as proxy:
        upgrade = contains("CREATE TRIGGER")
        rule = proxy.hold_request(upgrade) if late else proxy.stall(upgrade)
        address = Address(proxy.url, {"discover": False}, q.colour)
        process = SPAWN.Process(target=open_and_hang, args=(address, {}), daemon=True)
        process.start()
        rule.wait(timeout=60)
        process.kill()
        process.join(30)
        view = q.open(decode=Event.model_validate_json)
        check(q, view)
        if late:
            rule.deliver()
            check(q, view)


@pytest.mark.cluster("one node")
def test_a_server_that_is_killed_while_it_upgrades() -> None:
    with Cluster(1) as cluster:
        for statement in OLD_TABLES:
            cluster.execute(statement)
        cluster.execute(FILL, MANY)
        (server,) = cluster.nodes
        with Proxy("127.0.0.1", server.http_port) as proxy:
            rule = proxy.let_pass(contains("CREATE TRIGGER"))
            process = SPAWN.Process(target=open_and_use, args=(Address(proxy.url, {"discover": False}, "sync"), 0))
            process.start()
            try:
                rule.wait(timeout=60)
                server.kill()
                server.restart()
            finally:
                join_all([process], SECONDS)
        assert cluster.query("SELECT count(*) FROM messages") == [(MANY + 5 - 1,)]
        assert cluster.query("SELECT count(*) FROM sqlite_master WHERE type='trigger'") == [(9,)]


def check(q: MixedQueue, view: View) -> None:
    """All is there, once, and the next message comes."""
    assert (registry(q), triggers(q)) == ([("",)], 9)
    lease = view.claim("w", 600)
    assert lease is not None
    count = q.sql("SELECT count(*), min(seq) FROM messages")[0]
    assert count[0] == 11 - lease.seq and count[1] == lease.seq
    view.ack(lease)


def test_rqfast_and_old_transports_open_at_once(q: MixedQueue) -> None:
    errors: list[BaseException] = []

    def open_one(number: int) -> None:
        try:
            transport: Any = q.open_plain() if number % 2 else q.open()
            transport.publish(f"g{number}", Event(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_one, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert sorted(group for group, _ in order(q.open())) == [f"g{n}" for n in range(8)]
