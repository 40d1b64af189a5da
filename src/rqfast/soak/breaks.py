"""Clients that are broken on purpose: each must make a soak fail, by the rule in its name.

The variable RQFAST_SOAK_BREAK names one; only the processes of a soak read it, never the library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import ConfigError, LeaseLost, Unavailable
from ..model import Message

VARIABLE = "RQFAST_SOAK_BREAK"
EVERY = 5
NO_SEQ = 1 << 40


class Broken:
    """A transport that does all that the other does; derived classes do something wrong.

    Args:
        transport: the other.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _now(self) -> bool:
        """Whether it is time to do something wrong."""
        self._count += 1
        return self._count % EVERY == 0


class DropPublish(Broken):
    """Tells that a message is in, and has not sent it."""

    def publish(self, group_id: str, event: Any, **options: Any) -> int:
        if self._now():
            return NO_SEQ + self._count
        return int(self._transport.publish(group_id, event, **options))


class PublishTwice(Broken):
    """Publishes once more to be sure."""

    def publish(self, group_id: str, event: Any, **options: Any) -> int:
        options["dedup_id"] = None
        self._transport.publish(group_id, event, **options)
        return int(self._transport.publish(group_id, event, **options))


class PublishRefused(Broken):
    """Tells that nothing was applied, when it was."""

    def publish(self, group_id: str, event: Any, **options: Any) -> int:
        seq = self._transport.publish(group_id, event, **options)
        if self._now():
            raise Unavailable(f"message {seq} is in, and this says it is not")
        return int(seq)


class ChangeEvent(Broken):
    """Publishes another text."""

    def publish(self, group_id: str, event: Any, **options: Any) -> int:
        if self._now():
            event = {**event, "text": event["text"] + "!"}
        return int(self._transport.publish(group_id, event, **options))


class JumpQueue(Broken):
    """Publishes some ahead of those before."""

    def publish_many(self, messages: Iterable[Message]) -> Sequence[int]:
        changed = [replace(message, rank=-1 if self._now() else 0) for message in messages]
        seqs: Sequence[int] = self._transport.publish_many(changed)
        return seqs


class DropAck(Broken):
    """Tells that messages are done, and has not sent it."""

    def ack_many(self, leases: Sequence[Any]) -> list[Any]:
        lost: list[Any] = self._transport.ack_many(leases[1:])
        return lost


class AckTwice(Broken):
    """Tells that a message is done, though the lease was lost and another does it too."""

    def ack_many(self, leases: Sequence[Any]) -> list[Any]:
        self._transport.ack_many(leases)
        return []

    def ack(self, lease: Any) -> None:
        with suppress(LeaseLost):
            self._transport.ack(lease)


class ReleaseLease(Broken):
    """Ends a lease at once, and does not tell its holder."""

    def claim_many(self, *arguments: Any, **options: Any) -> list[Any]:
        leases: list[Any] = self._transport.claim_many(*arguments, **options)
        if leases and self._now():
            self._transport.release(leases[-1].group_id)
        return leases


class ShareLease(Broken):
    """Ends a lease, claims the message anew, and tells of both."""

    def claim_many(self, *arguments: Any, **options: Any) -> list[Any]:
        leases: list[Any] = self._transport.claim_many(*arguments, **options)
        if leases and self._now():
            self._transport.release(leases[-1].group_id)
            leases = [*leases, *self._transport.claim_many(*arguments, **{**options, "ack": ()})]
        return leases


class HideClaim(Broken):
    """Claims more than it tells, and gives it back."""

    def claim_many(self, *arguments: Any, **options: Any) -> list[Any]:
        leases: list[Any] = self._transport.claim_many(*arguments, **options)
        self._transport.nack_many(self._transport.claim_many("hidden", 5, 64))
        return leases


class LeaveBehind(Broken):
    """Gives back for a day what it should acknowledge."""

    def ack(self, lease: Any) -> None:
        self._transport.nack(lease, 86_400)


class BuryDone(Broken):
    """Makes dead letters of some that it should acknowledge, where nobody looks."""

    def ack(self, lease: Any) -> None:
        self._transport.dead_letter(lease, "out of sight")


class Stray(Broken):
    """Publishes what nobody wrote down, where it is never claimed."""

    def publish(self, group_id: str, event: Any, **options: Any) -> int:
        if self._now():
            self._transport.pause("stray")
            self._transport.publish("stray", event)
        return int(self._transport.publish(group_id, event, **options))


BREAKS: dict[str, Callable[[Any], Any]] = {
    "drop-publish": DropPublish,
    "publish-twice": PublishTwice,
    "publish-refused": PublishRefused,
    "change-event": ChangeEvent,
    "jump-queue": JumpQueue,
    "drop-ack": DropAck,
    "ack-twice": AckTwice,
    "release-lease": ReleaseLease,
    "share-lease": ShareLease,
    "hide-claim": HideClaim,
    "leave-behind": LeaveBehind,
    "bury-done": BuryDone,
    "stray": Stray,
}


def as_broken(transport: Any) -> Any:
    """The transport, broken as the variable says; as it is without one.

    Raises:
        ConfigError: there is no such break.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return transport
    if name not in BREAKS:
        raise ConfigError(f"{VARIABLE}={name}: one of {', '.join(BREAKS)}")
    return BREAKS[name](transport)
