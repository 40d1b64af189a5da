"""The HTTP side: paths, methods, query strings and replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any, TypeAlias

from aiohttp import web

from .body import Statement, parse
from .database import Database
from .flags import Flags
from .flags import parse as parse_flags
from .guard import Guards
from .intake import BODY_SECONDS, MAX_BODY, Intake, Room
from .node import Node
from .parameters import BadRequest
from .replies import dump, render
from .results import Answer
from .values import NotJson

QUEUED = Flags({})
JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
READY = "[+]node ok\n[+]leader ok\n[+]store ok"
UNSUPPORTED = (
    "/console", "/db/backup", "/db/load", "/db/sql", "/boot", "/snapshot", "/reap", "/remove", "/licenses", "/debug"
)  # fmt: skip

Handler: TypeAlias = Callable[[web.Request, Flags], Awaitable[web.Response]]
# Of the request that a task is working on.
ROOM: ContextVar[Room] = ContextVar("rqfast_dev_server_room")


class Routes:
    """Answers requests from one database; the work is done in the executor's one thread."""

    def __init__(self, database: Database, executor: Executor, node: Node, only_loopback: bool) -> None:
        self._database = database
        self._executor = executor
        self._node = node
        self._only_loopback = only_loopback
        self._intake = Intake()
        self.guards: Guards | None = None
        self._exact: dict[str, tuple[Handler, tuple[str, ...], str]] = {"/leader": (self._leader, ("GET",), JSON)}
        # By their beginnings, as the server does it.
        self._prefixes: dict[str, tuple[Handler, tuple[str, ...], str]] = {
            "/db/execute": (self._execute, ("POST",), JSON),
            "/db/query": (self._query, ("GET", "POST"), JSON),
            "/db/request": (self._request, ("POST",), JSON),
            "/status": (self._status, ("GET",), JSON),
            "/nodes": (self._nodes, ("GET",), JSON),
            "/readyz": (self._readyz, ("GET",), TEXT),
        }

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.Response:
        """Answer any request."""
        transport = request.transport
        if self.guards is not None:
            self.guards.begin(transport)
        try:
            async with self._intake.room() as room:
                ROOM.set(room)
                reply = await self._answer(request)
        finally:
            if self.guards is not None:
                self.guards.end(transport)
        reply.headers["X-Rqlite-Version"] = self._node.version
        return reply

    async def _answer(self, request: web.Request) -> web.Response:
        if self._only_loopback and not self._node.is_local(request):
            return refusal(403, "the dev server answers programs on this machine, not web pages and other hosts")
        if request.method == "OPTIONS":
            return web.Response()
        found = self._exact.get(request.path) or next(
            (entry for prefix, entry in self._prefixes.items() if request.path.startswith(prefix)), None
        )
        if found is None:
            return self._unknown(request.path)
        handler, methods, kind = found
        if request.method not in methods:
            return web.Response(status=405, headers={"Content-Type": kind})
        try:
            return await handler(request, parse_flags(request.rel_url.raw_query_string))
        except BadRequest as error:
            return refusal(400, str(error))
        except NotJson as error:
            return refusal(500, str(error))
        except web.HTTPRequestEntityTooLarge:
            return refusal(413, f"the dev server takes {MAX_BODY >> 20} MiB in a request")
        except web.HTTPRequestTimeout:
            late = refusal(408, f"the body of this request did not come within {BODY_SECONDS:g} s")
            late.force_close()
            return late

    @staticmethod
    def _unknown(path: str) -> web.Response:
        if path == "/" or path.startswith(UNSUPPORTED):
            return refusal(501, f"{path} is not supported by the dev server; see docs/dev-server.md")
        return web.Response(status=404, body=None)

    # -- SQL ----------------------------------------------------------------------------------------------

    async def _execute(self, request: web.Request, flags: Flags) -> web.Response:
        if "queue" in flags:
            return await self._queued(request, flags)
        given = await self._statements(request, text_allowed=True)
        return await self._run(flags, lambda: self._database.execute(given, flags))

    async def _query(self, request: web.Request, flags: Flags) -> web.Response:
        if request.method == "GET":
            given = [Statement(flags.given.get("q", ""), [])]
        else:
            given = await self._statements(request, text_allowed=True)
        return await self._run(flags, lambda: self._database.query(given, flags))

    async def _request(self, request: web.Request, flags: Flags) -> web.Response:
        given = await self._statements(request)
        return await self._run(flags, lambda: self._database.request(given, flags))

    async def _queued(self, request: web.Request, flags: Flags) -> web.Response:
        """Queued writes: executed at once here; whatever is wrong with them is not told, as on the server."""
        try:
            given = await self._statements(request)
        except BadRequest as error:
            if str(error) == "no statements" and "wait" not in flags:
                raise
            given = []

        def run() -> Answer:
            if given:
                self._database.execute(given, QUEUED)
            return Answer(sequence=time.time_ns())

        return await self._run(flags, run)

    @staticmethod
    async def _statements(request: web.Request, text_allowed: bool = False) -> list[Statement]:
        body = await ROOM.get().read(request)
        if text_allowed and request.headers.get("Content-Type", "").startswith("text/plain"):
            return [Statement(body.decode("utf-8", "replace"), [])]
        return parse(body)

    async def _run(self, flags: Flags, run: Callable[[], Answer]) -> web.Response:
        start = time.perf_counter()

        def work() -> bytes:
            answer = run()
            answer.seconds = time.perf_counter() - start
            names = ("associative", "blob_array", "timings", "raft_index")
            body = render(answer, **{name: name in flags for name in names})
            return dump(body, "pretty" in flags)

        text = await asyncio.get_running_loop().run_in_executor(self._executor, work)
        return json_reply(text)

    # -- the node -----------------------------------------------------------------------------------------

    async def _status(self, request: web.Request, flags: Flags) -> web.Response:
        status: Any = self._node.status(self._database.index)
        for key in filter(None, flags.given.get("key", "").split(".")):
            status = status.get(key, {}) if isinstance(status, dict) else status
        return json_reply(dump(status, "pretty" in flags))

    async def _nodes(self, request: web.Request, flags: Flags) -> web.Response:
        node = self._node.described(request)
        body: Any = {"nodes": [node]} if flags.given.get("ver") == "2" else {node["id"]: node}
        return json_reply(dump(body, "pretty" in flags))

    async def _leader(self, request: web.Request, flags: Flags) -> web.Response:
        return json_reply(dump(self._node.described(request), "pretty" in flags))

    async def _readyz(self, request: web.Request, flags: Flags) -> web.Response:
        if "noleader" in flags:
            return text_reply("[+]node ok")
        return text_reply(READY + ("\n[+]sync ok" if "sync" in flags else "") + "\n[+]db ok")


def json_reply(body: bytes) -> web.Response:
    """JSON, status 200."""
    return web.Response(body=body, headers={"Content-Type": JSON})


def text_reply(text: str, status: int = 200) -> web.Response:
    """Plain text."""
    return web.Response(body=text.encode(), status=status, headers={"Content-Type": TEXT})


def refusal(status: int, text: str) -> web.Response:
    """An error in plain text, in one line."""
    return text_reply(text + "\n", status)
