"""Makes calls of a transport and writes each down: that it begins, and what it was told."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from .._core import Lease
from ..api import Transport
from ..demo.journal import Journal
from ..errors import LeaseLost, OutcomeUnknown, PublishIncomplete, RqfastError, Unavailable
from ..model import DeadLetter, Message, StoredMessage
from .calls import DONE, LOST, REFUSED, UNKNOWN

T = TypeVar("T")
Fields = dict[str, Any]


class Taken(NamedTuple):
    """A lease, and the number of the claim that returned it."""

    lease: Lease[Any]
    claim: int


class Item(NamedTuple):
    """A message to publish, with its name in the history."""

    id: str
    group: str
    delay: float


class Recorder:
    """The calls of one process.

    What a call is told is an answer, not an error: `LeaseLost`, `Unavailable` and `OutcomeUnknown` are written down.
    All else is raised.

    Args:
        who: the process.
        transport: the queue.
        journal: where it is written down.
    """

    def __init__(self, who: str, transport: Transport[Any], journal: Journal) -> None:
        self.who = who
        self._transport = transport
        self._journal = journal
        self._n = 0

    def publish(self, item: Item, trial: int, *, dedup: bool) -> str:
        """Publish one message; what was told (str)."""
        message = as_message(item, trial, dedup=dedup)
        told, _ = self._call(
            "publish",
            lambda: self._transport.publish(
                message.group_id,
                message.event,
                delay=message.delay,
                headers=message.headers,
                dedup_id=message.dedup_id,
            ),
            {"sends": [tuple(item)], "trial": trial},
            lambda seq: {"seqs": [seq]},
        )
        return told

    def publish_many(self, items: Sequence[Item], trial: int, *, dedup: bool) -> tuple[str, int]:
        """Publish messages; what was told of those that are not certainly in, and how many are."""
        messages = [as_message(item, trial, dedup=dedup) for item in items]
        told, seqs = self._call(
            "publish_many",
            lambda: self._transport.publish_many(messages),
            {"sends": [tuple(item) for item in items], "trial": trial},
            told_seqs,
        )
        return told, len(seqs or ())

    def claim(self, visibility: float, ack: Taken | None) -> tuple[str, list[Taken]]:
        """Claim one message; what was told, and the lease."""
        told, lease = self._claim(
            "claim",
            lambda: self._transport.claim(self.who, visibility, wait=0.1, ack=None if ack is None else ack.lease),
            {"seconds": visibility, "limit": 1, "settles": numbered([] if ack is None else [ack])},
            lambda lease: [] if lease is None else [lease],
        )
        return told, lease

    def claim_many(self, visibility: float, limit: int, ack: Sequence[Taken]) -> tuple[str, list[Taken]]:
        """Claim messages; what was told, and the leases."""
        return self._claim(
            "claim_many",
            lambda: self._transport.claim_many(
                self.who, visibility, limit, wait=0.1, ack=[taken.lease for taken in ack]
            ),
            {"seconds": visibility, "limit": limit, "settles": numbered(ack)},
            list,
        )

    def settle(self, how: str, taken: Taken, *arguments: Any) -> str:
        """ack, nack, defer, extend or dead_letter one; what was told (str)."""
        method = getattr(self._transport, how)
        fields: Fields = {"settles": numbered([taken]), "seconds": _seconds(arguments)}
        return self._call(how, lambda: method(taken.lease, *arguments), fields, lambda _: {})[0]

    def settle_many(self, how: str, taken: Sequence[Taken], *arguments: Any) -> str:
        """The same of many; what was told of the call (str)."""
        method = getattr(self._transport, f"{how}_many")
        fields: Fields = {"settles": numbered(taken), "seconds": _seconds(arguments)}
        return self._call(
            f"{how}_many",
            lambda: method([one.lease for one in taken], *arguments),
            fields,
            lambda lost: {"but": {str(lease.seq): LOST for lease in lost}},
        )[0]

    def redrive(self, seqs: Sequence[int] | None = None) -> int | None:
        """Bring back dead letters; how many they were, None: that was not told."""
        _, count = self._call("redrive", lambda: self._transport.redrive(seqs=seqs), {}, lambda count: {"count": count})
        return None if count is None else int(count)

    def stats(self) -> Any:
        """See the figures, None: they were not told."""
        return self._call("stats", self._transport.stats, {}, lambda stats: {"totals": totals(stats)})[1]

    def listed(self, name: str, look: Callable[[Transport[Any]], Sequence[StoredMessage[Any]]]) -> bool:
        """Write down a list of messages, as `name` ("left" or "dead"); whether it was told."""
        told, _ = self._call(
            name, lambda: look(self._transport), {}, lambda found: {"held": [as_held(one) for one in found]}
        )
        return told == DONE

    def _claim(
        self, name: str, act: Callable[[], T], fields: Fields, leases: Callable[[T], list[Lease[Any]]]
    ) -> tuple[str, list[Taken]]:
        def answer(found: T) -> Fields:
            return {"held": [as_held(lease, lease.fence) for lease in leases(found)]}

        told, found = self._call(name, act, fields, answer)
        return told, [] if found is None else [Taken(lease, self._n) for lease in leases(found)]

    def _call(self, name: str, act: Callable[[], T], fields: Fields, answer: Callable[[T], Fields]) -> tuple[str, Any]:
        self._n += 1
        begun = time.monotonic_ns()
        self._journal.write([{"n": self._n, "call": name, "at": begun, **fields}])
        try:
            result = act()
        except (LeaseLost, Unavailable, OutcomeUnknown, PublishIncomplete) as error:
            ended = time.monotonic_ns()
            told, more = answer_of(error, fields)
            self._journal.write([{"n": self._n, "at": ended, "told": told, **more}])
            return told, more.get("seqs")
        ended = time.monotonic_ns()
        self._journal.write([{"n": self._n, "at": ended, "told": DONE, **answer(result)}])
        return DONE, result


def told_seqs(seqs: Iterable[int]) -> Fields:
    """Seqs as they are written down."""
    return {"seqs": list(seqs)}


def answer_of(error: RqfastError, fields: Fields) -> tuple[str, Fields]:
    """What an error tells: of the whole, and what more to write down.

    Raises:
        RqfastError: a publish_many that stopped for another reason than the cluster.
    """
    if isinstance(error, PublishIncomplete):
        if not isinstance(error.__cause__, Unavailable | OutcomeUnknown):
            raise error
        rest = UNKNOWN if error.unknown else REFUSED
        return rest, {"seqs": list(error.seqs), "rest": rest}
    if isinstance(error, LeaseLost):
        # Of several acknowledgements one was refused: the others may have been accepted.
        settles = fields["settles"]
        but = {str(seq): LOST if seq == error.seq else UNKNOWN for _, seq in settles}
        return LOST, {"but": but}
    return REFUSED if isinstance(error, Unavailable) else UNKNOWN, {}


def as_message(item: Item, trial: int, *, dedup: bool) -> Message:
    """The message of an item: its name, a filler, and a check sum over both."""
    text = "x" * (zlib.crc32(item.id.encode()) % 64)
    event = {"id": item.id, "text": text, "sum": check_sum(item.id, text)}
    dedup_id = item.id if dedup else None
    return Message(item.group, event, delay=item.delay, headers={"trial": trial}, dedup_id=dedup_id)


def as_held(found: Lease[Any] | StoredMessage[Any], fence: int = 0) -> list[Any]:
    """A message as it is written down."""
    event = found.event if isinstance(found.event, dict) else {}
    name, text = str(event.get("id", "")), str(event.get("text", ""))
    intact = event.get("sum") == check_sum(name, text)
    return [found.seq, found.group_id, name, found.attempts, fence, found.headers.get("trial", 0), intact]


def check_sum(name: str, text: str) -> int:
    """CRC-32 of a message's name and text."""
    return zlib.crc32(f"{name} {text}".encode())


def numbered(taken: Sequence[Taken]) -> list[tuple[int, int]]:
    """Leases as they are written down: claim and seq."""
    return [(one.claim, one.lease.seq) for one in taken]


def totals(stats: Any) -> Fields:
    """The figures that are checked."""
    return {name: getattr(stats, name) for name in ("messages", "dead", "groups", "in_work")}


def list_left(transport: Transport[Any]) -> list[StoredMessage[Any]]:
    """What is in the queue, up to 10,000 groups."""
    return [one for group in transport.groups(limit=10_000) for one in transport.peek(group.group_id, 10_000)]


def list_dead(transport: Transport[Any]) -> list[DeadLetter[Any]]:
    """Its dead letters, up to 10,000."""
    return transport.dead_letters(limit=10_000)


def _seconds(arguments: Sequence[Any]) -> float:
    return float(arguments[0]) if arguments and isinstance(arguments[0], int | float) else 0.0
