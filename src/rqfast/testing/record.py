"""What handlers got, written down as it happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..observe.hooks import Event, Hooks
from ..worker.outcomes import as_outcome
from ..worker.subscription import Subscription

# How many deliveries a failure shows.
SHOWN = 20
# How often a message may come while the clock stands.
MOST_TRIES = 100


@dataclass(slots=True)
class Handled:
    """One delivery of a message to a handler.

    Attributes:
        subscription: its name.
        payload: what the handler got, as it was then; of a batch one item of the list.
        group: the message's group.
        attempt: which delivery of the message this was.
        seq: its number, or the id of its row.
        outcome: what the handler said: an `Outcome`, or the exception that it raised; None while it is at work.
    """

    subscription: str
    payload: Any
    group: str
    attempt: int
    seq: Any
    outcome: Any = None


class Record:
    """Deliveries and settlements of a test, in the order in which they began.

    Args:
        changed: called, from any thread, when something was added.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.handled: list[Handled] = []
        self.settled: list[Event] = []
        self.moves: int = 0
        self._tries: Counter[Any] = Counter()
        self._changed = changed

    def move(self) -> None:
        """Something happened."""
        self.moves += 1
        self._changed()

    # -- handlers -----------------------------------------------------------------------------------------

    def recorded(self, subscription: Subscription) -> Subscription:
        """The same subscription, whose handler is written down."""
        handler, signature = subscription.handler, subscription.signature

        def call(payload: Any, context: Any) -> Any:
            return handler(payload, context) if signature.takes_context else handler(payload)

        def begin(payload: Any, context: Any) -> list[Handled]:
            items, contexts = (payload, context) if signature.takes_list else ([payload], [context])
            begun = [
                Handled(subscription.name, as_got(item), one.group, one.attempt, one.id)
                for item, one in zip(items, contexts, strict=True)
            ]
            self.handled += begun
            self._tries.update((subscription.name, one.id) for one in contexts)
            self.move()
            return begun

        async def awaited(payload: Any, context: Any) -> Any:
            begun = begin(payload, context)
            try:
                return self._said(begun, await call(payload, context))
            except BaseException as error:
                self._raised(begun, error)
                raise

        def plain(payload: Any, context: Any) -> Any:
            begun = begin(payload, context)
            try:
                outcome = call(payload, context)
                if asyncio.iscoroutine(outcome):
                    return ended(begun, outcome)
                return self._said(begun, outcome)
            except BaseException as error:
                self._raised(begun, error)
                raise

        async def ended(begun: list[Handled], running: Any) -> Any:
            try:
                return self._said(begun, await running)
            except BaseException as error:
                self._raised(begun, error)
                raise

        recorded = copy(subscription)
        recorded.handler = awaited if signature.is_async else plain
        recorded.signature = signature._replace(takes_context=True)
        return recorded

    def _said(self, begun: list[Handled], outcome: Any) -> Any:
        each = outcome if isinstance(outcome, list | tuple) else [outcome] * len(begun)
        for one, said in zip(begun, each, strict=False):
            try:
                one.outcome = as_outcome(said)
            except TypeError as error:
                one.outcome = error
        self.move()
        return outcome

    def _raised(self, begun: list[Handled], error: BaseException) -> None:
        for one in begun:
            one.outcome = error
        self.move()

    # -- looking ------------------------------------------------------------------------------------------

    def of(self, subscription: str | None) -> list[Handled]:
        """What one subscription got; None: all of them."""
        return [one for one in self.handled if subscription in (None, one.subscription)]

    def is_over(self, seq: Any, since: int) -> bool:
        """Whether the message was settled, of the settlements from `since` on, and does not come again by itself."""
        return any(one.seq == seq and _is_over(one) for one in self.settled[since:])

    def last_of(self, seq: Any) -> str:
        """What is known of a message, for a failure."""
        tries = [one for one in self.handled if one.seq == seq]
        if not tries:
            return "no handler got it"
        last = tries[-1]
        if last.outcome is None:
            return f"{last.subscription!r} is at work on it (attempt {last.attempt})"
        return f"{last.subscription!r} got it {len(tries)} times, and said {last.outcome!r} at last"

    def clock_moved(self) -> None:
        """What comes again has a reason to."""
        self._tries.clear()

    def check_tries(self) -> None:
        """Fail where a message comes again and again while the clock stands.

        Raises:
            AssertionError: which, and what the handler said.
        """
        for (name, seq), count in self._tries.most_common(1):
            if count >= MOST_TRIES:
                raise AssertionError(
                    f"message {seq} came {count} times while the clock stood: {self.last_of(seq)}; {name!r} tries it "
                    "again at once: backoff= makes it wait, max_attempts= and dead_letter= end it"
                )


class Recorder(Hooks):
    """Writes down how messages end."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def claimed(self, event: Event) -> None:
        """It goes to a handler, or is given up before."""
        self._record.move()

    def settled(self, event: Event) -> None:
        """Its outcome took effect."""
        self._record.settled.append(event)
        self._record.move()

    def lost(self, event: Event) -> None:
        """Its outcome was thrown away."""
        self._record.settled.append(event)
        self._record.move()


def check_name(subscription: str | None, known: Sequence[Subscription]) -> None:
    """Refuse the name of a subscription that is not there.

    Raises:
        ConfigError: it names those that are.
    """
    names = [one.name for one in known]
    if subscription is not None and subscription not in names:
        raise ConfigError(f"no subscription is called {subscription!r}: {', '.join(map(repr, names))}")


def assert_handled(
    found: list[Handled],
    who: str,
    payloads: Sequence[Any],
    attempts: Sequence[int] | None,
    outcomes: Sequence[Any] | None,
    count: int | None,
) -> None:
    """See `TestWorker.assert_handled`."""
    if payloads and [one.payload for one in found] != list(payloads):
        raise AssertionError(f"{who} was to get {list(payloads)}, and got\n{_shown(found)}")
    if attempts is not None and [one.attempt for one in found] != list(attempts):
        raise AssertionError(f"{who}: the attempts were to be {list(attempts)}, and were\n{_shown(found)}")
    if outcomes is not None and [one.outcome for one in found] != list(outcomes):
        raise AssertionError(f"{who} was to say {list(outcomes)}, and said\n{_shown(found)}")
    if count is not None and len(found) != count:
        raise AssertionError(f"{who} was to get {count} messages, and got {len(found)}\n{_shown(found)}")
    if not payloads and attempts is None and outcomes is None and count is None and not found:
        raise AssertionError(f"{who} got nothing")


def as_got(payload: Any) -> Any:
    """A copy, since a handler may change what it gets; what cannot be copied stands for itself."""
    try:
        return deepcopy(payload)
    except Exception:
        return payload


def _shown(found: list[Handled]) -> str:
    lines = [f"  {one}" for one in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"  .. and {len(found) - SHOWN} more")
    return "\n".join(lines) or "  nothing"


def _is_over(event: Event) -> bool:
    # What is to go again at once comes by itself; with a delay it waits for the clock.
    return event.outcome not in ("Retry", "RetryAfter", "") or event.delay > 0
