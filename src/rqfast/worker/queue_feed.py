"""The queue as a source of messages: all groups, or some."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Sequence
from typing import Any

from .._core import Lease
from ..address.selection import Selection
from ..errors import ConfigError
from ..model import Message
from ..transport import checks
from ..transport.awaitable import AwaitableTransport
from .outcomes import Ack, Outcome, Retry, RetryAfter

log: logging.Logger = logging.getLogger("rqfast.worker")

# Of a reason among headers, in characters.
LONGEST_REASON = 2000


class QueueFeed:
    """Claims heads of groups; see `Feed`.

    Args:
        dead_letter: True (or None): the queue's dead letters; a name: that group.
    """

    def __init__(
        self,
        transport: AwaitableTransport[Any],
        selection: Selection,
        *,
        worker_id: str,
        visibility: float,
        min_priority: int = 0,
        dead_letter: Any = None,
    ) -> None:
        self._transport = transport
        self._desk = transport.desk
        self._selection = selection
        self._only = selection.only
        self._worker_id = worker_id
        self._visibility = visibility
        self._min_priority = min_priority
        self._dead_letter = dead_letter

    async def check(self) -> None:
        """Opening the transport has looked at the queue's tables."""

    def claim(self, limit: int) -> Future[Any]:
        """See `Feed.claim`."""
        if self._only is None:
            if limit == 1:
                return self._transport.claim(self._worker_id, self._visibility, self._min_priority, wait=None)
            return self._transport.claim_many(self._worker_id, self._visibility, limit, self._min_priority, wait=None)
        return self._among(limit, True)

    def claim_next(self, limit: int) -> Future[Any]:
        """See `Feed.claim_next`."""
        if self._only is None:
            if limit == 1:
                return self._transport.claim(self._worker_id, self._visibility, self._min_priority)
            return self._transport.claim_many(self._worker_id, self._visibility, limit, self._min_priority)
        return self._among(limit, False)

    def _among(self, limit: int, waits: bool) -> Future[Any]:
        return self._desk.claim_among(
            self._only, self._worker_id, self._visibility, limit, self._min_priority, waits=waits
        )

    def settle(self, held: Lease[Any], outcome: Outcome) -> Future[Any]:
        """See `Feed.settle`."""
        if isinstance(outcome, Retry):
            return self._transport.nack(held, outcome.delay)
        if isinstance(outcome, RetryAfter):
            return self._transport.defer(held, outcome.delay)
        if isinstance(outcome, Ack) and not outcome.is_plain:
            return self._transport.ack(held, publish=outcome.publish, with_statements=outcome.with_statements)
        return self._transport.ack(held)

    def bury(self, held: Lease[Any], reason: str, error: str | None) -> Future[Any]:
        """See `Feed.bury`."""
        if isinstance(self._dead_letter, str):
            try:
                return self._transport.ack(held, publish=[self._letter(self._dead_letter, held, reason, error)])
            except Exception as refused:
                # A text that is no JSON, headers that grow too long: it must go all the same.
                log.warning(
                    "message %d of group %r cannot be published to group %r, it goes to the queue's dead letters: %s",
                    held.seq, held.group_id, self._dead_letter, refused,
                )  # fmt: skip
        return self._desk.bury(held, reason, error)

    def _letter(self, group: str, held: Lease[Any], reason: str, error: str | None) -> Message:
        headers = {**held.headers, "dead_reason": reason[:LONGEST_REASON], "dead_group": held.group_id}
        if error is not None:
            headers["dead_error"] = error
        # Bytes are JSON as it stands, but an encoder of the user's own knows nothing of that.
        event = held.event if self._transport._options.encode else held.raw.encode()
        return Message(group, event, headers=headers)

    def give_back(self, held: Lease[Any]) -> Future[Any]:
        """See `Feed.give_back`."""
        return self._desk.give_back(held)

    def extend(self, held: Sequence[Lease[Any]], visibility: float) -> Future[list[Any]]:
        """See `Feed.extend`."""
        return self._transport.extend_many(held, visibility)

    async def quiet(self) -> None:
        """Closing the transport waits for that."""

    def twin(self, transport: AwaitableTransport[Any]) -> QueueFeed:
        """See `Feed.twin`."""
        return QueueFeed(
            transport,
            self._selection,
            worker_id=self._worker_id,
            visibility=self._visibility,
            min_priority=self._min_priority,
            dead_letter=self._dead_letter,
        )


def check_dead_letter(value: Any, selection: Selection) -> None:
    """Refuse what cannot be where dead letters of a queue go."""
    if isinstance(value, str):
        checks.option_name(value, "dead_letter")
        if selection.includes(value):
            raise ConfigError(
                f"dead_letter={value!r} is a group that the subscription itself serves: what is given up would come "
                "again, for ever; take dead_letter=True, or narrow the groups it serves"
            )
        return
    if value is not None and value is not True:
        raise ConfigError(
            "dead_letter= of a subscription on the queue is True (the queue's dead letters) or the name of a group, "
            f"not {type(value).__name__}"
        )
