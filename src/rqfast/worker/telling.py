"""What the hooks of a subscription are told of its messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ..observe.hooks import Event, Heard, around, tell
from .outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter

if TYPE_CHECKING:
    from .context import Context
    from .feed import Held

NOTHING: AbstractContextManager[None] = nullcontext()


class Telling:
    """Makes events, where anybody hears of them.

    Args:
        name: of the subscription.
        queue: of its messages, or their table.
        now: the queue's time.
    """

    def __init__(self, name: str, queue: str, heard: Heard, now: Callable[[], float]) -> None:
        self._name = name
        self._queue = queue
        self._heard = heard
        self._now = now

    def claimed(self, contexts: Sequence[Context], waited: float) -> AbstractContextManager[None]:
        """They go to a handler, whose call and the begin of their settlement belong into what is returned."""
        heard = self._heard
        if not heard.claimed and not heard.handling:
            return NOTHING
        events = []
        for one in contexts:
            held = one._held
            age = self._age(held)
            event = Event(
                self._name, held.group_id, held.seq, held.attempts, age, "", 0.0, held.headers, age, waited,
                None, 1, self._queue,
            )  # fmt: skip
            events.append(event)
            tell(heard.claimed, "claimed", event)
        return around(heard.handling, events) if heard.handling else NOTHING

    def handled(self, context: Context, outcome: Outcome) -> None:
        """Its handler has ended."""
        if self._heard.handled:
            tell(self._heard.handled, "handled", self._event(context, outcome))

    def settled(self, context: Context, outcome: Outcome) -> None:
        """Its outcome has taken effect."""
        if self._heard.settled:
            tell(self._heard.settled, "settled", self._event(context, outcome))

    def lost(self, context: Context) -> None:
        """Its lease was lost."""
        if self._heard.lost:
            tell(self._heard.lost, "lost", self._event(context))

    def extended(self, context: Context, seconds: float) -> None:
        """Its lease was extended, by a call that took so long."""
        if self._heard.extended:
            event = Event(self._name, context.group, context.id, context.attempt, seconds, queue=self._queue)
            tell(self._heard.extended, "extended", event)

    def _age(self, held: Held) -> float | None:
        """Since it was published, in seconds on the queue's clock; None where that is not known."""
        published: float | None = getattr(held, "published_at", None)
        return None if published is None else max(0.0, self._now() - published)

    def _event(self, context: Context, outcome: Outcome | None = None) -> Event:
        held = context._held
        delay = outcome.delay if isinstance(outcome, Retry | RetryAfter) else 0.0
        return Event(
            self._name, held.group_id, held.seq, held.attempts, context._worked, _kind(outcome), delay, held.headers,
            self._age(held), None, context._error, 1, self._queue,
        )  # fmt: skip


def _kind(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    for kind in (Ack, RetryAfter, Retry, Drop, Dead):
        if isinstance(outcome, kind):
            return kind.__name__
    return type(outcome).__name__
