"""What a handler knows of the message in its hands."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from ..api import Item
from ..errors import RqfastError
from ..model import Header, Seconds
from ..sql.own import check_statements
from ..transport import checks

if TYPE_CHECKING:
    from .feed import Held
    from .station import Station

log: logging.Logger = logging.getLogger("rqfast.worker")


class MessageLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that says of which message a line is; `extra` has group, seq and attempt for formatters."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the message before the text."""
        said = dict(self.extra or {})
        kwargs["extra"] = {**said, **(kwargs.get("extra") or {})}
        return f"[group {said['group']!r} seq {said['seq']} attempt {said['attempt']}] {msg}", kwargs


class Context:
    """A message in work, as its handler sees it.

    Attributes:
        lease_lost: whether the lease no longer holds the message (bool): somebody else may work it, stop.  Async
            handlers are cancelled when it happens, plain ones look here.
    """

    __slots__ = (
        "_began", "_error", "_held", "_log", "_over", "_published", "_settling", "_statements", "_station", "_task",
        "_worked", "lease_lost",
    )  # fmt: skip

    def __init__(self, station: Station, held: Held) -> None:
        self._station = station
        self._held = held
        self._task: Any = None
        self._began = self._worked = 0.0
        self._error: BaseException | None = None
        self._settling = False
        self._over = False
        self._log: MessageLog | None = None
        self._published: list[Item] | None = None
        self._statements: list[Any] | None = None
        self.lease_lost: bool = False

    @property
    def attempt(self) -> int:
        """Which delivery this is (int): the first reads 1, and one that crashed counts."""
        return self._held.attempts

    @property
    def id(self) -> Any:
        """The message's seq (int); of a row of an `Inbox`, its id."""
        return self._held.seq

    @property
    def group(self) -> str:
        """Its group (str)."""
        return self._held.group_id

    @property
    def headers(self) -> Mapping[str, Header]:
        """What travels with it (str to str, int, float, bool or None); decoded at the first look."""
        return self._held.headers

    @property
    def row(self) -> Any:
        """Of an `Inbox`: the declared class, filled with the row; None for a message of the queue."""
        return getattr(self._held, "row", None)

    @property
    def raw(self) -> str | bytes:
        """The payload as it is stored."""
        raw: str | bytes = self._held.raw
        return raw

    @property
    def fence(self) -> int:
        """A number that rises with every claim, for other systems that must refuse a late writer."""
        return self._held.fence

    def remaining(self) -> float:
        """Seconds left of the lease, by this process's own clock.  It is extended each half lease by itself."""
        return self._held.remaining()

    def extend(self, visibility: Seconds) -> Any:
        """Let the lease end `visibility` seconds from now, whatever the subscription's `visibility` is.

        Returns:
            When it ends (float), in seconds since 1970 on the queue's clock; in an async handler to be awaited.

        Raises:
            LeaseLost: it no longer holds the message.
        """
        return self._station.extend(self, checks.seconds(visibility, "visibility", positive=True))

    def publish(self, *messages: Item) -> None:
        """Publish these in the transaction of this message's Ack; only where `transactional=True` was declared."""
        self._collect("publish")
        assert self._published is not None
        self._published += messages

    def execute(self, sql: str, *parameters: Any) -> None:
        """Run a statement in the transaction of this message's Ack; only where `transactional=True` was declared.

        Raises:
            TypeError, InvalidMessage: it cannot be part of a transaction of the queue.
        """
        self._collect("execute")
        assert self._statements is not None
        self._statements += check_statements([[sql, *parameters]], "execute")

    def _collect(self, what: str) -> None:
        if not self._station.subscription.transactional:
            raise RqfastError(
                f"ctx.{what}() writes with the Ack of its message: declare the subscription with transactional=True, "
                "or return Ack(publish=[..], with_statements=[..])"
            )
        if self._published is None:
            self._published, self._statements = [], []

    @property
    def collected(self) -> tuple[Iterable[Item], Iterable[Any]]:
        """What is to commit with the Ack: messages and statements."""
        return self._published or (), self._statements or ()

    def forget_collected(self) -> None:
        """Its handler failed, so what it collected is not to be committed, whatever the outcome."""
        self._published = self._statements = None

    @property
    def log(self) -> MessageLog:
        """A logger under "rqfast.worker" whose lines say group, seq and attempt."""
        if self._log is None:
            said = {"group": self.group, "seq": self.id, "attempt": self.attempt}
            self._log = MessageLog(log, said)
        return self._log

    def __repr__(self) -> str:
        return f"<Context group={self.group!r} id={self.id!r} attempt={self.attempt}>"
