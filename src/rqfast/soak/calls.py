"""What was called, with what, and what was told: the records of a history.

Times are nanoseconds of one monotonic clock that all processes of the history share (`time.monotonic_ns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SECOND = 1_000_000_000

DONE, LOST, REFUSED, UNKNOWN = "done", "lost", "refused", "unknown"
"""What a caller was told: it is done; the lease was lost, nothing was changed; nothing was applied; it cannot be told
(`OutcomeUnknown`, or the process was killed in the call)."""

CLAIMS = ("claim", "claim_many")
PUBLISHES = ("publish", "publish_many")


class Sent(NamedTuple):
    """A message in a publish.

    Attributes:
        id: its name in the history.
        group: its group.
        told: what the publisher was told of it.
        seq: the seq that it was told, None: none.
        delay: seconds until it was to be due.
        trial: which publish of this message it was (1, 2, ..); the second and later ones have the same dedup id.
    """

    id: str
    group: str
    told: str
    seq: int | None = None
    delay: float = 0.0
    trial: int = 1


class Held(NamedTuple):
    """A lease that a claim returned.

    Attributes:
        seq, group, id: the message, as the worker got it.
        attempts: its count of claims, as the worker got it.
        fence: the lease's fence.
        trial: which publish of the message it came from.
        intact: whether the message was as it was published.
    """

    seq: int
    group: str
    id: str
    attempts: int
    fence: int
    trial: int = 1
    intact: bool = True


class Settled(NamedTuple):
    """A lease in a settlement.

    Attributes:
        claim: the number of the claim, of the same process, that returned it.
        seq: its message.
        told: what the worker was told.
    """

    claim: int
    seq: int
    told: str


@dataclass(frozen=True, slots=True)
class Totals:
    """`stats()` as it was told."""

    messages: int
    dead: int
    groups: int
    in_work: int


@dataclass(slots=True)
class Call:
    """One call of one process.

    Attributes:
        who: the process.
        n: its number in the process, from 1.
        name: the method; "left" and "dead" are the lists of what is in the queue and among its dead letters at the end.
        begun, ended: when (ns); ended None: the process was killed in it.
        told: what the caller was told of the whole.
        sent: messages of a publish.
        held: leases that a claim returned, messages of a list.
        settled: leases that it settles; of a claim those of `ack=`.
        seconds: visibility of a claim or an extend, delay of a nack or a defer.
        limit: leases that a claim asked for.
        count: what a redrive returned.
        totals: what stats returned.
    """

    who: str
    n: int
    name: str
    begun: int
    ended: int | None
    told: str
    sent: Sequence[Sent] = ()
    held: Sequence[Held] = ()
    settled: Sequence[Settled] = ()
    seconds: float = 0.0
    limit: int = 0
    count: int = 0
    totals: Totals | None = None

    @property
    def how(self) -> str:
        """How its leases are settled: ack, nack, defer, extend, dead_letter (str)."""
        return "ack" if self.name in CLAIMS else self.name.removesuffix("_many")

    @property
    def is_claim(self) -> bool:
        """Whether it is a claim."""
        return self.name in CLAIMS

    def __str__(self) -> str:
        took = "killed in it" if self.ended is None else f"{(self.ended - self.begun) / SECOND:.3f} s, {self.told}"
        return f"{self.who} call {self.n}: {self.name} at {self.begun / SECOND:.3f} ({took})"
