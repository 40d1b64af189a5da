"""Hostile input to the dev server: bounded memory and time, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from rqfast.devserver import DevServer, guard, intake
from tests.cluster import wait_until
from tests.devserver import DevDatabase, ask

HOST = b"Host: 127.0.0.1\r\n"


@pytest.fixture
def server() -> Iterator[DevServer]:
    with DevServer() as running:
        yield running


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[DevServer]:
    """A server whose patience is short."""
    for name, seconds in (("HEAD_SECONDS", 0.5), ("IDLE_SECONDS", 0.5), ("WRITE_SECONDS", 1.0)):
        monkeypatch.setattr(guard, name, seconds)
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.5)
    with DevServer() as running:
        yield running


def reach(server: DevServer) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=60)


def ended(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection, which it must."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            got += piece
    return got


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended it, told without reading what has come."""
    try:
        return connection.send(b"x") == 0
    except ConnectionError:
        return True


def serves(server: DevServer) -> None:
    """Somebody else gets an answer."""
    assert DevDatabase(server).query("SELECT 1") == [(1,)]


# -- slow clients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", b"G", b"POST /db/execute HTTP/1.1\r\n" + HOST, b"GET / HTTP/1.1\r\nX: " + b"y" * 4000], ids=len
)
def test_a_head_that_does_not_come_ends_the_connection(hasty: DevServer, sent: bytes) -> None:
    with closing(reach(hasty)) as connection:
        connection.sendall(sent)
        serves(hasty)
        ended(connection)
    serves(hasty)


def test_a_head_that_comes_drop_by_drop_too(hasty: DevServer) -> None:
    with closing(reach(hasty)) as connection:
        connection.settimeout(0.05)
        end = time.monotonic() + 60
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /readyz HTTP/1.1\r\n")
            while time.monotonic() < end:
                connection.sendall(b"X: y\r\n")
                with contextlib.suppress(TimeoutError):
                    if connection.recv(1000) == b"":
                        break
        assert time.monotonic() < end, "each drop let it live on"
    serves(hasty)


@pytest.mark.parametrize("framing", [b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\n[\r\n"])
def test_a_body_that_does_not_come_is_408(hasty: DevServer, framing: bytes) -> None:
    with closing(reach(hasty)) as connection:
        connection.sendall(b"POST /db/query HTTP/1.1\r\n" + HOST + framing + b"[")
        serves(hasty)
        got = ended(connection)
    assert got.startswith(b"HTTP/1.1 408") and b"did not come within" in got


def test_an_idle_connection_is_ended_and_one_in_use_is_not(hasty: DevServer) -> None:
    with closing(reach(hasty)) as connection:
        for _ in range(3):
            connection.sendall(b"GET /readyz HTTP/1.1\r\n" + HOST + b"\r\n")
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            assert (reply.status, reply.read()[:10]) == (200, b"[+]node ok")
        assert ended(connection) == b""


def test_a_statement_may_take_longer_than_a_head(hasty: DevServer) -> None:
    slow = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT count(*) FROM c"
    reply = DevDatabase(hasty).ask("POST", "/db/query?db_timeout=1500ms", [slow])
    assert json.loads(reply.body)["results"] == [{"error": "query timeout"}]


def test_a_client_that_does_not_read_its_reply_is_ended(hasty: DevServer) -> None:
    with closing(reach(hasty)) as connection:
        body = json.dumps(["SELECT hex(zeroblob(8000000))"]).encode()
        length = f"Content-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(b"POST /db/query HTTP/1.1\r\n" + HOST + length + body)
        wait_until("the reply to begin", lambda: connection.recv(1, socket.MSG_PEEK))
        serves(hasty)
        wait_until("the server to end the connection", lambda: is_ended(connection))
    serves(hasty)


def test_many_connections_that_say_nothing_keep_nobody_out(server: DevServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST", 50)
    with ExitStack() as stack:
        silent = []
        for number in range(120):
            silent.append(stack.enter_context(closing(reach(server))))
            silent[-1].sendall(b"POST /db/execute HTTP/1.1\r\n")
            if number % 20 == 0:
                serves(server)
        serves(server)
        assert ended(silent[0]) == b"", "the one that had waited longest made room"
        with closing(http.client.HTTPConnection(server.host, server.port, timeout=60)) as kept:
            for _ in range(3):
                kept.request("GET", "/readyz")
                assert kept.getresponse().read()


# -- large and odd input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n" + HOST,
        b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(2000)),
        b"GET / HTTP/1.1\r\n" + HOST + b"X Y: z\r\n",
        b"GET / HTTP/9.9\r\n" + HOST,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"\x00" * 300,
        b"POST /db/execute HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n",
        b"POST /db/execute HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"POST /db/execute HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n",
        b"POST /db/execute HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"POST /db/execute HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, chunked\r\n",
    ],
    ids=[
        "path", "header", "headers", "name", "version", "TLS", "NULs", "negative", "two lengths", "huge", "both",
        "chunked twice",
    ],
)  # fmt: skip
def test_a_head_that_is_none_is_4xx_and_the_connection_ends(hasty: DevServer, head: bytes) -> None:
    with closing(reach(hasty)) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head + b"\r\n")
        got = ended(connection)
    assert got == b"" or got.split(b" ", 2)[1].startswith(b"4"), got[:200]
    serves(hasty)


@pytest.mark.parametrize(
    "chunks",
    [b"zz\r\n", b"-1\r\n", b"5\r\nabc", b"1\r\nab\r\n", b"F" * 100 + b"\r\n", b"5;" + b"x" * 100_000 + b"\r\n"],
)
def test_bad_chunks_change_nothing_and_end_the_connection(hasty: DevServer, chunks: bytes) -> None:
    db = DevDatabase(hasty)
    db.execute("CREATE TABLE t(a)")
    with closing(reach(hasty)) as connection:
        head = b"POST /db/execute HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            connection.sendall(head + b'1b\r\n["INSERT INTO t VALUES(1)\r\n' + chunks)
        got = ended(connection)
    assert got == b"" or got.split(b" ", 2)[1].startswith(b"4"), got[:200]
    assert db.query("SELECT count(*) FROM t") == [(0,)]


def test_a_packed_body_is_not_unpacked(server: DevServer) -> None:
    packed = gzip.compress(b" " * (40 << 20) + b'["SELECT 1"]')
    for encoding in ("gzip", "deflate", "br", "zstd"):
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        assert ask(server.host, server.port, "POST", "/db/query", packed, headers).status == 400
    serves(server)


DEEP = [b"[" * depth + b"]" * depth for depth in (500, 1500, 20_000, 200_000)]
BODIES = [
    *DEEP,
    *(deep + b"x" for deep in DEEP),
    b'{"a":' * 100_000,
    b"[" + b"9" * 100_000 + b"]",
    b'["SELECT ?", ' + b"9" * 100_000 + b"]",
    b'[["SELECT ?", 1e99999]]',
    b'[["SELECT ?", ' + b"[" * 3000 + b"]" * 3000 + b"]]",
    b'[["SELECT ?", {"a":' * 500,
    b'["\xed\xa0\x80\xff"]',
    b'["\\ud800"]',
    b'[["SELECT ?", -1.' + b"0" * 100_000 + b"]]",
    b"\xef\xbb\xbf[]",
    b"",
    b"\x00" * 1000,
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_body_that_is_hardly_json_is_answered(server: DevServer, number: int) -> None:
    for path in ("/db/execute", "/db/query", "/db/request"):
        reply = ask(server.host, server.port, "POST", path, BODIES[number])
        assert reply.status in (200, 400), (path, reply)
    serves(server)


@pytest.mark.parametrize(
    "target",
    [
        "/../../etc/passwd", "/db/query/../../../etc/passwd", "/db/%2e%2e/%2e%2e/etc/passwd", "//db/execute", "/./db",
        "/%00", "/db/execute%00.txt", "/static/..%2f..%2fetc/passwd", "http://example.com/db/execute", "*",
        "/db/backup",
        "/console/../db", "/\\..\\..\\windows", "/status?key=" + "a." * 2000, "/status?key=__class__.__init__",
        "/nodes?ver=2&" + "&".join(f"a{n}=1" for n in range(500)),
        "/db/query?q=SELECT%201&db_timeout=" + "9" * 3000 + "s",
        "/db/query?level=%ff%fe&q=SELECT+1", "/?%", "/%", "/db/query?timeout=1e9999s&q=SELECT+1", "?", "/\u2028",
    ],
)  # fmt: skip
def test_a_path_leads_to_no_file_and_no_failure(server: DevServer, target: str) -> None:
    for method in (b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"TRACE", b"CONNECT", b"PROPFIND"):
        with closing(reach(server)) as connection:
            head = method + b" " + target.encode() + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n"
            connection.sendall(head + b"Content-Length: 0\r\n\r\n")
            got = ended(connection)
        status = int(got.split(b" ", 2)[1]) if got else 400
        assert status < 500 or status == 501, (method, got[:300])
        assert (
            b"root:" not in got
            and os.fsencode(os.sep + "tmp") not in got.partition(b"\r\n\r\n")[2].replace(b"rqfast-dev-server", b"")
        ) or target.startswith("/status")
    serves(server)


def test_without_a_host_no_name_is_looked_up(server: DevServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(name: str = "") -> str:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "getfqdn", slow)
    for version in (b"1.0", b"1.1"):
        with closing(reach(server)) as connection:
            connection.sendall(b"GET /status HTTP/" + version + b"\r\nConnection: close\r\n\r\n")
            assert ended(connection).split(b" ", 2)[1] in (b"400", b"403")


def test_noise_does_not_end_it(hasty: DevServer) -> None:
    dice = random.Random(7)
    pieces = [
        b"GET ",
        b"POST ",
        b"/db/query",
        b" HTTP/1.1\r\n",
        HOST,
        b"\r\n",
        b"Content-Length: 7\r\n",
        b'["SELECT 1"]',
    ]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"\xff", b"\n", b": ", bytes(range(256))]
    for _ in range(150):
        with closing(reach(hasty)) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"".join(dice.choices(pieces, k=dice.randrange(1, 12))))
            connection.shutdown(socket.SHUT_WR)
            for line in ended(connection).split(b"\r\n"):
                assert not line.startswith(b"HTTP/1.1 5"), line
    serves(hasty)


# -- memory ----------------------------------------------------------------------------------------------


def peak() -> int:
    """Bytes that this process has now."""
    with Path("/proc/self/statm").open() as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="its memory is read from /proc")
def test_many_large_bodies_at_once_are_not_all_held(server: DevServer) -> None:
    """Of 40 bodies of 40 MiB that never end, a few are read on."""
    size, count = 40 << 20, 40
    sent = 0

    async def flood() -> None:
        nonlocal sent
        piece = b" " * (1 << 18)

        async def one() -> None:
            nonlocal sent
            _, writer = await asyncio.open_connection(server.host, server.port)
            try:
                writer.write(b"POST /db/query HTTP/1.1\r\n" + HOST + f"Content-Length: {size + 1}\r\n\r\n".encode())
                for _ in range(size // len(piece)):
                    writer.write(piece)
                    await writer.drain()
                    sent += len(piece)
                await asyncio.sleep(60)
            finally:
                writer.transport.abort()

        tasks = [asyncio.create_task(one()) for _ in range(count)]
        before, last = peak(), -1
        while sent != last:
            last = sent
            await asyncio.sleep(1)
        await asyncio.to_thread(serves, server)
        grown = peak() - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert grown < 12 * size, f"{grown >> 20} MiB for {count} bodies of {size >> 20} MiB"

    asyncio.run(flood())
    wait_until("room for another", lambda: DevDatabase(server).query("SELECT length(?)", "x" * (3 << 20)))
