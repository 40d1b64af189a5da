"""What a test asks of the queue, as values that print well: a counter-example is a list of these."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

GROUPS: Final = ("a", "b", "ab", "d'x", "a\u00e9", "f")
PRIORITIES: Final = (0, 0, 1, 2, 3, 4)
MIN_PRIORITIES: Final = (0, 0, 0, 2, 1, 3, 4)
DEDUP_IDS: Final = ("id-1", "id-2", "id-3")
VISIBILITIES: Final = (30.0, 5.0, 1.0)
LIMITS: Final = (1, 1, 2, 10)
WORKERS: Final = ("w1", "w2")
# How far the clock of a client may be behind that of the others.
BEHIND: Final = (0.0, 0.0, 0.0, 5.0, 3600.0)
PAUSES: Final = (0.0, 0.0, 0.0, 0.25, 1.0, 3.0, 10.0, 60.0)

ANSWERED: Final = "answered"
REPLY_LOST: Final = "reply lost"
GIVEN_UP: Final = "given up"
# The process dies between two statements, and the request is sent again by another.
CRASHED: Final = "crashed"
FATES: Final = (ANSWERED, ANSWERED, ANSWERED, REPLY_LOST, ANSWERED, CRASHED, GIVEN_UP)


class Short:
    """Prints only what is not usual."""

    def __repr__(self) -> str:
        own = [
            (one.name, getattr(self, one.name))
            for one in fields(self)  # type: ignore[arg-type]
            if getattr(self, one.name) != one.default
        ]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in own)})"


@dataclass(frozen=True, repr=False)
class Pub(Short):
    """Publish a message; the event is a number of its own."""

    group: str = "a"
    priority: int = 0
    rank: int = 0
    delay: float = 0.0
    dedup: str | None = None
    headers: str | None = None


@dataclass(frozen=True, repr=False)
class Done(Short):
    """Settle a lease: `lease` counts those in hand from the newest (0); -1 is the one that was settled last.

    With a `count` it is one call for that lease and those that are older.
    """

    lease: int = 0
    how: str = "ack"
    argument: float | str = 0.0
    count: int = 1


@dataclass(frozen=True, repr=False)
class Only(Short):
    """Which groups a claim is for: these, those with a prefix, or all."""

    groups: tuple[str, ...] | None = None
    prefix: str | None = None

    def includes(self, group: str) -> bool:
        """Whether this group is one of them."""
        return group in self.groups if self.groups is not None else group.startswith(self.prefix or "")


EVERY: Final = Only()


@dataclass(frozen=True, repr=False)
class Bound(Short):
    """Acknowledge a lease, or several, and in the same commit publish messages and run a statement of the user's.

    With a `count` of 0 it is the publish of one message that brings a statement.
    """

    lease: int = 0
    count: int = 1
    publish: tuple[Pub, ...] = ()
    writes: bool = False


@dataclass(frozen=True, repr=False)
class Take(Short):
    """Claim, or claim a run; with `ack`, which counts as `Done.lease` does, in one commit with an acknowledgement."""

    limit: int = 1
    visibility: float = 30.0
    min_priority: int = 0
    worker: str = "w1"
    ack: int | None = None
    run: bool = False
    only: Only = EVERY


@dataclass(frozen=True, repr=False)
class Op(Short):
    """Operate; `pick` chooses among the messages, or dead letters, that there are (from there on, where it takes some).

    `step` is how many go in one commit: here few, so that there are steps.
    """

    kind: str = "pause"
    group: str = "a"
    pick: int = 0
    limit: int | None = None
    step: int = 2


Plan = Pub | Done | Bound | Take | Op


@dataclass(frozen=True, repr=False)
class Send(Short):
    """Make the calls on this client: what becomes of the replies, how far its clock is behind, and when."""

    client: str = "A"
    fate: str = ANSWERED
    behind: float = 0.0
    tidy: int | None = None
    after: float = 0.0


OPERATIONS: Final = (
    Op("pause"),
    Op("resume"),
    Op("resume"),
    Op("pause_queue"),
    Op("resume_queue"),
    Op("resume_queue"),
    Op("resume_queue"),
    Op("release"),
    Op("release"),
    Op("delete", pick=0),
    Op("delete", pick=2),
    Op("purge", step=1),
    Op("purge"),
    Op("purge_queue"),
    Op("redrive"),
    Op("redrive", limit=3),
    Op("redrive_group", step=1),
    Op("redrive_seqs", pick=1),
    Op("redrive_seqs", pick=0, limit=1),
    Op("drop", pick=3),
)

# How far the clock of an old worker may be ahead, and what it does with its message.
AHEAD: Final = (0.0, 0.0, 0.0, 7200.0)
PLAIN_SETTLEMENTS: Final[tuple[tuple[str, float], ...]] = (
    ("ack", 0.0),
    ("ack", 0.0),
    ("nack", 0.0),
    ("park", 1.0),
    ("park", 20.0),
)

# (rank, delay, headers): most messages are plain ones.
EXTRAS: Final[tuple[tuple[int, float, str | None], ...]] = (
    (0, 0.0, None),
    (0, 0.0, None),
    (0, 0.0, None),
    (0, 0.0, '{"h":1}'),
    (1, 0.0, None),
    (0, 2.0, None),
    (0, 30.0, None),
    (-1, 0.0, None),
    (-1, 0.0, None),
    (-1, 30.0, None),
    (-1, 2.0, None),
)
SETTLEMENTS: Final[tuple[tuple[str, float | str], ...]] = (
    ("ack", 0.0),
    ("ack", 0.0),
    ("ack", 0.0),
    ("nack", 0.0),
    ("park", 1.0),
    ("park", 5.0),
    ("park", 60.0),
    ("defer", 0.0),
    ("defer", 5.0),
    ("defer", 60.0),
    ("extend", 1.0),
    ("extend", 30.0),
    ("extend", 30.0),
    ("dead", "it cannot be done"),
    ("give back", 0.0),
)
# For histories full of what is rare: leases that lapse, and are extended or put off late.
RARE_EXTRAS: Final = EXTRAS[-6:]
RARE_SETTLEMENTS: Final[tuple[tuple[str, float | str], ...]] = (
    ("extend", 1.0),
    ("extend", 30.0),
    ("ack", 0.0),
    ("defer", 5.0),
)

# How many leases one call settles.
COUNTS: Final = (1, 1, 1, 3, 8)

# Which lease: the newest ones first, and sometimes one that is spent.
WHICH: Final = (0, 0, 1, 2, 3, 5, -1, -1, -3)

# Of which groups a claim may be.
SOME: Final = (Only(("a",)), Only(("b", "ab", "none")), Only(prefix="a"), Only(prefix="d'"), Only(("f", "a", "d'x")))
