"""How commands find the queue that is meant, and open it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..api import Transport
from ..connect import URL_VARIABLE, connect, locate
from ..errors import ConfigError, SchemaError
from ..transport.sqlite_sync import sqlite_path

# How long a person waits for a cluster with a leader, in seconds.
PATIENCE = 5

IN_MEMORY = ":memory:"
NO_QUEUE, NO_QUEUES = "is not in this database", "nor is any other"
NO_FILE = "there is no file"
MISSING = "check --url and --queue"
MISSING_OR_CREATE = "check --url and --queue, or make it with --create"


def place(url: str | None) -> tuple[str, bool]:
    """The URL in use, and whether it names an rqlite cluster.

    Raises:
        ConfigError: there is none, or it names memory, which ends with the command.
    """
    if not url:
        raise ConfigError(f"no database was named: say --url, or set the variable {URL_VARIABLE}")
    where, is_rqlite = locate(url)
    if not is_rqlite and sqlite_path(where) == IN_MEMORY:
        raise ConfigError(f"{where}: a queue in memory ends with the command; name a file, or a server")
    return where, is_rqlite


def open_queue(
    url: str | None,
    queue: str | None,
    *,
    create: bool = False,
    missing: str = MISSING,
    timeout: float | None = None,
    **options: Any,
) -> Transport[Any]:
    """Open a queue; one that is not there is made only with `create`.

    Args:
        missing: what to do where it is not there.
        timeout: bounds each call on a cluster, in seconds.

    Raises:
        SchemaError: it is not there; it says which are.
        ConfigError, Unavailable: as `connect`.
    """
    where, is_rqlite = place(url)
    if is_rqlite:
        options |= {"connect_retries": PATIENCE} | ({} if timeout is None else {"timeout": timeout})
    elif not create and not Path(sqlite_path(where)).exists():
        raise SchemaError(f"{NO_FILE} {sqlite_path(where)}: {missing}")
    try:
        return connect(where, queue=queue or None, create=create, **options)
    except SchemaError as error:
        if not is_missing(error):
            raise
        raise SchemaError(f"{error}; {advice(error, missing)}") from error


def advice(error: SchemaError, missing: str) -> str:
    """What to do where a queue is not there (str); where none is, its name is not what is wrong."""
    return missing.replace(" and --queue", "") if NO_QUEUES in str(error) else missing


def is_missing(error: SchemaError) -> bool:
    """Whether a queue, or its file, is not there."""
    return NO_QUEUE in str(error) or str(error).startswith((NO_FILE, NO_QUEUES))


def named(queue: str | None) -> str:
    """A queue's name in a sentence (str)."""
    return f"queue {queue}" if queue else "the default queue"
