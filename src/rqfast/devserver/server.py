"""Starting and stopping the dev server: on an event loop of its own, or on the caller's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import ipaddress
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from aiohttp import web

from ..errors import ConfigError
from .clock import Clock
from .database import Database
from .guard import Guards
from .node import Node, is_loopback
from .routes import Routes

T = TypeVar("T")
STOP_SECONDS = 5.0


# A century: what a test of wrong clocks may want, and every clock can show.
MAX_SKEW = 100 * 365 * 86_400.0


class DevServer:
    """rqlite's HTTP API on SQLite: one node without replication, for tests and for development.

    Args:
        file: the database; by default a temporary one that is gone when the server closes.
        port: the port to listen on; 0 for any that is free.
        host: the address to listen on.  There is no password, so others than this machine's own need `allow_remote`.
        allow_remote: let other machines in.
        clock_skew: seconds by which the time that SQL tells is ahead of this machine's clock.

    Entering raises ConfigError for a host that is not allowed or a file that is no database, OSError where it cannot
    listen.  Entered with `with` it has an event loop in a thread of its own; with `async with` it runs on the loop of
    the caller.  It can be entered again, on the same file, once it was left.

    Example:
        >>> with DevServer() as server, rqfast.connect(server.url) as transport:
        ...     transport.publish("group", {"hello": "world"})
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        allow_remote: bool = False,
        clock_skew: float = 0.0,
    ) -> None:
        if not allow_remote and not is_loopback(host):
            raise ConfigError(
                f"the dev server has no password: it listens on {host} only with allow_remote=True; "
                "without it, on 127.0.0.1"
            )
        if not abs(clock_skew) <= MAX_SKEW:
            raise ConfigError(f"clock_skew={clock_skew!r}: seconds, {MAX_SKEW:,.0f} at most")
        self.file: Path | None = None if file is None else Path(file)
        self.host: str = "127.0.0.1" if host == "localhost" else host
        self._wanted = port
        self.port: int = port
        self.only_loopback: bool = is_loopback(host)
        self._clock_skew = clock_skew
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._database: Database | None = None
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it answers (str), as `rqfast.connect` takes it; while it runs."""
        return f"http://{self._address()}"

    # -- in a thread of its own -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start it in a thread of its own; `close()` ends it."""
        if self._executor is not None:
            raise RuntimeError("this dev server runs already")
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="rqfast-dev-server", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        try:
            asyncio.run_coroutine_threadsafe(self._start(), loop).result()
        except BaseException:
            self._end_loop()
            raise

    def close(self) -> None:
        """End it; what is being executed is interrupted.  Closing twice is no error."""
        if self._loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        assert loop is not None and thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    # -- on the caller's loop -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._executor is not None:
            raise RuntimeError("this dev server runs already")
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    # -- both ---------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="rqfast-dev-server-sqlite")
        try:
            database = self._database = await self._in_thread(self._open)
            node = Node("", "(temporary)" if self.file is None else str(self.file))
            routes = Routes(database, self._executor, node, self.only_loopback)
            self._runner = web.AppRunner(
                routes.application(),
                access_log=None,
                handle_signals=False,
                shutdown_timeout=STOP_SECONDS,
                # rqlite unpacks no body either, and a small one may hold gigabytes.
                auto_decompress=False,
            )
            await self._runner.setup()
            assert self._runner.server is not None
            routes.guards = Guards(self._runner.server)
            await self._listen(routes.guards)
            node.address = self._address()
        except BaseException:
            await self._stop()
            raise

    async def _listen(self, guards: Guards) -> None:
        try:
            self._server = await asyncio.get_running_loop().create_server(guards, self.host, self._wanted, backlog=128)
        except OSError as error:
            why = "it is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
            raise ListenError(
                f"the dev server cannot listen on port {self._wanted} of {self.host}: {why}; choose another port, or "
                "stop what listens there"
            ) from error
        self.port = int(self._server.sockets[0].getsockname()[1])

    def _open(self) -> Database:
        path, synchronous = self.file, "NORMAL"
        if path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rqfast-dev-server-", ignore_cleanup_errors=True)
            path, synchronous = Path(self._folder.name) / "queue.db", "OFF"
        try:
            return Database(path, synchronous, Clock(self._clock_skew))
        except sqlite3.Error as error:
            raise ConfigError(f"{path} cannot be opened as an SQLite database: {error}") from error

    async def _stop(self) -> None:
        if self._database is not None:
            self._database.interrupt()
        if self._server is not None:
            await _stop_listening(self._server)
        if self._runner is not None:
            await self._runner.cleanup()
        if self._database is not None:
            self._database.interrupt()
            await self._in_thread(self._database.close)
        if self._executor is not None:
            self._executor.shutdown()
        if self._folder is not None:
            self._folder.cleanup()
        self._runner = self._server = self._database = self._executor = self._folder = None

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def _address(self) -> str:
        return f"[{self.host}]:{self.port}" if _is_ipv6(self.host) else f"{self.host}:{self.port}"


async def _stop_listening(server: asyncio.Server) -> None:
    """Close it once what it has just accepted is a connection: asyncio would leave that open, owned by nobody."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows, where nothing lies between the two
        for listening in server.sockets:
            loop.remove_reader(listening)
        await asyncio.sleep(0)  # it has a transport
        await asyncio.sleep(0)  # and a protocol, which the runner closes
    server.close()


class ListenError(OSError):
    """The address cannot be had: it is in use, or not this machine's."""


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
