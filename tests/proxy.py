"""A fault proxy before one HTTP server: it passes, delays, cuts, stalls, answers itself, or delivers late.

It runs on an event loop in a thread of its own and acts on whole exchanges (one request, one reply), so
that a test says exactly which request is lost and whether the server saw it. Every exchange is recorded.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import enum
import re
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

from tests.cluster import Cluster, Node

T = TypeVar("T")
Headers = list[tuple[str, str]]
Change = Callable[[bytes], bytes]

MAX_HEAD = 1 << 20
_REWRITTEN = re.compile(r"/(nodes|status|leader)\b")


class ProxyError(AssertionError):
    """Something that a test waited for did not pass through the proxy."""


class Fault(enum.Enum):
    PASS = "pass"
    DELAY_REQUEST = "delay before delivery"
    DELAY_REPLY = "delay after delivery, before the reply"
    CUT_BEFORE = "cut before delivery"
    CUT_AFTER = "cut after delivery, before the reply"
    CUT_HALF = "cut half-way through the reply"
    STALL = "never answer"
    ANSWER = "answer without the server"
    REWRITE = "change the reply"
    HOLD = "hold the request and deliver it later"


@dataclass
class Exchange:
    """One request that reached the proxy, and what became of it."""

    number: int
    method: str
    path: str
    headers: Headers
    body: bytes
    fault: Fault = Fault.PASS
    delivered: bool = False  # all its bytes were sent to the server
    status: int | None = None  # what the server answered, whether the client got it or not
    reply: bytes = b""
    answered: bool = False  # the client was sent a whole reply

    def __repr__(self) -> str:
        told = f"{self.fault.value}, delivered={self.delivered}, answered={self.answered}"
        return f"<Exchange {self.number} {self.method} {self.path} {self.status} {self.body[:80]!r} {told}>"


Match = Callable[[Exchange], bool]


class Times(TypedDict, total=False):
    """On which of the matching exchanges a rule acts: after `skip`, on `count` (default 1; None: no end)."""

    count: int | None
    skip: int


def is_write(exchange: Exchange) -> bool:
    """A request that may change the database."""
    return exchange.path.startswith(("/db/execute", "/db/request"))


def contains(*parts: str) -> Callable[[Exchange], bool]:
    """A write whose body has all these texts in it."""
    wanted = [part.encode() for part in parts]
    return lambda exchange: is_write(exchange) and all(part in exchange.body for part in wanted)


@dataclass(eq=False)
class Rule:
    """What to do with the next exchanges that match. Made by the methods of `Proxy`, followed by tests."""

    proxy: Proxy
    fault: Fault
    match: Match
    left: int | None  # None: no end
    skip: int = 0
    seconds: float | None = None
    delivers: bool = False
    status: int = 200
    body: bytes = b""
    headers: Headers = field(default_factory=list)
    change: Change | None = None
    hits: list[Exchange] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def wait(self, n: int = 1, timeout: float = 15.0) -> list[Exchange]:
        """Wait until the rule has acted on `n` exchanges (for a cut after delivery: until it has cut)."""
        self.proxy.wait_for(lambda: len(self.hits) >= n, f"{n} x '{self.fault.value}'", timeout)
        return list(self.hits)

    def release(self) -> None:
        """End a stall (the connection is cut) or a delay without end (it goes on)."""
        self.proxy.soon(self.released.set)

    def remove(self) -> None:
        """Act on nothing further; what is stalled or held stays so."""
        with self.proxy.lock, contextlib.suppress(ValueError):
            self.proxy.rules.remove(self)

    def deliver(self, timeout: float = 15.0) -> list[Exchange]:
        """Deliver now what `hold_request` holds, on a fresh connection; with the server's answers."""
        self.wait(timeout=timeout)
        return self.proxy.call(self.proxy.deliver_held(self), timeout)


class Proxy:
    """A loopback port that leads to `host:port`. A context manager; the server need not run yet.

    Rules are asked in the order in which they were made; the first that matches and is not spent acts. All
    take `match` (a predicate on the exchange, by default `is_write`), `count` (None: no end) and `skip`.
    `remember`: how many exchanges are kept.
    """

    def __init__(self, host: str, port: int, *, remember: int = 20_000) -> None:
        self.upstream = (host, port)
        self.addresses: dict[str, str] = {}  # "host:port" -> "host:port", in what servers say of each other
        self.lock = threading.Lock()
        self.rules: list[Rule] = []
        self.exchanges: collections.deque[Exchange] = collections.deque(maxlen=remember)
        self._changed = threading.Condition(self.lock)
        self._numbers = 0
        self._busy: dict[asyncio.StreamWriter, bool] = {}
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._socket = self._bind(0)
        self.port: int = self._socket.getsockname()[1]

    # -- life ------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._thread.start()
        self.up()
        return self

    def up(self) -> None:
        """Listen."""
        self.call(self._listen())

    def down(self) -> None:
        """Refuse connections, as a host where nothing listens does, and cut those that are open."""
        self.call(self._deafen())

    def cut_all(self) -> int:
        """Cut every open connection, whatever it does; how many."""
        return self.call(self._cut(idle_only=False))

    def close_idle(self) -> int:
        """Close the connections that have no request in them, as a load balancer does; how many."""
        return self.call(self._cut(idle_only=True))

    def close(self) -> None:
        if self._thread.is_alive():
            self.call(self._deafen())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(15)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- rules -----------------------------------------------------------------------------------------

    def rule(
        self,
        fault: Fault,
        match: Match,
        times: Times,
        *,
        seconds: float | None = None,
        delivers: bool = False,
    ) -> Rule:
        made = Rule(self, fault, match, times.get("count", 1), times.get("skip", 0), seconds, delivers)
        return self._add(made)

    def let_pass(self, match: Match = is_write, **times: Unpack[Times]) -> Rule:
        """Pass, and count: a rule to wait on."""
        return self.rule(Fault.PASS, match, times)

    def delay(
        self,
        seconds: float | None = None,
        match: Match = is_write,
        *,
        reply: bool = False,
        **times: Unpack[Times],
    ) -> Rule:
        """Deliver late, or with `reply=True` deliver at once and answer late; None: until `release()`."""
        fault = Fault.DELAY_REPLY if reply else Fault.DELAY_REQUEST
        return self.rule(fault, match, times, seconds=seconds)

    def cut_before(self, match: Match = is_write, **times: Unpack[Times]) -> Rule:
        """The connection is cut, the server never sees the request."""
        return self.rule(Fault.CUT_BEFORE, match, times)

    def cut_after(self, match: Match = is_write, **times: Unpack[Times]) -> Rule:
        """The server answers, the client sees a cut connection."""
        return self.rule(Fault.CUT_AFTER, match, times)

    def cut_half(self, match: Match = is_write, **times: Unpack[Times]) -> Rule:
        """The server answers, the client sees half of it and a closed connection."""
        return self.rule(Fault.CUT_HALF, match, times)

    def stall(self, match: Match = is_write, *, delivered: bool = True, **times: Unpack[Times]) -> Rule:
        """Never answer; whether the server sees the request says `delivered`."""
        return self.rule(Fault.STALL, match, times, delivers=delivered)

    def answer(
        self,
        status: int,
        body: bytes = b"",
        match: Match = is_write,
        *,
        headers: Headers | None = None,
        delivered: bool = False,
        **times: Unpack[Times],
    ) -> Rule:
        """Answer in the server's place; `delivered=True`: it sees the request, and its reply is dropped."""
        made = Rule(self, Fault.ANSWER, match, times.get("count", 1), times.get("skip", 0), None, delivered)
        made.status, made.body, made.headers = status, body, headers or []
        return self._add(made)

    def rewrite(self, change: Change, match: Match = is_write, **times: Unpack[Times]) -> Rule:
        """Deliver, and give the client the reply's body as `change` makes it."""
        made = Rule(self, Fault.REWRITE, match, times.get("count", 1), times.get("skip", 0))
        made.change = change
        return self._add(made)

    def hold_request(self, match: Match = is_write, **times: Unpack[Times]) -> Rule:
        """Cut the client off and keep the bytes, until `rule.deliver()` makes them a late first copy."""
        return self.rule(Fault.HOLD, match, times)

    def _add(self, made: Rule) -> Rule:
        with self.lock:
            self.rules.append(made)
        return made

    def clear(self) -> None:
        """Forget all rules; what they stall is cut."""
        with self.lock:
            rules, self.rules = self.rules, []
        for rule in rules:
            rule.release()

    # -- what passed -----------------------------------------------------------------------------------

    def seen(self, match: Match = is_write) -> list[Exchange]:
        """The exchanges so far that match."""
        with self.lock:
            return [exchange for exchange in self.exchanges if match(exchange)]

    def wait_for(self, look: Callable[[], bool], what: str, timeout: float = 15.0) -> None:
        """Wait until `look` is true; it is asked after every step of an exchange."""
        with self._changed:
            if not self._changed.wait_for(look, timeout):
                last = "\n".join(map(repr, list(self.exchanges)[-10:]))
                raise ProxyError(f"waited {timeout:g} s for {what}; last exchanges:\n{last}")

    def wait_seen(self, match: Match = is_write, n: int = 1, timeout: float = 15.0) -> list[Exchange]:
        """Wait until `n` exchanges that match have come in."""
        self.wait_for(lambda: sum(map(match, self.exchanges)) >= n, f"{n} matching requests", timeout)
        return self.seen(match)

    def wait_quiet(self, seconds: float = 0.2, timeout: float = 15.0) -> None:
        """Wait until no request has come in for `seconds`: before a test counts what an idle client sends."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            with self._changed:
                if not self._changed.wait(seconds):
                    return
        raise ProxyError(f"waited {timeout:g} s for {seconds:g} s without a request")

    def call(self, step: Coroutine[Any, Any, T], timeout: float = 15.0) -> T:
        """Run `step` on the proxy's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(timeout)

    def soon(self, step: Callable[[], object]) -> None:
        """Run `step` on the proxy's loop, without waiting."""
        self._loop.call_soon_threadsafe(step)

    # -- on the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    def _bind(self, port: int) -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        return bound

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._connection, sock=self._socket, limit=MAX_HEAD)

    async def _deafen(self) -> None:
        if self._server is not None:
            # asyncio leaves a connection open that it accepts an instant before its server is closed.
            self._loop.remove_reader(self._socket)
            await asyncio.sleep(0)
            self._server.close()
            self._server = None
            self._socket = self._bind(self.port)  # keeps the port; it does not listen, so it refuses
        await self._cut(idle_only=False)

    async def _cut(self, idle_only: bool) -> int:
        chosen = [writer for writer, busy in self._busy.items() if not (busy and idle_only)]
        for writer in chosen:
            writer.transport.abort()
        return len(chosen)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # gone while this came in
            writer.transport.abort()
            return
        server = _Upstream(self.upstream)
        self._busy[writer] = False
        try:
            while (head := await _read_head(reader)) is not None:
                self._busy[writer] = True
                method, path, _ = head[0].split(" ", 2)
                exchange = Exchange(0, method, path, head[1], await _read_body(reader, head[1], to_end=False))
                if not await self._act(exchange, self._take(exchange), server, writer):
                    break
                self._busy[writer] = False
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client or the server went away: so does the other side
        finally:
            del self._busy[writer]
            server.close()
            writer.transport.abort()

    def _take(self, exchange: Exchange) -> Rule | None:
        """Record the exchange and find the rule that acts on it."""
        with self.lock:
            self._numbers += 1
            exchange.number = self._numbers
            self.exchanges.append(exchange)
            self._changed.notify_all()
            for rule in self.rules:
                if rule.left == 0 or not rule.match(exchange):
                    continue
                if rule.skip:
                    rule.skip -= 1
                    continue
                if rule.left is not None:
                    rule.left -= 1
                exchange.fault = rule.fault
                return rule
        return None

    def _note(self, rule: Rule | None, exchange: Exchange) -> None:
        with self.lock:
            if rule is not None:
                rule.hits.append(exchange)
            self._changed.notify_all()

    async def _act(
        self, exchange: Exchange, rule: Rule | None, server: _Upstream, writer: asyncio.StreamWriter
    ) -> bool:
        """One exchange; False: the connection is over."""
        if rule is None:
            return await self._reply(exchange, await server.deliver(exchange), writer)
        if rule.fault in (Fault.DELAY_REQUEST, Fault.DELAY_REPLY):
            return await self._delay(exchange, rule, server, writer)
        if rule.fault is Fault.CUT_HALF:
            return await self._cut_half(exchange, rule, server, writer)
        answer: _Reply | None = None
        if rule.fault in (Fault.PASS, Fault.CUT_AFTER, Fault.REWRITE) or rule.delivers:
            answer = await server.deliver(exchange)
        self._note(rule, exchange)
        if rule.fault is Fault.STALL:
            await rule.released.wait()
        if rule.fault in (Fault.STALL, Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.HOLD):
            return False
        if rule.fault is Fault.ANSWER:
            answer = _Reply(rule.status, "fault", rule.headers, rule.body)
        assert answer is not None
        if rule.change is not None:
            answer.body = rule.change(answer.body)
        return await self._reply(exchange, answer, writer)

    async def _delay(self, exchange: Exchange, rule: Rule, server: _Upstream, writer: asyncio.StreamWriter) -> bool:
        early = await server.deliver(exchange) if rule.fault is Fault.DELAY_REPLY else None
        self._note(rule, exchange)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rule.seconds):
                await rule.released.wait()
        answer = early or await server.deliver(exchange)
        return await self._reply(exchange, answer, writer)

    async def _cut_half(self, exchange: Exchange, rule: Rule, server: _Upstream, writer: asyncio.StreamWriter) -> bool:
        answer = await server.deliver(exchange)
        whole = answer.to_bytes()
        writer.write(whole[: len(whole) - max(1, len(answer.body) // 2)])
        writer.write_eof()
        await writer.drain()
        self._note(rule, exchange)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return False

    async def _reply(self, exchange: Exchange, answer: _Reply, writer: asyncio.StreamWriter) -> bool:
        if self.addresses:
            answer.point_to(self.addresses, body=_REWRITTEN.match(exchange.path) is not None)
        writer.write(answer.to_bytes())
        await writer.drain()
        exchange.answered = True
        self._note(None, exchange)
        return True

    async def deliver_held(self, rule: Rule) -> list[Exchange]:
        """Send what the rule holds to the server; see `Rule.deliver`."""
        held = [exchange for exchange in rule.hits if not exchange.delivered]
        for exchange in held:
            server = _Upstream(self.upstream)
            await server.deliver(exchange)
            server.close()
        return held


class ProxiedCluster:
    """One proxy before every node of a cluster; what nodes say of each other leads to the proxies."""

    def __init__(self, cluster: Cluster, *, remember: int = 20_000) -> None:
        self.cluster = cluster
        self.proxies = [Proxy("127.0.0.1", node.http_port, remember=remember) for node in cluster.nodes]
        addresses = {
            f"127.0.0.1:{node.http_port}": f"127.0.0.1:{proxy.port}"
            for node, proxy in zip(cluster.nodes, self.proxies, strict=True)
        }
        for proxy in self.proxies:
            proxy.addresses = addresses

    @property
    def url(self) -> str:
        """All proxies in one URL, as `rqfast.connect` takes it."""
        return "http://" + ",".join(urlsplit(proxy.url).netloc for proxy in self.proxies)

    def proxy_of(self, node: Node) -> Proxy:
        return self.proxies[self.cluster.nodes.index(node)]

    def leader_proxy(self) -> Proxy:
        """The proxy before the node that leads now."""
        return self.proxy_of(self.cluster.leader())

    def down(self) -> None:
        for proxy in self.proxies:
            proxy.down()

    def up(self) -> None:
        for proxy in self.proxies:
            proxy.up()

    def clear(self) -> None:
        for proxy in self.proxies:
            proxy.clear()

    def writes(self) -> list[Exchange]:
        """All writes that reached any proxy."""
        return [exchange for proxy in self.proxies for exchange in proxy.seen()]

    def __enter__(self) -> Self:
        for proxy in self.proxies:
            proxy.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for proxy in self.proxies:
            proxy.close()


@dataclass
class _Reply:
    status: int
    reason: str
    headers: Headers
    body: bytes

    def point_to(self, addresses: Mapping[str, str], *, body: bool) -> None:
        def change(text: str) -> str:
            for real, shown in addresses.items():
                text = re.sub(re.escape(real) + r"(?!\d)", shown, text)
            return text

        self.headers = [(k, change(v) if k.lower() == "location" else v) for k, v in self.headers]
        if body:
            self.body = change(self.body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def to_bytes(self) -> bytes:
        framing = ("content-length", "transfer-encoding")
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in self.headers if name.lower() not in framing]
        lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


class _Upstream:
    """The kept-alive connection to the server that belongs to one connection of a client."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def deliver(self, exchange: Exchange) -> _Reply:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection(*self.address, limit=MAX_HEAD)
        reader, writer = self._streams
        framing = ("content-length", "transfer-encoding")
        lines = [f"{exchange.method} {exchange.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in exchange.headers if name.lower() not in framing]
        lines.append(f"Content-Length: {len(exchange.body)}")
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + exchange.body)
        await writer.drain()
        exchange.delivered = True
        while True:
            head = await _read_head(reader)
            if head is None:
                raise ConnectionError("the server closed the connection before it answered")
            _, code, reason = (head[0] + " ").split(" ", 2)
            if not code.startswith("1"):
                break
        bodiless = exchange.method == "HEAD" or code in ("204", "304")
        body = b"" if bodiless else await _read_body(reader, head[1], to_end=True)
        exchange.status, exchange.reply = int(code), body
        return _Reply(int(code), reason.strip(), head[1], body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, Headers] | None:
    """First line and headers; None at the end of the stream."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as short:
        if short.partial:
            raise
        return None
    first, *lines = text[:-4].split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, [(name.strip(), value.strip()) for name, _, value in pairs]


async def _read_body(reader: asyncio.StreamReader, headers: Headers, *, to_end: bool) -> bytes:
    fields = {name.lower(): value for name, value in headers}
    if "chunked" in fields.get("transfer-encoding", "").lower():
        parts = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while (await reader.readline()).strip():
            pass  # trailers
        return b"".join(parts)
    if "content-length" in fields:
        return await reader.readexactly(int(fields["content-length"]))
    return await reader.read() if to_end else b""
