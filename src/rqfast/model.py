"""Plain values of the public API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Generic, TypeAlias, TypeVar

import orjson

T_co = TypeVar("T_co", covariant=True)

Seconds: TypeAlias = float | timedelta
"""A duration: seconds (int or float) or a timedelta."""

Header: TypeAlias = str | int | float | bool | None
"""A header's value."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to publish, as a value: the arguments of `publish`.  It prints without its event and headers.

    Example:
        >>> Message("customer-7", {"total": 3}, rank=-1)
        Message(group_id='customer-7', priority=0, delay=0, rank=-1, dedup_id=None)
    """

    group_id: str
    event: Any = field(repr=False)
    priority: int = 0
    delay: Seconds = 0
    rank: int = 0
    headers: Mapping[str, Header] | None = field(default=None, repr=False)
    dedup_id: str | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """A queue in figures, at one moment.

    Attributes:
        messages: all that are in the queue; dead letters are not.
        claimable: those that a claim would get now: the heads of groups that nothing holds back.
        in_work: those under a live lease.
        parked: those given back with a delay that has not ended (`nack(lease, delay)`); each holds its group.
        delayed: those not yet due, published with a delay or deferred.
        paused: groups that are paused; all of them while the whole queue is.
        dead: dead letters.
        groups: groups that have messages, or are paused.
        oldest_claimable_age: how long the claimable message that has waited longest has been due, in seconds; None
            when none is claimable.
        oldest_in_work_age: since when the longest work has been going on, in seconds; None when none is.
        queue_paused: whether the whole queue is paused.
    """

    messages: int
    claimable: int
    in_work: int
    parked: int
    delayed: int
    paused: int
    dead: int
    groups: int
    oldest_claimable_age: float | None
    oldest_in_work_age: float | None
    queue_paused: bool = False


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group as an operator sees it.

    Attributes:
        group_id: its name.
        state: "paused" (it, or the whole queue), else "in_work", "parked", "delayed" (its head is not yet due) or
            "claimable".
        until: when the lease, the parking or the delay ends, on the queue's clock; None when there is none.
        depth: how many messages it has.
        priority: 0 to 4.
        head_seq: the seq of its head; None when it has no message (a paused group may have none).
        head_attempts: how often its head was claimed.
        worker_id: who holds a live lease in it, else None.
        oldest_age: seconds since its head was published; None when there is none, or the plain transport published it.
    """

    group_id: str
    state: str
    until: float | None
    depth: int
    priority: int
    head_seq: int | None
    head_attempts: int
    worker_id: str | None
    oldest_age: float | None


@dataclass(frozen=True, slots=True)
class StoredMessage(Generic[T_co]):
    """A message as it stands in the queue, taken by nobody.

    Attributes:
        seq: its number; rises with each publish.
        group_id: its group.
        raw: the stored text of its event, byte for byte what was encoded.
        priority: its group's, 0 to 4.
        attempts: how often it was claimed.
        rank: its place in the group, smaller first.
        published_at: when it was published, in seconds since 1970 UTC on the queue's clock; None for a message of the
            plain transport.
        due_at: from when on it may be claimed, likewise.
    """

    seq: int
    group_id: str
    raw: str = field(repr=False)
    priority: int
    attempts: int
    rank: int
    published_at: float | None
    due_at: float
    _headers: str | None = field(default=None, repr=False, kw_only=True)
    _decode: Callable[[str], T_co] = field(default=orjson.loads, repr=False, compare=False, kw_only=True)
    _event: list[T_co] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def event(self) -> T_co:
        """The event, decoded at the first look.  Raises what the decoder raises, and then stays as it was."""
        if not self._event:
            self._event.append(self._decode(self.raw))
        return self._event[0]

    @property
    def headers(self) -> dict[str, Header]:
        """The headers of the message (dict, empty when it has none)."""
        found: dict[str, Header] = {} if self._headers is None else orjson.loads(self._headers)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        # A decoder need not be picklable; what it makes is.
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        if values.pop("_decode") is not orjson.loads:
            values["_event"] = [self.event]
        return _rebuild, (type(self), values)


@dataclass(frozen=True, slots=True)
class DeadLetter(StoredMessage[T_co]):
    """A message that was given up, as it stood in the queue.

    Attributes:
        reason: what `dead_letter` was told.
        error: the text of the exception that led to it, where a subscription gave it up; None of `dead_letter`.
        died_at: when, in seconds since 1970 UTC on the queue's clock.
    """

    reason: str | None
    error: str | None
    died_at: float


def _rebuild(kind: type[StoredMessage[Any]], values: dict[str, Any]) -> StoredMessage[Any]:
    made = kind.__new__(kind)
    for name, value in {"_decode": orjson.loads, **values}.items():
        object.__setattr__(made, name, value)
    return made
