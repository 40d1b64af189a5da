"""From a URL to a transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Unpack, overload

from .api import Transport
from .errors import ConfigError
from .observe.hooks import Heard, Hooks, checked
from .transport.awaitable import AwaitableTransport, Opening
from .transport.given import ConnectOptions
from .transport.hidden import hidden_options, hidden_url
from .transport.observed import observed, observed_async
from .transport.over_loop import RqliteTransport
from .transport.over_thread import AsyncSqliteTransport
from .transport.rqlite_async import AsyncRqliteTransport
from .transport.sqlite_sync import SqliteTransport

T = TypeVar("T")

URL_VARIABLE = "RQFAST_URL"
RQLITE_SCHEMES = ("http", "https", "rqlite", "rqlites")


@overload
def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    decode: Callable[[str], T],
    hooks: Iterable[Hooks] = (),
    **options: Unpack[ConnectOptions],
) -> Transport[T]: ...
@overload
def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    decode: None = None,
    hooks: Iterable[Hooks] = (),
    **options: Unpack[ConnectOptions],
) -> Transport[Any]: ...
def connect(
    url: str | os.PathLike[str] | None = None, *, hooks: Iterable[Hooks] = (), **options: Any
) -> Transport[Any]:
    """Open a queue.

    Args:
        url: `http(s)://[user:pass@]host:port[,host:port..]` or `rqlite(s)://..` for an rqlite cluster;
            `sqlite:///relative.db`, `sqlite:////absolute.db` or a bare path for an embedded file; `:memory:` for a
            queue of its own in memory.  Without it the variable RQFAST_URL.
        hooks: told of what is published (`Hooks.publishing` and `published`).
        **options: of all engines: `queue` (a name makes a second queue), `create`, `encode`, `decode`, `clock`, `lost`
            ("raise" or "warn"), `max_batch`, `max_in_flight`, `max_poll`, `dedup_window`; of rqlite: `timeout`,
            `connect_retries`, `retry_delay` (opening waits for a leader 30 times 1 s, whatever `timeout` is), `auth`,
            `ssl` (an `ssl.SSLContext`: for an authority of your own `ssl.create_default_context(cafile="ca.pem")`, for
            a client certificate its `load_cert_chain(certificate, key)`), `discover`; of SQLite: `synchronous`,
            `busy_timeout`.

    Raises:
        ConfigError: no URL, one that cannot be used, or an unknown option.
        Unavailable: no node with a leader in time.
        SchemaError: the queue is not there (with `create=False`), incomplete or of a newer version.

    Example:
        >>> with connect("queue.db") as t:
        ...     t.publish("customer-7", {"total": 3})
        1
    """
    url, is_rqlite = locate(url)
    options = hidden_options(options)
    told = checked(hooks)
    if not Heard(told).of_publishing:
        return RqliteTransport.from_url(url, **options) if is_rqlite else SqliteTransport(url, **options)
    return observed(url, is_rqlite, told, options)


@overload
def connect_async(
    url: str | os.PathLike[str] | None = None,
    *,
    decode: Callable[[str], T],
    hooks: Iterable[Hooks] = (),
    **options: Unpack[ConnectOptions],
) -> Opening[AwaitableTransport[T]]: ...
@overload
def connect_async(
    url: str | os.PathLike[str] | None = None,
    *,
    decode: None = None,
    hooks: Iterable[Hooks] = (),
    **options: Unpack[ConnectOptions],
) -> Opening[AwaitableTransport[Any]]: ...
def connect_async(
    url: str | os.PathLike[str] | None = None, *, hooks: Iterable[Hooks] = (), **options: Any
) -> Opening[AwaitableTransport[Any]]:
    """Open a queue for asyncio; the result is awaited or entered.  See `connect`.

    Example:
        >>> async with connect_async("queue.db") as t:
        ...     await t.publish("customer-7", {"total": 3})
    """
    url, is_rqlite = locate(url)
    options = hidden_options(options)
    told = checked(hooks)
    if not Heard(told).of_publishing:
        return (AsyncRqliteTransport if is_rqlite else AsyncSqliteTransport).from_url(url, **options)
    return observed_async(url, is_rqlite, told, options)


def locate(url: str | os.PathLike[str] | None) -> tuple[str, bool]:
    """The URL in use, and whether it names an rqlite cluster.

    Raises:
        ConfigError: no URL was given, nor is RQFAST_URL set.
    """
    if url is None:
        url = os.environ.get(URL_VARIABLE)
        if not url:
            raise ConfigError(f"no URL was given, and the variable {URL_VARIABLE} is not set")
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    if not isinstance(url, str):
        raise ConfigError(f"a URL is a str, not {type(url).__name__}")
    where: str = hidden_url(url)
    return where, where.partition("://")[0].lower() in RQLITE_SCHEMES and "://" in where
