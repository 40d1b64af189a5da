"""A worker: a URL, subscriptions, and the loop that serves them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..connect import connect_async, locate
from ..errors import ConfigError, RqfastError
from ..model import Header, Seconds
from ..observe.hooks import Event, Hooks, checked, tell
from ..sql.names import check_queue
from ..transport import checks
from ..transport.awaitable import AwaitableTransport
from ..transport.observed import Observed
from ..transport.options import Options, default_worker
from ..transport.rqlite_async import RQLITE_OPTIONS
from ..transport.sqlite_sync import SQLITE_OPTIONS
from .counts import Counts
from .hop import hop
from .names import check_names
from .outcomes import Said
from .service import Service
from .signals import stopping_signals
from .subscription import Subscription
from .waiting import tell_waiting

log: logging.Logger = logging.getLogger("rqfast.worker")

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=Callable[..., Said | Awaitable[Said]])

# The options that say what the queue is, whatever database it is in.
OF_THE_QUEUE = ("queue", "encode", "decode")

SUBSCRIPTION_OPTIONS = frozenset(inspect.signature(Subscription).parameters) - {"source", "handler"}
TRANSPORT_OPTIONS = frozenset(Options.__dataclass_fields__) | {*RQLITE_OPTIONS, *SQLITE_OPTIONS} | {
    "timeout", "connect_retries", "retry_delay",
}  # fmt: skip
WORKER_OPTIONS = TRANSPORT_OPTIONS | {"name", "version", "concurrency", "visibility", "grace", "hooks"}

# The queue of a worker that serves tables only: of it there is no more than the bookkeeping.
TABLES_ONLY = "inbox"

# What tasks that were left get to end when `run` closes its loop, in seconds.
LEFTOVERS = 0.3


class Worker:
    """Serves subscriptions: claims messages, hands them to handlers, and settles them.

    Only describes until `run` or `serve`: nothing connects before.

    Args:
        url_or_transport: as `connect` takes it (None: RQFAST_URL), or an async transport that is open on the loop on
            which `serve` is awaited; that one stays open.
        name: of the service, for logs and operators.
        version: likewise.
        queue: which queue of the database; None: the default one.  (A worker that serves tables only keeps its
            bookkeeping in one called "inbox".)
        concurrency: how many messages of each subscription are in work at once.
        visibility: seconds of a lease; it is extended each half of it while a handler runs, so it only bounds how long
            the group of a worker that crashed waits.
        grace: seconds that handlers get to end when the worker stops.
        hooks: told of what happens to messages.  (What is published through a transport that was passed open is told
            to the hooks of that transport.)
        **options: of the transport, see `connect`.

    Example:
        >>> worker = Worker("http://localhost:4001")
        >>> @worker.subscriber(group="crm")
        ... async def sync(change: dict) -> None:
        ...     await push(change)
        >>> worker.run()
    """

    def __init__(
        self,
        url_or_transport: str | os.PathLike[str] | AwaitableTransport[Any] | None = None,
        *,
        name: str = "worker",
        version: str | None = None,
        queue: str | None = None,
        concurrency: int = 10,
        visibility: Seconds = 30.0,
        grace: Seconds = 10.0,
        hooks: Iterable[Hooks] = (),
        **options: Any,
    ) -> None:
        self._source = url_or_transport
        if url_or_transport is not None and not isinstance(url_or_transport, str | os.PathLike | AwaitableTransport):
            raise ConfigError(
                f"a worker takes a URL, a path or an async transport, not {type(url_or_transport).__name__}; "
                "for a blocking transport pass its URL"
            )
        if isinstance(url_or_transport, AwaitableTransport) and (queue is not None or options):
            raise ConfigError("queue= and other options belong to the transport, which was passed open")
        lost = options.get("lost") if not isinstance(self._source, AwaitableTransport) else self._source._options.lost
        if lost == "warn":
            raise ConfigError("lost='warn' hides from a worker that an outcome was refused: leave it out")
        check_names("a worker", options, WORKER_OPTIONS)
        self.name: str = checks.option_name(name, "name")
        self.version = version
        self.concurrency: int = checks.option_count(concurrency, "concurrency")
        self.visibility: float = checks.option_seconds(visibility, "visibility")
        self.grace: float = checks.option_seconds(grace, "grace", positive=False)
        self.hooks: tuple[Hooks, ...] = checked(hooks)
        self.subscriptions: list[Subscription] = []
        self.startup_hooks: list[Callable[..., Any]] = []
        self.shutdown_hooks: list[Callable[..., Any]] = []
        self._options = {"queue": check_queue(queue)} | options
        self._service: Service | None = None
        self._starting = False
        self._stop_early = False
        self._reached = False
        self._opening: asyncio.Task[AwaitableTransport[Any]] | None = None
        self._lock = threading.Lock()

    # -- declaring ----------------------------------------------------------------------------------------

    def subscriber(self, source: Any = None, **options: Any) -> Callable[[H], H]:
        """Declare a function as the handler of a subscription; see `Subscription` for the arguments.

        Returns the function as it is; its subscription is the last of `worker.subscriptions`.

        Raises:
            ConfigError: what cannot work, when it is declared.
        """

        if inspect.isroutine(source):
            raise ConfigError("@worker.subscriber() is written with parentheses, also where it takes nothing")
        check_names("a subscription", options, SUBSCRIPTION_OPTIONS)

        def declare(handler: H) -> H:
            self.add(Subscription(source, handler, **options))
            return handler

        return declare

    def add(self, subscription: Subscription) -> Subscription:
        """Serve this one too."""
        if not isinstance(subscription, Subscription):
            raise ConfigError(f"a worker serves a Subscription, not {type(subscription).__name__}")
        if any(one.name == subscription.name for one in self.subscriptions):
            raise ConfigError(f"two subscriptions are called {subscription.name!r}: give one of them a name=")
        if self._service is not None:
            raise RqfastError("this worker runs: declare its subscriptions before")
        self.subscriptions.append(subscription)
        return subscription

    def on_startup(self, hook: F) -> F:
        """Call `hook(db)` when the database is open, before tables are checked and messages claimed; see `Database`."""
        self.startup_hooks.append(hook)
        return hook

    def on_shutdown(self, hook: F) -> F:
        """Call `hook(db)` when all handlers have ended."""
        self.shutdown_hooks.append(hook)
        return hook

    @property
    def options(self) -> dict[str, Any]:
        """The options of its transport, the queue among them."""
        return dict(self._options)

    @property
    def queue_options(self) -> dict[str, Any]:
        """What of them is about the queue: its name, `encode` and `decode`."""
        if isinstance(self._source, AwaitableTransport):
            return {name: getattr(self._source._options, name) for name in OF_THE_QUEUE}
        options = {name: value for name, value in self._options.items() if name in OF_THE_QUEUE}
        if options["queue"] is None and all(one.inbox is not None for one in self.subscriptions):
            # The default queue's tables have plain names, which in a database of the user's own may be taken.
            options["queue"] = TABLES_ONLY
        return options

    @property
    def worker_id(self) -> str:
        """What operators see as the holder of its messages."""
        return f"{self.name}@{default_worker()}"[:200]

    def use(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        queue: str | None = None,
        create: bool | None = None,
    ) -> None:
        """Take this database, and this queue, where it was declared without; before it runs.

        `create` says whether a queue that is not there is made, where the declaration does not; the bookkeeping of a
        worker that serves tables only always is.

        Raises:
            ConfigError: it was declared with another one.
        """
        for what, given, own in (("url", url, self._source), ("queue", queue, self._options["queue"])):
            if given is not None and own is not None and given != own:
                raise ConfigError(f"worker {self.name!r} names its {what} itself: take one of the two away")
        if url is not None:
            self._source = url
        if queue is not None:
            self._options["queue"] = check_queue(queue)
        tables_only = self._options["queue"] is None and all(one.inbox is not None for one in self.subscriptions)
        if create is not None and not tables_only:
            self._options.setdefault("create", create)

    # -- running ------------------------------------------------------------------------------------------

    def run(self) -> Counts:
        """Serve until SIGTERM, SIGINT or `stop()`; blocks.  A second signal stops at once.

        Returns:
            What was done.

        Raises:
            ConfigError, SchemaError, Unavailable: it could not start.
        """
        if not self.subscriptions:
            raise ConfigError(f"worker {self.name!r} has no subscription: declare one with @worker.subscriber(...)")
        if _loop_runs():
            raise ConfigError("an event loop runs in this thread: `await worker.serve()` there, instead of run()")
        loop = asyncio.new_event_loop()
        try:
            asyncio.set_event_loop(loop)
            with stopping_signals(loop, self._signalled):
                return loop.run_until_complete(self.serve())
        finally:
            _end_leftovers(loop)
            asyncio.set_event_loop(None)
            loop.close()

    def _signalled(self) -> None:
        log.info("worker %r: stops", self.name)
        self.stop()

    async def serve(self) -> Counts:
        """Serve on the running loop, until `stop()` or until it is cancelled (then it stops, and the cancellation goes
        on); no signal is handled.

        Returns:
            What was done.
        """
        if not self.subscriptions:
            raise ConfigError(f"worker {self.name!r} has no subscription: declare one with @worker.subscriber(...)")
        with self._lock:
            if self._service is not None or self._starting:
                raise RqfastError(f"worker {self.name!r} runs already")
            self._starting, self._stop_early, self._reached = True, False, False
        try:
            if isinstance(self._source, AwaitableTransport):
                return await self._serve_on(self._source)
            transport = await self._opened(self._source)
            if transport is None:
                return Counts()
            async with transport:
                return await self._serve_on(transport)
        finally:
            with self._lock:
                self._starting = False

    async def _opened(self, source: str | os.PathLike[str] | None) -> AwaitableTransport[Any] | None:
        """A transport of its own; None: it was stopped while no node answered."""
        url, _ = locate(source)

        being_opened = connect_async(url, hooks=self.hooks, **(self._options | self.queue_options))

        async def opened() -> AwaitableTransport[Any]:
            return await being_opened

        opening = asyncio.ensure_future(opened())
        telling = asyncio.ensure_future(tell_waiting(self.name, being_opened))
        with self._lock:
            self._opening = opening
            if self._stop_early:
                opening.cancel()
        try:
            return await opening
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stop_early and task is not None and not task.cancelling():
                return None
            raise
        finally:
            telling.cancel()
            with self._lock:
                self._opening = None

    def attach(self, service: Service) -> None:
        """Let what is called on this worker act on a run that somebody else has made; see `rqfast.testing`.

        Raises:
            RqfastError: it runs already.
        """
        with self._lock:
            if self._service is not None or self._starting:
                raise RqfastError(f"worker {self.name!r} runs already")
            self._service = service

    def detach(self, service: Service) -> None:
        """End what `attach` began."""
        with self._lock:
            if self._service is service:
                self._service = None

    async def _serve_on(self, transport: AwaitableTransport[Any]) -> Counts:
        service = Service(self, transport)
        with self._lock:
            self._service, self._reached = service, True
            if self._stop_early:
                service.stop()
        running = asyncio.ensure_future(service.run())
        try:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                service.stop()
                while not running.done():
                    try:
                        await asyncio.wait((running,))
                    except asyncio.CancelledError:
                        service.stop()
                if not running.cancelled() and running.exception() is not None:
                    log.error("worker %r: %s", self.name, running.exception())
                raise
        finally:
            with self._lock:
                self._service = None

    def stop(self) -> None:
        """Stop: claim no more, let handlers end within `grace`, give back the rest.

        A plain call, from any thread; a second one stops at once.
        """
        with self._lock:
            service = self._service
            if service is None:
                self._stop_early = self._starting
                if self._opening is not None:
                    self._opening.get_loop().call_soon_threadsafe(self._opening.cancel)
                return
        try:
            service.loop.call_soon_threadsafe(service.stop)
        except RuntimeError:
            log.debug("worker %r has ended", self.name)

    @property
    def counts(self) -> Counts:
        """What was done since it started; zeros when it does not run."""
        service = self._service
        total = Counts()
        if service is not None:
            total += service.counts
            for station in service.stations:
                total += station.counts
        return total

    @property
    def reached(self) -> bool:
        """Whether the run that is under way, or was the last, has opened its database."""
        return self._reached

    async def started(self) -> None:
        """Wait until it claims messages."""
        while (service := self._service) is None:  # noqa: ASYNC110 - it is made by whatever runs `serve`
            await asyncio.sleep(0.005)
        await service.ready.wait()

    # -- beside the handlers ------------------------------------------------------------------------------

    def _running(self, what: str) -> Service:
        if self._service is None:
            raise RqfastError(f"worker.{what}: the worker does not run; use a transport of your own")
        return self._service

    def publish(
        self,
        to: Any,
        event: Any,
        *,
        priority: int | None = None,
        retry_after: Seconds | None = None,
        headers: Mapping[str, Header] | None = None,
        **options: Any,
    ) -> Any:
        """Publish from a running worker: awaited in a coroutine; in a plain handler it waits until the message is in.

        Args:
            to: a group of the queue (str), or an address of an `Inbox`.
            event: the payload.
            priority: of the queue, the group's; of a table, the row's.
            retry_after: seconds until it is due.
            headers: what travels with it.
            **options: of the queue: `rank`, `dedup_id`, `with_statements`; see `Transport.publish`.

        Returns:
            The seq (int); None of a table.
        """
        service = self._running("publish()")
        return hop(service.loop, self._publish(service, to, event, priority, retry_after, headers, options))

    async def _publish(
        self,
        service: Service,
        to: Any,
        event: Any,
        priority: int | None,
        retry_after: Seconds | None,
        headers: Mapping[str, Header] | None,
        options: dict[str, Any],
    ) -> int | None:
        start = service.loop.time()
        seq: int | None = None
        if isinstance(to, str):
            delay = 0 if retry_after is None else retry_after
            seq = await service.transport.publish(to, event, priority or 0, delay=delay, headers=headers, **options)
        else:
            await service.transport.publish_to(
                to, event, priority=priority, retry_after=retry_after, headers=headers, **options
            )
        if service.heard.published and not isinstance(service.transport, Observed):
            # Passed open, without hooks.
            event = Event("", to if isinstance(to, str) else str(to), seq, 0, service.loop.time() - start)
            tell(service.heard.published, "published", event)
        return seq

    def pause(self, subscription: str | None = None, *, group: str | None = None) -> Any:
        """Pause a subscription, of this worker or another: nobody claims for one of that name until `resume`.

        It holds in this process at once, in others within a second; what is in work goes on.  May be called again.

        Args:
            subscription: its name.
            group: instead, a group of the queue, for all who claim; neither: the whole queue.

        Awaited in a coroutine; in a plain handler it waits.
        """
        service = self._running("pause()")
        self._check_paused("pause", subscription, group)
        return hop(service.loop, self._pause(service, subscription, group))

    def resume(self, subscription: str | None = None, *, group: str | None = None) -> Any:
        """End a pause; see `pause`."""
        service = self._running("resume()")
        self._check_paused("resume", subscription, group)
        return hop(service.loop, self._resume(service, subscription, group))

    def _check_paused(self, what: str, subscription: str | None, group: str | None) -> None:
        if subscription is not None and group is not None:
            raise ConfigError(f"{what} of a subscription and of a group: which?")
        names = [one.name for one in self.subscriptions]
        if subscription is not None and subscription not in names:
            # Other workers may have it: it is no error, but may be a slip.
            log.warning(
                "%s of %r, which is none of this worker's (%s): for others", what, subscription, ", ".join(names)
            )

    async def _pause(self, service: Service, subscription: str | None, group: str | None) -> None:
        if subscription is None:
            await service.transport.pause(group)
        else:
            await service.pauses.pause(subscription)

    async def _resume(self, service: Service, subscription: str | None, group: str | None) -> None:
        if subscription is None:
            await service.transport.resume(group)
        else:
            await service.pauses.resume(subscription)

    def __repr__(self) -> str:
        return f"<Worker {self.name!r}, {len(self.subscriptions)} subscriptions>"


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _end_leftovers(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what still runs on a loop that is about to close, and wait a little for it."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=LEFTOVERS))
    loop.run_until_complete(loop.shutdown_asyncgens())
