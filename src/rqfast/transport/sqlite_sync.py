"""SQLite in its own colour: a call goes straight to the database, in the thread that makes it."""

from __future__ import annotations

import atexit
import logging
import os
import re
import weakref
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from .._core import Call, Claim, Publish, Settle, Slot
from ..engine.sqlite import SYNCHRONOUS, SqliteEngine
from ..errors import ConfigError, RqfastError
from ..pipeline.backlog import Soon, ThreadBacklog
from ..pipeline.combine import Combiner
from ..pipeline.watch import Watch
from . import checks
from .blocking import BlockingTransport, T
from .operating import Operating, Question, Rows
from .options import Options, default_worker, split

D = TypeVar("D")

log: logging.Logger = logging.getLogger("rqfast")

SQLITE_OPTIONS: dict[str, Any] = {"synchronous": "FULL", "busy_timeout": 10.0}

# What would be taken for a file of that name, and is meant for a server.
_ADDRESS = re.compile(r"[\w.\-\[\]:]+:\d{1,5}(,[\w.\-\[\]:]+:\d{1,5})*")
# What no path has, and must not be shown.
_CREDENTIALS = re.compile(r":[^/\\@]+@")

_open: weakref.WeakSet[Combiner] = weakref.WeakSet()
_forking: list[Combiner] = []


def _before_fork() -> None:
    _forking[:] = sorted(_open, key=id)
    for combiner in _forking:
        combiner.before_fork()


def _after_fork_in_parent() -> None:
    for combiner in _forking:
        combiner.after_fork()
    _forking.clear()


def _after_fork_in_child() -> None:
    for combiner in _forking:
        combiner.restart()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


@atexit.register
def _close_all() -> None:
    for combiner in list(_open):
        try:
            combiner.close()
        except RqfastError as error:
            log.error("%s: %s", combiner.name, error)


def sqlite_path(path: Any) -> str:
    """The path of a database file, from a path or a `sqlite://` URL; ":memory:" is memory.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if not isinstance(path, str):
        raise ConfigError(f"a SQLite database is named by a path or a sqlite:// URL, not by {type(path).__name__}")
    if not path or "\0" in path:
        raise ConfigError("a SQLite database is named by a path or a sqlite:// URL: this is empty, or has a NUL in it")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ConfigError("a SQLite database is named by a path: this has a character that no file name has") from error
    if not path.startswith("sqlite:///") and _CREDENTIALS.search(path):
        raise ConfigError("this looks like the URL of a server; that begins with its scheme: http://user:password@host")
    if path.startswith("sqlite://"):
        rest = path.removeprefix("sqlite://")
        if rest == ":memory:":
            return rest
        if not rest.startswith("/") or rest == "/":
            raise ConfigError(f"{path!r}: sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:")
        path = rest[1:]
    else:
        _refuse_other(path)
    return path if path == ":memory:" else str(Path(path).absolute())


def _refuse_other(path: str) -> None:
    """Raise ConfigError for what would make a file that nobody meant."""
    if path.startswith("sqlite:"):
        raise ConfigError(f"{path!r}: sqlite:///relative.db, sqlite:////absolute.db, or just a path")
    if _ADDRESS.fullmatch(path) or path.startswith(("http:", "https:", "rqlite:", "rqlites:", "file:")):
        # What follows a scheme may be a password.
        shown = path if _ADDRESS.fullmatch(path) else f"{path.partition(':')[0]}:.."
        raise ConfigError(
            f"{shown} is no path of a SQLite file but an address: http://host:port for a server; "
            "a file of that name is ./name"
        )
    if "://" in path:
        raise ConfigError(f"{path.partition('://')[0]}:// is no scheme that rqfast knows")


def queue_key(path: str, queue: str | None) -> Hashable:
    """What tells queues apart within a process; `path` is one of `sqlite_path`."""
    return ("sqlite", object() if path == ":memory:" else path, queue)


def make_engine(path: str, options: Options, own: dict[str, Any]) -> SqliteEngine:
    """An engine, not yet open."""
    synchronous = own["synchronous"]
    if not isinstance(synchronous, str) or synchronous.upper() not in SYNCHRONOUS:
        raise ConfigError(f"synchronous={synchronous!r}: one of {', '.join(SYNCHRONOUS)}")
    return SqliteEngine(
        path,
        queue=options.queue,
        create=options.create,
        clock=options.clock,
        synchronous=synchronous.upper(),
        busy_timeout=checks.option_seconds(own["busy_timeout"], "busy_timeout", positive=False),
        dedup_window=options.dedup_window,
        decode=options.decoder,
        name=default_worker,
    )


class SqliteTransport(BlockingTransport[T], Generic[T]):
    """A queue in a SQLite file: nothing to install, several processes on one file, every commit synced.

    Args:
        path: of the file, or a `sqlite://` URL; ":memory:" is a queue of its own in memory.
        **options: see `connect`; here also `synchronous` ("FULL") and `busy_timeout` (10 seconds).

    Raises:
        ConfigError: an option or the path.
        SchemaError: the queue is not there (`create=False`), incomplete or of a newer version.

    Example:
        >>> with SqliteTransport("queue.db") as t:
        ...     t.publish("customer-7", {"total": 3})
    """

    @overload
    def __init__(self, path: str | os.PathLike[str], *, decode: Callable[[str], T], **options: Any) -> None: ...
    @overload
    def __init__(self: SqliteTransport[Any], path: str | os.PathLike[str], **options: Any) -> None: ...
    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        shared, own = split(options, SQLITE_OPTIONS, "SqliteTransport")
        super().__init__(shared)
        name = sqlite_path(path)
        engine = make_engine(name, shared, own)
        engine.open()
        self._operating = Operating(engine.statements, engine.clock.now, shared.decoder)
        self._key = queue_key(name, shared.queue)
        self._combiner = Combiner(engine, Watch(shared.max_poll), shared.max_batch, self._key)
        _open.add(self._combiner)

    @overload
    @classmethod
    def from_url(cls, url: str, *, decode: Callable[[str], D], **options: Any) -> SqliteTransport[D]: ...
    @overload
    @classmethod
    def from_url(cls, url: str, **options: Any) -> SqliteTransport[Any]: ...
    @classmethod
    def from_url(cls, url: str, **options: Any) -> SqliteTransport[Any]:
        """The same, from a `sqlite://` URL."""
        return cls(url, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._combiner.name}>"

    def _slot(self) -> Slot:
        return Slot()

    def _start(self, calls: Sequence[Call], slot: Slot) -> None:
        self._combiner.start(calls)

    def _wait(self, slot: Slot, undo: Callable[[], object] | None = None) -> Any:
        return self._combiner.wait(slot, undo)

    def _check_thread(self) -> None:
        self._combiner.check_thread()

    def _expect(self, call: Call, backlog: ThreadBacklog) -> Soon:
        return self._combiner.expect(call, backlog)

    def _launch(self, call: Call) -> None:
        self._combiner.launch(call)

    def _claim(self, call: Claim, acks: Sequence[Settle]) -> Any:
        return self._combiner.claim(call, acks, self._on_lost)

    def _ask(self, question: Question[Any]) -> list[Rows]:
        return self._combiner.ask(question.names, question.statements)

    def _publish_on(self, connection: Any, call: Publish) -> int:
        return self._combiner.publish_on(connection, call)

    def _end(self) -> None:
        self._combiner.close()
