"""The rqlite engine: one aiohttp session, kept-alive connections, requests straight to the leader."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl as ssl_module
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import aiohttp
import orjson

from ..errors import RqfastError, SchemaError, StatementError
from .cluster import Cluster
from .leaders import Leaders, rest_after
from .outcome import Kind, Reply, Result, of_exception, of_reply

# Not /db/request, which prepares each statement three times, and commits the rest when one does not prepare.
EXECUTE = "/db/execute?transaction"
READ = "/db/query?level=weak"
CERTAIN_READ = "/db/query?level=linearizable"
# The same of one state of the database, whatever is written between its statements.
READ_TOGETHER = "/db/query?level=linearizable&transaction"

CONNECT_TIMEOUT = 2.0
# How long a request is unanswered before somebody is asked whether another node leads, in seconds.
UNANSWERED = 0.5
FIRST_PATIENCE, LONGEST_PATIENCE = 1.0, 16.0
NO_ANSWER = "no answer"
LARGE = 1 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5


def _is_whole(rows: list[list[Any] | None], statements: Sequence[Sequence[Any]], path: str) -> bool:
    # No rows where some were asked for would be taken for "there are none", and a request for never applied.
    return len(rows) == len(statements) and (not path.startswith("/db/query") or None not in rows)


def _is_taken(rows: list[list[Any]], reads: Callable[[list[list[Any]]], object]) -> bool:
    """Whether these rows can be read for what they should be."""
    try:
        reads(rows)
    except RqfastError:
        return True  # an answer, which the caller is told
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return False
    return True


class RqliteEngine:
    """Talks to the nodes of one cluster; belongs to one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        auth: tuple[str, str] | None,
        ssl: ssl_module.SSLContext | None,
        lane_table: str,
    ) -> None:
        self.cluster = cluster
        self._auth = auth
        self._ssl = ssl
        self._lane_table = lane_table
        self._session: aiohttp.ClientSession | None = None
        self.leaders = Leaders(cluster, self.get, self._ask_leader)

    @property
    def is_open(self) -> bool:
        """Whether there is a session."""
        return self._session is not None

    def open(self) -> None:
        """Make the session; nothing is sent yet."""
        headers = {"Content-Type": "application/json"}
        if self._auth is not None:
            # Built here: a password in a URL would be shown in errors and logs.
            token = base64.b64encode(f"{self._auth[0]}:{self._auth[1]}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl or True, keepalive_timeout=30),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            raise_for_status=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        self.leaders.stop()
        if self._session is not None:
            await self._session.close()

    async def post(self, node: str, path: str, body: bytes) -> Reply:
        """Send one request to one node; raises what aiohttp raises."""
        assert self._session is not None
        if not self.cluster.forwards:
            path += "&redirect"
        # aiohttp writes large bytes at once, and warns of it; a file it writes in pieces.
        data = io.BytesIO(body) if len(body) > LARGE else body
        async with self._session.post(node + path, data=data, allow_redirects=False) as reply:
            return Reply(reply.status, reply.headers.get("Location", ""), await reply.read(), node)

    async def get(self, node: str, path: str) -> Reply:
        """Ask one node; raises what aiohttp raises."""
        assert self._session is not None
        async with self._session.get(node + path, allow_redirects=False) as reply:
            return Reply(reply.status, reply.headers.get("Location", ""), await reply.read(), node)

    async def attempt(self, node: str, path: str, body: bytes, names: list[str]) -> Result:
        """Send one request to one node and say what became of it."""
        try:
            result = of_reply(await self.post(node, path, body), names, self._lane_table)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            result = of_exception(error, node)
        self._note(node, result)
        return result

    def _note(self, node: str, result: Result) -> None:
        if result.leader:
            self.cluster.lost(node)
            self.cluster.redirected(result.leader)
            self.leaders.pointed_away()
        elif result.unreachable:
            self.cluster.unreachable(node)
        elif result.kind in (Kind.NOT_APPLIED, Kind.UNKNOWN):
            self.cluster.lost(node)
        else:
            self.cluster.answered(node)
            if result.error is None:
                self.leaders.answered(node)

    async def _ask_leader(self, node: str) -> Result:
        return await self.attempt(node, f"{READ}&redirect", b'["SELECT 1"]', [])

    # -- requests that may be sent twice ------------------------------------------------------------------

    async def repeat(
        self,
        path: str,
        statements: Sequence[Sequence[Any]],
        *,
        deadline: Callable[[], float],
        names: list[str] | None = None,
        patience: float = FIRST_PATIENCE,
        reads: Callable[[list[list[Any]]], object] = list,
    ) -> list[list[Any]]:
        """Send what may be applied any number of times (a read, a registration) until a node answers.

        Args:
            patience: how long the first node is waited for before it is sent again, in seconds.
            reads: what the rows are for; rows that it cannot take are no answer.

        Raises:
            Unavailable: none did by `deadline` (on the loop's clock).
        """
        body = orjson.dumps(statements)
        loop = asyncio.get_running_loop()
        pause, text, quiet = FIRST_PAUSE, "none was found", UNANSWERED
        while True:
            node = await self.leaders.now()
            if node is not None:
                left = max(0.05, deadline() - loop.time())
                result = await self._attempt_within(min(patience, left), quiet, node, path, body, names or [])
                if result.kind is Kind.APPLIED:
                    found = [rows or [] for rows in result.rows]
                    if _is_whole(result.rows, statements, path) and _is_taken(found, reads):
                        return found
                    result = Result(Kind.UNKNOWN, "a reply without the rows that were asked for")
                if path == READ and isinstance(result.error, SchemaError | StatementError):
                    # A leader that has just begun may not have applied its log yet: it is asked for what is certain.
                    path = CERTAIN_READ
                    continue
                if result.error is not None:
                    raise result.error
                text = f"{node}: {result.text}"
                if result.text == NO_ANSWER:
                    patience, quiet = min(patience * 2, LONGEST_PATIENCE), 0.0
            if loop.time() >= deadline():
                raise self.leaders.unavailable(text)
            if not (node is not None and result.leader and self.cluster.leader):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _attempt_within(
        self, patience: float, quiet: float, node: str, path: str, body: bytes, names: list[str]
    ) -> Result:
        """Send to one node; after `quiet` seconds without an answer also to whoever leads now."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        copies = {asyncio.create_task(self.attempt(node, path, body, names)): node}
        try:
            async with asyncio.timeout(patience):
                while True:
                    done, _ = await asyncio.wait(copies, timeout=quiet, return_when=asyncio.FIRST_COMPLETED)
                    for copy in done:
                        result = copy.result()
                        del copies[copy]
                        if result.kind is Kind.APPLIED or result.error is not None or not copies:
                            return result
                    asked_at = loop.time()
                    leader = await until_answered(self.leaders.find(next(reversed(copies.values()))), copies)
                    quiet = rest_after(asked_at, since, loop.time())
                    if leader is not None and leader not in copies.values():
                        copies[asyncio.create_task(self.attempt(leader, path, body, names))] = leader
        except TimeoutError:
            self.cluster.lost(node)
            return Result(Kind.UNKNOWN, NO_ANSWER)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)


async def until_answered(asking: Coroutine[Any, Any, str | None], copies: Iterable[asyncio.Task[Result]]) -> str | None:
    """What is asked for, None as soon as one of the copies has an answer: a node that hangs must not hold that up."""
    asked = asyncio.ensure_future(asking)
    try:
        await asyncio.wait([asked, *copies], return_when=asyncio.FIRST_COMPLETED)
        return None if any(copy.done() for copy in copies) else asked.result()
    finally:
        asked.cancel()
