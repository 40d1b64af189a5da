"""The one interface on which metrics and tracing are built: what happens to messages, as it happens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..model import Header

log: logging.Logger = logging.getLogger("rqfast.worker")


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """Something that happened to a message.

    Attributes:
        subscription: the name of the subscription; "" of a publish.
        group: its group.
        seq: its number, or the id of its row; None where a publish does not tell it.
        attempt: which delivery (1, 2, ..); 0 of a publish.
        seconds: how long it took: of "claimed" since it was published, where that is known, else None; of "handled",
            "settled" and "lost" the work of the handler; of "published" and "extended" the call.
        outcome: of "handled" and "settled": "Ack", "Retry", "RetryAfter", "Drop" or "Dead"; else "".
        delay: of "Retry" and "RetryAfter": seconds until it may come again.
        headers: of the message; what a producer put there for a consumer's trace.
        age: seconds since it was published, on the queue's clock; None where that is not known, and of a publish.
        waited: of "claimed": how long its place in the worker had been free, in seconds.
        error: of "handled" and "settled": the exception that its handler raised, or its decoder; else None.
        count: of "published": how many messages there were in the call.
        queue: the name of its queue, "" for the default one; of a row, that of its table.
    """

    # Not frozen, which would take three times as long to make.
    subscription: str
    group: str
    seq: Any
    attempt: int
    seconds: float | None = None
    outcome: str = ""
    delay: float = 0.0
    headers: Any = field(default=None, hash=False, repr=False)
    age: float | None = None
    waited: float | None = None
    error: BaseException | None = None
    count: int = 1
    queue: str = ""


@dataclass(slots=True, eq=False)
class Sending:
    """A call that publishes, from its start to its end.

    Attributes:
        call: which: "publish", "publish_soon", "publish_many", "publish_to", "ack" or "ack_many".
        group: the group of its messages; "" where they are several.
        to: of "publish_to": the address; else "".
        queue: the name of the queue, "" for the default one; of "publish_to", that of the table.
        headers: put in here what is to be added to the headers of its messages, those that they have already are
            replaced; of "publish_to" only what its table has a column for.
        sent: the headers that a single message had; empty where there are several messages.
        count: how many messages, of "publish_many" 0 before its end; at the end how many are certainly in.
        seq: of a single message, at the end.
        seconds: how long the call took, at the end.
        error: what it raised, at the end.
    """

    call: str
    group: str
    to: str = ""
    queue: str = ""
    headers: dict[str, Header] = field(default_factory=dict)
    sent: Mapping[str, Header] = field(default_factory=dict)
    count: int = 1
    seq: int | None = None
    seconds: float = 0.0
    error: BaseException | None = None


class Hooks:
    """Derive, override what you want to see, and pass it: `Worker(hooks=[mine])`, `connect(url, hooks=[mine])`.

    A worker calls the methods on its loop, but for `extended`, which comes from the thread that extends leases; a
    transport calls `publishing` and `published` where its own methods are called, or end.  They must return soon.
    What one raises is logged and does not touch the message.  What is not overridden costs nothing.

    Example:
        >>> class Rate(Hooks):
        ...     def settled(self, event: Event) -> None:
        ...         counter.labels(event.subscription, event.outcome).inc()
    """

    def publishing(self, sending: Sending) -> Callable[[Sending], object] | None:
        """A call begins to publish; what is returned is called with the same object when the call has ended."""

    def published(self, event: Event) -> None:
        """A call has published, by a transport or by `worker.publish`."""

    def claimed(self, event: Event) -> None:
        """It goes to a handler."""

    def handling(self, events: Sequence[Event]) -> AbstractContextManager[object] | None:
        """Entered before a handler is called, and left when the settlement of its messages has begun.

        In the handler's own context, so that a `ContextVar` set in it is seen by the handler (also by a plain one, in
        its thread) and by what is published with an `Ack`.  Several events: a batch.
        """

    def handled(self, event: Event) -> None:
        """Its handler has ended and its settlement begins; within `handling`."""

    def settled(self, event: Event) -> None:
        """Its outcome has taken effect."""

    def lost(self, event: Event) -> None:
        """Its outcome was refused, or thrown away: the lease no longer held it."""

    def extended(self, event: Event) -> None:
        """Its lease was extended."""


class Heard:
    """Which of some hooks hear of what, found out once: nobody is told what nobody overrides.

    Attributes:
        publishing, published, claimed, handling, handled, settled, lost, extended: the hooks that override it.
    """

    __slots__ = ("claimed", "extended", "handled", "handling", "lost", "published", "publishing", "settled")

    def __init__(self, hooks: Iterable[Hooks]) -> None:
        known = tuple(hooks)
        for name in self.__slots__:
            setattr(self, name, tuple(hook for hook in known if _overrides(hook, name)))

    claimed: tuple[Hooks, ...]
    extended: tuple[Hooks, ...]
    handled: tuple[Hooks, ...]
    handling: tuple[Hooks, ...]
    lost: tuple[Hooks, ...]
    published: tuple[Hooks, ...]
    publishing: tuple[Hooks, ...]
    settled: tuple[Hooks, ...]

    @property
    def of_publishing(self) -> bool:
        """Whether any of them hears of what is published."""
        return bool(self.publishing or self.published)


def _overrides(hook: Hooks, name: str) -> bool:
    method = getattr(hook, name, None)
    return method is not None and getattr(method, "__func__", method) is not getattr(Hooks, name)


def checked(hooks: Any) -> tuple[Hooks, ...]:
    """The option `hooks=`.

    Raises:
        ConfigError: it is no list of hooks.
    """
    if isinstance(hooks, Hooks) or not isinstance(hooks, Iterable):
        raise ConfigError(f"hooks= is a list of Hooks, not {type(hooks).__name__}: hooks=[..]")
    found = tuple(hooks)
    for hook in found:
        if isinstance(hook, type):
            raise ConfigError(f"hooks= has the class {hook.__name__}: write {hook.__name__}()")
    return found


def tell(hooks: Iterable[Hooks], what: str, event: Event) -> None:
    """Call a method of all of them."""
    for hook in hooks:
        try:
            getattr(hook, what)(event)
        except Exception:
            hook_failed(hook, what)


@contextmanager
def around(hooks: Iterable[Hooks], events: Sequence[Event]) -> Iterator[None]:
    """Within what `handling` of all of them gave; none of them keeps the handler from being called."""
    with ExitStack() as stack:
        for hook in hooks:
            try:
                manager = hook.handling(events)
                if manager is not None:
                    stack.enter_context(_Guarded(hook, manager))
            except Exception:
                hook_failed(hook, "handling")
        yield


class _Guarded(AbstractContextManager[None]):
    """What a hook gave: left with what was raised, and neither hiding it nor adding to it."""

    def __init__(self, hook: Hooks, manager: AbstractContextManager[object]) -> None:
        self._hook = hook
        self._manager = manager

    def __enter__(self) -> None:
        self._manager.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._manager.__exit__(*raised)
        except Exception as error:
            # A context manager made of a generator may raise again what it was left with.
            if error is not raised[1]:
                hook_failed(self._hook, "handling")


def hook_failed(hook: object, what: str) -> None:
    """Say so, and go on: a message does not suffer for it."""
    log.exception("a hook failed: %s.%s", type(hook).__name__, what)
