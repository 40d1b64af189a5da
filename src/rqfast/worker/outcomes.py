"""What a handler makes of a message: values that it returns or raises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ..api import Item
from ..model import Seconds
from ..transport import checks


class Outcome(Exception):
    """An outcome of a message: `Ack`, `Retry`, `RetryAfter`, `Drop` or `Dead`; returned or raised, as you like.

    Returning None is `Ack()`.  Any other exception is a failure: see `Subscription(backoff=, on_error=)`.
    """

    def _key(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and type(other) is type(self) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash((type(self), repr(self._key())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._key()))})"

    def __str__(self) -> str:
        return repr(self)


class Ack(Outcome):
    """The message is done.

    Args:
        publish: messages that are published in the same transaction, as in `Transport.ack`.
        with_statements: the handler's own `[sql, *parameters]`, likewise.  Was the lease lost, none of it happens.

    Example:
        >>> async def bill(order):
        ...     return Ack(publish=[("invoices", order)])
    """

    def __init__(self, *, publish: Iterable[Item] = (), with_statements: Iterable[Sequence[Any]] = ()) -> None:
        super().__init__()
        self.publish: tuple[Item, ...] = tuple(publish)
        self.with_statements: tuple[Sequence[Any], ...] = tuple(with_statements)

    def _key(self) -> tuple[Any, ...]:
        return (self.publish, self.with_statements) if self.publish or self.with_statements else ()

    def __repr__(self) -> str:
        # Without what they hold: outcomes are logged.
        publish = f"publish=<{len(self.publish)} messages>" if self.publish else ""
        statements = f"with_statements=<{len(self.with_statements)} statements>" if self.with_statements else ""
        return f"Ack({', '.join(filter(None, (publish, statements)))})"

    @property
    def is_plain(self) -> bool:
        """Whether nothing commits with it."""
        return not self.publish and not self.with_statements


class Retry(Outcome):
    """Again: it keeps its place at the head, ahead of those behind it.

    Args:
        delay: None or 0: at once; else the group waits so many seconds (float or timedelta): back-off that keeps order.
    """

    def __init__(self, delay: Seconds | None = None) -> None:
        super().__init__()
        self.delay: float = 0.0 if delay is None else checks.seconds(delay, "delay")

    def _key(self) -> tuple[Any, ...]:
        return (self.delay,) if self.delay else ()


class RetryAfter(Outcome):
    """Again, `delay` seconds from now: it moves behind those that are due before, and the group goes on.

    Only among messages of its own rank; in a table, of its own priority (without a `RetryAt` column: again at once).
    """

    def __init__(self, delay: Seconds) -> None:
        super().__init__()
        self.delay: float = checks.seconds(delay, "delay")

    def _key(self) -> tuple[Any, ...]:
        return (self.delay,)


class Drop(Outcome):
    """Not to be worked: it goes, as with `Ack`, and is counted apart."""


class Dead(Outcome):
    """Given up: it goes to where the subscription's dead letters go, with the reason.

    Without `dead_letter=` these are the queue's dead letters; of an `Inbox` the message is dropped, and logged.
    """

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason: str = checks.reason(reason)

    def _key(self) -> tuple[Any, ...]:
        return (self.reason,)


Said: TypeAlias = Outcome | Sequence[Outcome | None] | None
"""What a handler returns: an outcome or None, of a batch also one for each message."""


def as_outcome(value: object) -> Outcome:
    """What a handler returned, as an outcome.

    Raises:
        TypeError: it is none.
    """
    if value is None:
        return ACK
    if isinstance(value, Outcome):
        return value
    if isinstance(value, type) and issubclass(value, Outcome):
        raise TypeError(f"the handler returned the class {value.__name__}: return {value.__name__}()")
    raise TypeError(
        f"the handler returned {type(value).__name__}: an Outcome (Ack(), Retry(), RetryAfter(delay), Drop(), "
        "Dead(reason)) or None"
    )


ACK = Ack()
