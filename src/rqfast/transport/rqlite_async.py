"""rqlite in its own colour: numbered requests over kept-alive HTTP connections, on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl as ssl_module
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar, overload

from .._core import Batch, Batcher, Outcome, Texts
from ..engine.cluster import Cluster, parse_url
from ..engine.opening import RqliteOpening
from ..engine.rqlite import READ, READ_TOGETHER, RqliteEngine
from ..engine.time import QueueClock
from ..errors import ConfigError, Unavailable
from ..pipeline.gather import Gather
from ..pipeline.lanes import Lane
from ..pipeline.waiting import Waiting, Wish
from ..pipeline.watch import Watch
from ..sql import Statements
from ..sql.own import for_http
from . import checks
from .awaitable import AwaitableTransport, Opening, T
from .hidden import hidden_options, hidden_url, place_text
from .operating import Operating, Question, Rows
from .options import default_worker, split

D = TypeVar("D")

RQLITE_OPTIONS: dict[str, Any] = {"auth": None, "ssl": None, "discover": True}

# One lane for settlements and claims, two for publishes: what was measured best.
LANES = 3
MAX_SIZE = 1 << 20


def parse_nodes(url: Any, own: dict[str, Any]) -> tuple[Cluster, tuple[str, str] | None]:
    """The cluster that a URL names, and the credentials in it or in `auth=`.

    Raises:
        ConfigError: the URL or an option; it shows no password.
    """
    if not isinstance(url, str):
        raise ConfigError(
            f"the address of rqlite is a URL (str), not {type(url).__name__}; a client object is not taken, "
            "use from_url(url)"
        )
    try:
        seeds, auth = parse_url(url)
    except ValueError as error:
        raise ConfigError(f"cannot use this URL: {error}") from None
    if own["auth"] is not None:
        given: Any = own["auth"]
        if not (isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given)):
            raise ConfigError("auth= is a pair (user, password) of str")
        auth = given
    _check_auth(auth)
    if own["ssl"] is not None and not isinstance(own["ssl"], ssl_module.SSLContext):
        raise ConfigError(f"ssl= is an ssl.SSLContext, not {type(own['ssl']).__name__}")
    if own["ssl"] is not None and seeds[0].startswith("http:"):
        raise ConfigError(
            "ssl= is given and the URL says http, which would go without TLS: write https:// (rqlites://)"
        )
    if not isinstance(own["discover"], bool):
        raise ConfigError(f"discover={own['discover']!r}: True or False")
    return Cluster(seeds, own["discover"]), auth


def _check_auth(auth: tuple[str, str] | None) -> None:
    """Refuse what cannot be sent by Basic authentication; shows neither."""
    if auth is None:
        return
    if ":" in auth[0]:
        raise ConfigError(
            "the user's name has a colon in it, which Basic authentication takes for the password's begin"
        )
    for part in auth:
        if any("\ud800" <= letter <= "\udfff" for letter in part):
            raise ConfigError("user or password holds a lone surrogate: it cannot be sent")


class LaneCarrier:
    """A lane as the gathering of calls sees it."""

    def __init__(self, lane: Lane) -> None:
        self.send: Callable[[Batch], Coroutine[Any, Any, list[list[Any] | None] | None]] = lane.send
        self.abandon: Callable[[], None] = lane.abandon
        self._lane = lane

    @property
    def ambiguous(self) -> bool:
        """Whether what is being sent may have taken effect."""
        return self._lane.progress.ambiguous

    @property
    def trouble(self) -> str:
        """What came back of the copy that was answered last; "" where that was nothing."""
        return self._lane.progress.text


class AsyncRqliteTransport(AwaitableTransport[T], Generic[T]):
    """A queue on an rqlite cluster, for asyncio.

    Opens when entered or at its first call; belongs to the loop it was first used on.

    Args:
        base_url: `http(s)://[user:pass@]host:port[,host:port..]` or `rqlite(s)://..`.
        timeout: bounds a whole call, retries and elections included, in seconds.
        clock: see `connect`.
        **options: see `connect`; here also `auth`, `ssl`, `discover`.
    """

    _own_statement = staticmethod(for_http)

    @overload
    def __init__(
        self,
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        *,
        decode: Callable[[str], T],
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncRqliteTransport[Any],
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        base_url, options = hidden_url(base_url), hidden_options(options)
        shared, own = split({"clock": clock} | options, RQLITE_OPTIONS, type(self).__name__)
        super().__init__(shared)
        self._address = (base_url, timeout, clock, options)
        cluster, auth = parse_nodes(base_url, own)
        self._timeout = checks.option_seconds(timeout, "timeout")
        self._patience = self._timeout
        self._statements = Statements(shared.queue)
        self._clock = QueueClock(clock)
        self._engine = RqliteEngine(cluster, auth=auth, ssl=own["ssl"], lane_table=self._statements.names["lane"])
        texts = Texts(self._statements.queue, True, self._statements.operate)
        self._lanes = [
            Lane(
                self._engine,
                self._statements,
                texts,
                self._clock,
                window=shared.dedup_window,
                holder=default_worker(),
            )
            for _ in range(LANES)
        ]
        key = self._key = ("rqlite", frozenset(cluster.seeds), shared.queue)
        watch = Watch(shared.max_poll)
        gather = Gather(
            Batcher(LANES, shared.max_batch, MAX_SIZE),
            watch,
            key,
            open=self._open,
            resolve=self._resolve,
            unavailable=self._engine.leaders.unavailable,
            timeout=self._timeout,
            tend=self._tend,
        )
        self._operating = Operating(self._statements, self._clock.now, shared.decoder)
        self._use(gather, Waiting(gather, watch, self._look, self._clock.now, key))

    @overload
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        decode: Callable[[str], D],
        timeout: float = 10.0,
        connect_retries: int = 30,
        retry_delay: float = 1.0,
        **options: Any,
    ) -> Opening[AsyncRqliteTransport[D]]: ...
    @overload
    @classmethod
    def from_url(
        cls, url: str, *, timeout: float = 10.0, connect_retries: int = 30, retry_delay: float = 1.0, **options: Any
    ) -> Opening[AsyncRqliteTransport[Any]]: ...
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        timeout: float = 10.0,
        connect_retries: int = 30,
        retry_delay: float = 1.0,
        **options: Any,
    ) -> Opening[AsyncRqliteTransport[Any]]:
        """The same, but opening waits for a node with a leader; awaited or entered.

        Args:
            connect_retries: how often, at most, a node is asked again.
            retry_delay: seconds between.
        """
        url, options = hidden_url(url), hidden_options(options)
        patience = connect_patience(connect_retries, retry_delay)

        def make() -> AsyncRqliteTransport[Any]:
            transport = cls(url, timeout, **options)
            transport._patience = patience
            return transport

        return Opening(make)

    def _twin(self) -> AsyncRqliteTransport[T]:
        """It has connections of its own."""
        base_url, timeout, clock, options = self._address
        return AsyncRqliteTransport(base_url, timeout, clock, **options)

    @property
    def _awaited(self) -> str:
        trouble = self._engine.leaders.trouble
        return f"a leader at {','.join(self._engine.cluster.seeds)}" + (f" ({trouble})" if trouble else "")

    def __repr__(self) -> str:
        nodes = ",".join(self._engine.cluster.seeds)
        return f"<{type(self).__name__} {nodes} queue={self._options.queue!r}>"

    def __str__(self) -> str:
        return place_text(self._options.queue, ",".join(self._engine.cluster.seeds))

    async def _open(self) -> Sequence[LaneCarrier]:
        if not self._engine.is_open:
            self._engine.open()
        await self._opening(self._patience).run([lane.name for lane in self._lanes])
        for lane in self._lanes:
            lane.registered()
        return [LaneCarrier(lane) for lane in self._lanes]

    def _opening(self, patience: float) -> RqliteOpening:
        deadline = asyncio.get_running_loop().time() + patience
        return RqliteOpening(
            self._engine,
            self._statements,
            self._options.queue,
            create=self._options.create,
            clock=self._clock,
            deadline=lambda: deadline,
        )

    async def _tend(self) -> None:
        await self._opening(self._timeout).forget_statistics()

    def _resolve(self, batch: Batch, rows: Sequence[list[Any] | None]) -> Outcome:
        outcome = batch.resolve(rows, self._clock.now(), self._options.decoder, self._clock.now)
        self._clock.saw(outcome.t)
        return outcome

    async def _look(self, wishes: list[Wish]) -> list[tuple[bool, float | None]]:
        """One plain read for all waiting claims; on the leader, and a wrong leader only delays them."""
        await self._gather.opened()
        now = self._clock.now()
        looks = [self._statements.look(priority, only) for priority, only in wishes]
        names = [name for name, _, _ in looks]
        deadline = time.monotonic() + self._timeout
        rows = await self._engine.repeat(
            READ,
            [[text, now, *parameters] for _, text, parameters in looks],
            deadline=lambda: deadline,
            names=names,
            reads=lambda rows: [_seen(found) for found in rows],
        )
        seen = [_seen(found) for found in rows]
        self._clock.saw(max(t for _, _, t in seen))
        return [(is_work, ready_at) for is_work, ready_at, _ in seen]

    async def _glance(self, names: list[str], statements: list[list[Any]]) -> list[Rows]:
        await self._gather.opened()
        deadline = time.monotonic() + self._timeout
        return await self._engine.repeat(READ, statements, deadline=lambda: deadline, names=names)

    async def _ask(self, question: Question[Any]) -> list[Rows]:
        await self._gather.opened()
        deadline = time.monotonic() + self._timeout
        return await self._engine.repeat(
            READ_TOGETHER, question.statements, deadline=lambda: deadline, names=question.names, reads=question.answer
        )

    async def _close_engine(self) -> None:
        with contextlib.suppress(Unavailable):
            await self._engine.close()


def _seen(rows: Rows) -> tuple[bool, float | None, float]:
    """What a look saw: whether there is work, when there will be, and the time."""
    is_work, ready_at, t = rows[0]
    return bool(is_work), None if ready_at is None else float(ready_at), float(t)


def connect_patience(connect_retries: Any, retry_delay: Any) -> float:
    """How long opening waits for a node with a leader, in seconds."""
    if isinstance(connect_retries, bool) or not isinstance(connect_retries, int) or connect_retries < 0:
        raise ConfigError(f"connect_retries={connect_retries!r}: a whole number, 0 or more")
    return max(0.05, connect_retries * checks.option_seconds(retry_delay, "retry_delay", positive=False))
