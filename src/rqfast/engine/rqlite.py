"""The rqlite engine: one aiohttp session, kept-alive connections, requests straight to the leader."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import ssl as ssl_module
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import aiohttp
import orjson

from ..errors import RqfastError, SchemaError, StatementError, Unavailable
from .cluster import Cluster
from .outcome import Kind, Reply, Result, of_exception, of_reply, speaks_tls, tls_refused, why

# Not /db/request, which prepares each statement three times, and commits the rest when one does not prepare.
EXECUTE = "/db/execute?transaction"
READ = "/db/query?level=weak"
CERTAIN_READ = "/db/query?level=linearizable"
# The same of one state of the database, whatever is written between its statements.
READ_TOGETHER = "/db/query?level=linearizable&transaction"

CONNECT_TIMEOUT = 2.0
# How long a request is unanswered before somebody is asked whether another node leads, and how often then (seconds).
UNANSWERED, ASK_EVERY = 0.5, 0.25
# How long a node that is asked waits for the others to tell it their addresses (one that hangs makes it wait so long),
# and how long it is waited for itself.  Where addresses were told before, each fourth question is asked in the long
# form as well, beside the short one: they may have changed.
SHORT, LONG = ("250ms", 0.75), ("1s", 1.5)
LONG_EACH = 4
FIRST_PATIENCE, LONGEST_PATIENCE = 1.0, 16.0
NO_ANSWER = "no answer"
LARGE = 1 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
# How old what is known of the nodes' addresses may be while requests are answered, in seconds.
KNOWN_FOR = 30.0


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
        self._finding: asyncio.Task[str | None] | None = None
        self._learning: asyncio.Task[None] | None = None
        self._learn_at = 0.0
        # How often in a row no node could tell who leads.
        self._misses = 0
        # Why a node could not tell who leads, for people.
        self._troubles: dict[str, str] = {}
        # Nodes with which no connection can be agreed on, until the user changes something.
        self._refusals: dict[str, RqfastError] = {}

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
        for task in (self._finding, self._learning):
            if task is not None:
                task.cancel()
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
            self._learn_at = 0.0
        elif result.unreachable:
            self.cluster.unreachable(node)
        elif result.kind in (Kind.NOT_APPLIED, Kind.UNKNOWN):
            self.cluster.lost(node)
        else:
            self.cluster.answered(node)
            if result.error is None:
                self._keep_learning(node)

    # -- who leads ----------------------------------------------------------------------------------------

    async def leader(self) -> str | None:
        """The leader's address: as known, else asked for; None when no node knows one now."""
        return self.cluster.leader or await self.find_leader()

    async def find_leader(self, suspect: str | None = None) -> str | None:
        """Ask the nodes who leads; all that ask at the same time share the answer.

        Args:
            suspect: a leader that does not answer: it is not asked, and not believed.
        """
        if not self.cluster.discover:
            self.cluster.leader = self.cluster.next_seed()
            return self.cluster.leader
        if suspect is not None and self.cluster.leader not in (None, suspect):
            return self.cluster.leader  # somebody else asked
        if self._finding is None or self._finding.done():
            self._finding = asyncio.create_task(self._find_leader(suspect), name="rqfast: who leads")
        return await asyncio.shield(self._finding)

    async def _find_leader(self, suspect: str | None) -> str | None:
        nodes = [node for node in self.cluster.nodes if node != suspect]
        if self.cluster.knows_all and self._misses % LONG_EACH == LONG_EACH - 1:
            self._learn_beside(nodes, suspect)
        form = SHORT if self.cluster.knows_all else LONG
        asked = [asyncio.create_task(self._ask(node, suspect, form)) for node in nodes]
        try:
            for answer in asyncio.as_completed(asked):
                leader = await answer
                if leader is not None:
                    self._troubles.clear()
                    self._misses = 0
                    return leader
            self._misses += 1
            if suspect is None and all(node in self._refusals for node in nodes):
                raise self._refusals[nodes[0]]
            return None
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _ask(self, node: str, suspect: str | None, form: tuple[str, float] = LONG) -> str | None:
        assert self._session is not None
        self._refusals.pop(node, None)
        others_within, within = form
        try:
            async with (
                asyncio.timeout(within),
                self._session.get(f"{node}/nodes?ver=2&timeout={others_within}", allow_redirects=False) as reply,
            ):
                body = await reply.read()
                if reply.status in (401, 403):
                    return await self._ask_by_query(node, suspect)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._trouble(node, why(error), tls_refused(error, node))
            return None
        leader = self.cluster.learn(body, suspect) if reply.status == 200 else None
        if leader is not None:
            self._learn_at = asyncio.get_running_loop().time() + KNOWN_FOR
        if leader is None:
            found = body[:60].decode("utf-8", "replace").strip()
            text = "knows no leader" if reply.status == 200 and b'"nodes"' in body else f"HTTP {reply.status} {found!r}"
            self._trouble(node, text, speaks_tls(body, node))
        return leader

    def _trouble(self, node: str, text: str, refusal: RqfastError | None) -> None:
        self._troubles[node] = text
        if refusal is not None:
            self._refusals[node] = refusal

    async def _ask_by_query(self, node: str, suspect: str | None) -> str | None:
        """Where the user may not see /nodes: a query that the leader answers and others point away from."""
        result = await self.attempt(node, "/db/query?level=weak&redirect", b'["SELECT 1"]', [])
        if result.error is not None:
            raise result.error
        if result.kind is Kind.APPLIED and node != suspect:
            self.cluster.leader, self.cluster.forwards = node, False
        elif result.leader and self.cluster.leader is None:
            self.cluster.forward_by(node)
        return self.cluster.leader if self.cluster.leader != suspect else None

    def _keep_learning(self, node: str) -> None:
        """Now and then, and after a redirect, ask beside the work where the nodes are.

        They may move one after another, and with the last one all addresses that were right at the start would be gone.
        """
        loop = asyncio.get_running_loop()
        if self.cluster.discover and loop.time() >= self._learn_at:
            self._learn_at = loop.time() + KNOWN_FOR
            self._learn_beside([node], None)

    def _learn_beside(self, nodes: list[str], suspect: str | None) -> None:
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn(nodes, suspect), name="rqfast: where the nodes are")

    async def _learn(self, nodes: list[str], suspect: str | None) -> None:
        # What is wrong with the credentials is told to those that call.
        with contextlib.suppress(RqfastError):
            told = await asyncio.gather(*(self._ask(node, suspect) for node in nodes))
            # Also where a redirect on the way said to ask again: it was asked.
            self._learn_at = asyncio.get_running_loop().time() + (KNOWN_FOR if any(told) else LONG[1])

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
            node = await self.leader()
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
                raise self.unavailable(text)
            if not (node is not None and result.leader and self.cluster.leader):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _attempt_within(
        self, patience: float, quiet: float, node: str, path: str, body: bytes, names: list[str]
    ) -> Result:
        """Send to one node; after `quiet` seconds without an answer also to whoever leads now."""
        loop = asyncio.get_running_loop()
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
                    leader = await until_answered(self.find_leader(next(reversed(copies.values()))), copies)
                    quiet = max(0.0, asked_at + ASK_EVERY - loop.time())
                    if leader is not None and leader not in copies.values():
                        copies[asyncio.create_task(self.attempt(leader, path, body, names))] = leader
        except TimeoutError:
            self.cluster.lost(node)
            return Result(Kind.UNKNOWN, NO_ANSWER)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    def unavailable(self, text: str) -> Unavailable:
        """The error that tells that nothing was applied."""
        nodes = self.cluster.nodes
        tried = [f"{node} ({self._troubles[node]})" if node in self._troubles else node for node in nodes]
        return Unavailable(
            f"no leader answered in time ({text}); nothing was applied, call again. Nodes tried: {', '.join(tried)}",
            nodes,
        )


async def until_answered(asking: Coroutine[Any, Any, str | None], copies: Iterable[asyncio.Task[Result]]) -> str | None:
    """What is asked for, None as soon as one of the copies has an answer: a node that hangs must not hold that up."""
    asked = asyncio.ensure_future(asking)
    try:
        await asyncio.wait([asked, *copies], return_when=asyncio.FIRST_COMPLETED)
        return None if any(copy.done() for copy in copies) else asked.result()
    finally:
        asked.cancel()
