"""The test kit itself, against real nodes: what it starts, kills and pauses, and what its proxy does."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import cluster as cluster_kit
from tests.cluster import Cluster, Node, make_certificate, wait_until
from tests.proxy import ProxiedCluster, Proxy, contains

pytestmark = pytest.mark.cluster


@pytest.fixture
def table(one_node: Cluster) -> Iterator[str]:
    one_node.execute("CREATE TABLE kit(id INTEGER PRIMARY KEY, text TEXT)")
    yield "kit"
    one_node.execute("DROP TABLE kit")


@pytest.fixture
def proxy(one_node: Cluster, table: str) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", one_node.nodes[0].http_port) as proxy:
        yield proxy


def insert(proxy: Proxy, text: str, connection: http.client.HTTPConnection | None = None) -> tuple[int, bytes]:
    """Write one row through the proxy."""
    body = json.dumps([["INSERT INTO kit(text) VALUES(?)", text]])
    link = connection or http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=15)
    try:
        link.request("POST", "/db/execute", body, {"Content-Type": "application/json"})
        reply = link.getresponse()
        return reply.status, reply.read()
    finally:
        if connection is None:
            link.close()


def texts(cluster: Cluster) -> list[str]:
    return [row[0] for row in cluster.query("SELECT text FROM kit ORDER BY id")]


def in_thread(step: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Start `step` in a thread; what it returned or raised comes into the list."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(step())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


# -- nodes and clusters ------------------------------------------------------------------------------------


def test_a_read_adds_no_entry_and_a_write_adds_one(one_node: Cluster, table: str) -> None:
    before = one_node.raft_entries()
    one_node.query("SELECT * FROM kit")
    assert one_node.raft_entries() == before
    one_node.execute("INSERT INTO kit(text) VALUES(?)", "a")
    assert one_node.raft_entries() == before + 1
    assert one_node.applied_index() == before + 1
    assert texts(one_node) == ["a"]


def test_a_wrong_statement_raises(one_node: Cluster) -> None:
    with pytest.raises(AssertionError, match="no such table"):
        one_node.query("SELECT * FROM not_there")


def test_what_a_killed_node_confirmed_is_there_after_its_restart() -> None:
    with Cluster(1) as cluster:
        node = cluster.nodes[0]
        cluster.execute("CREATE TABLE kit(id INTEGER PRIMARY KEY, text TEXT)")
        cluster.execute("INSERT INTO kit(text) VALUES('kept')")
        port = node.http_port
        node.kill()
        assert not node.running
        node.restart()
        assert (node.http_port, texts(cluster)) == (port, ["kept"])
        node.terminate()
        assert not node.running
    assert not node.folder.exists()


def test_a_cluster_of_three_survives_kill_and_pause_of_its_leader() -> None:
    with Cluster(3) as cluster:
        cluster.execute("CREATE TABLE kit(id INTEGER PRIMARY KEY, text TEXT)")
        first = cluster.leader()
        assert len(cluster.followers()) == 2
        first.kill()
        second = cluster.wait_leader()
        assert second is not first
        cluster.execute("INSERT INTO kit(text) VALUES('after kill')")
        first.restart()
        cluster.wait_applied()
        second.pause()
        third = cluster.wait_leader()
        assert third is not second
        cluster.execute("INSERT INTO kit(text) VALUES('after pause')")
        second.resume()
        cluster.wait_applied()
        assert texts(cluster) == ["after kill", "after pause"]


def test_a_port_that_is_taken_is_exchanged_for_another(monkeypatch: pytest.MonkeyPatch, one_node: Cluster) -> None:
    real = cluster_kit._bindable
    taken = [one_node.nodes[0].http_port, one_node.nodes[0].raft_port]
    monkeypatch.setattr("tests.cluster._random_port", lambda: taken.pop() if taken else 0)
    monkeypatch.setattr("tests.cluster._bindable", lambda port: port or real(0))
    node = Node("clash")
    try:
        node.start()
        assert node.http_port != one_node.nodes[0].http_port
    finally:
        node.close()


def test_basic_auth_and_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    if certificate is None:
        pytest.skip("no openssl command")
    with Cluster(2, auth=("user", "p@ss:w/rd"), tls=certificate) as cluster:
        assert cluster.url.startswith("https://user:p%40ss%3Aw%2Frd@127.0.0.1:")
        cluster.execute("CREATE TABLE kit(text TEXT)")
        stranger = cluster.nodes[0]
        stranger.auth = ("user", "wrong")
        assert stranger.request("POST", "/db/query", b'["SELECT 1"]')[0] == 401


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_servers_die_with_a_killed_test_process() -> None:
    script = "import sys; from tests.cluster import Node; n = Node().start(); print(n._process.pid, flush=True)"
    script += "; sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    with child, child.stdout, child.stdin:
        server = int(child.stdout.readline())
        os.kill(server, 0)
        child.kill()
        child.wait(15)
        wait_until(f"server {server} to die", lambda: _is_gone(server))


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


# -- the proxy ---------------------------------------------------------------------------------------------


def test_it_passes_and_records(proxy: Proxy, one_node: Cluster) -> None:
    status, body = insert(proxy, "x" * 100_000)
    assert (status, json.loads(body)["results"][0]["rows_affected"]) == (200, 1)
    [exchange] = proxy.seen()
    # The client may have its reply before the proxy has written down that it sent it.
    give_up = time.monotonic() + 5
    while not exchange.answered and time.monotonic() < give_up:
        time.sleep(0.01)
    assert (exchange.delivered, exchange.answered, exchange.status) == (True, True, 200)
    assert exchange.reply == body
    assert len(texts(one_node)[0]) == 100_000


def test_what_it_had_just_accepted_is_cut_when_it_goes_down() -> None:
    """asyncio loses a connection that it accepts an instant before its server is closed."""
    with warnings.catch_warnings(record=True) as left, Proxy("127.0.0.1", 9) as proxy:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(50):
            taken = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(5)]
            proxy.down()
            for connection in taken:
                with connection:
                    connection.settimeout(5)
                    with contextlib.suppress(ConnectionResetError):
                        assert connection.recv(1) == b""
            proxy.up()
        gc.collect()
    assert [str(warning.message) for warning in left] == []


def test_it_passes_chunked_replies_on_a_kept_connection(proxy: Proxy) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=15)) as connection:
        for text in ("y" * 9_000, "z"):
            insert(proxy, text, connection)
            connection.request("POST", "/db/query", '["SELECT text FROM kit"]')
            reply = connection.getresponse()
            rows = json.loads(reply.read())["results"][0]["values"]
            assert rows[-1] == [text]


def test_cut_before_delivery(proxy: Proxy, one_node: Cluster) -> None:
    rule = proxy.cut_before(contains("gone"))
    with pytest.raises(OSError, match=r"."):
        insert(proxy, "gone")
    insert(proxy, "gone later")
    assert texts(one_node) == ["gone later"]
    assert [hit.delivered for hit in rule.wait()] == [False]


@pytest.mark.parametrize("how", ["cut_after", "cut_half"])
def test_cut_after_delivery(proxy: Proxy, one_node: Cluster, how: str) -> None:
    rule = getattr(proxy, how)(skip=1)
    insert(proxy, "first")
    with pytest.raises((OSError, http.client.IncompleteRead)):
        insert(proxy, "second")
    [hit] = rule.wait()
    assert (hit.delivered, hit.status, hit.answered) == (True, 200, False)
    insert(proxy, "third")
    assert texts(one_node) == ["first", "second", "third"]


def test_delay_until_released(proxy: Proxy, one_node: Cluster) -> None:
    early, late = proxy.delay(match=contains("late")), proxy.delay(match=contains("answer"), reply=True)
    first, first_result = in_thread(lambda: insert(proxy, "late"))
    second, second_result = in_thread(lambda: insert(proxy, "answer"))
    early.wait()
    late.wait()
    assert texts(one_node) == ["answer"]
    assert (first_result, second_result) == ([], [])
    early.release()
    late.release()
    first.join(15)
    second.join(15)
    assert [result[0] for result in (*first_result, *second_result)] == [200, 200]  # type: ignore[index]
    assert texts(one_node) == ["answer", "late"]


def test_delay_for_a_time(proxy: Proxy) -> None:
    proxy.delay(0.2)
    start = time.monotonic()
    assert insert(proxy, "a")[0] == 200
    assert time.monotonic() - start >= 0.2


@pytest.mark.parametrize("delivered", [True, False])
def test_stall(proxy: Proxy, one_node: Cluster, delivered: bool) -> None:
    rule = proxy.stall(delivered=delivered)
    thread, result = in_thread(lambda: insert(proxy, "a"))
    rule.wait()
    assert result == []
    assert texts(one_node) == (["a"] if delivered else [])
    rule.release()
    thread.join(15)
    assert isinstance(result[0], OSError)


def test_answers_of_its_own(proxy: Proxy, one_node: Cluster) -> None:
    proxy.answer(503, b"leader not found")
    proxy.answer(301, headers=[("Location", "http://127.0.0.1:1/db/execute")])
    proxy.answer(200, b"garbage", delivered=True)
    assert insert(proxy, "a") == (503, b"leader not found")
    assert insert(proxy, "b") == (301, b"")
    assert insert(proxy, "c") == (200, b"garbage")
    assert texts(one_node) == ["c"]


def test_a_rewritten_reply(proxy: Proxy) -> None:
    proxy.rewrite(lambda body: body.replace(b'"rows_affected":1', b'"rows_affected":7'))
    assert b'"rows_affected":7' in insert(proxy, "a")[1]


def test_a_held_request_is_delivered_late(proxy: Proxy, one_node: Cluster) -> None:
    rule = proxy.hold_request(contains("first"))
    with pytest.raises(OSError, match=r"."):
        insert(proxy, "first")
    insert(proxy, "second")
    [held] = rule.deliver()
    assert held.status == 200
    assert texts(one_node) == ["second", "first"]


def test_down_refuses_and_up_serves_again(proxy: Proxy) -> None:
    insert(proxy, "a")
    proxy.down()
    with pytest.raises(ConnectionRefusedError):
        insert(proxy, "b")
    proxy.up()
    assert insert(proxy, "c")[0] == 200


def test_idle_connections_are_closed(proxy: Proxy) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=15)) as connection:
        insert(proxy, "a", connection)
        assert proxy.close_idle() == 1
        with pytest.raises((OSError, http.client.HTTPException)):
            insert(proxy, "b", connection)


def test_a_failed_wait_names_what_it_waited_for(proxy: Proxy) -> None:
    insert(proxy, "a")
    with pytest.raises(AssertionError, match=r"waited 0.05 s for 1 x 'cut before delivery'.*\n.*POST /db/execute"):
        proxy.cut_before().wait(timeout=0.05)


def test_nodes_behind_proxies_name_the_proxies(three_nodes: Cluster) -> None:
    with ProxiedCluster(three_nodes) as proxied:
        ports = {proxy.port for proxy in proxied.proxies}
        leader, follower = proxied.leader_proxy(), proxied.proxy_of(three_nodes.followers()[0])
        with closing(http.client.HTTPConnection("127.0.0.1", follower.port, timeout=15)) as connection:
            connection.request("GET", "/nodes?ver=2")
            nodes = json.loads(connection.getresponse().read())["nodes"]
            assert {int(node["api_addr"].rpartition(":")[2]) for node in nodes} == ports
            connection.request("POST", "/db/query?level=weak&redirect", '["SELECT 1"]')
            reply = connection.getresponse()
            assert reply.status == 301
            assert f":{leader.port}/" in str(reply.headers["Location"])


def test_a_paused_node_behind_a_proxy_hangs_and_goes_on() -> None:
    with Cluster(1) as cluster, ProxiedCluster(cluster) as proxied:
        cluster.execute("CREATE TABLE kit(id INTEGER PRIMARY KEY, text TEXT)")
        [proxy], [node] = proxied.proxies, cluster.nodes
        node.pause()
        thread, result = in_thread(lambda: insert(proxy, "a"))
        proxy.wait_seen()
        thread.join(0.2)
        assert result == []
        node.resume()
        thread.join(15)
        assert result
        assert texts(cluster) == ["a"]
