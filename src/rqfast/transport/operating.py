"""The operating calls, for both colours and all engines: checked arguments become calls of the core or questions to
the database, and its rows become results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from .._core import Operate, check_id, holder_of
from ..errors import InvalidMessage
from ..model import DeadLetter, GroupInfo, Stats, StoredMessage
from ..sql import Statements
from . import checks

R = TypeVar("R")

Rows = list[list[Any]]

PARKED = "__parked__"
STATES = ("claimable", "in_work", "parked", "delayed", "paused")
ORDERS = ("oldest", "depth", "attempts")
# The place of groups without a message where the oldest come first.
LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """Plain reads of one state of the database, and what becomes of their rows.

    Attributes:
        names: of the statements, for error messages.
        statements: `[text, *parameters]` each.
        answer: from the rows of each statement to what the caller gets.
    """

    names: list[str]
    statements: Rows
    answer: Callable[[list[Rows]], R]


def _nothing(count: int) -> None:
    return None


class Operating:
    """Makes the operating calls of one transport, each checked before it exists.

    Args:
        now: the queue's time, as estimated here.
        decode: from an event's text to what it holds.
    """

    def __init__(self, statements: Statements, now: Callable[[], float], decode: Callable[[str], Any]) -> None:
        self._statements = statements
        self._now = now
        self._decode = decode

    @property
    def statements(self) -> Statements:
        """The statements of the queue."""
        return self._statements

    @property
    def now(self) -> Callable[[], float]:
        """The queue's time, as estimated here (float)."""
        return self._now

    # -- writes -------------------------------------------------------------------------------------------

    def pause(self, group_id: Any) -> Operate:
        """Hold a group back, or the queue."""
        if group_id is None:
            return Operate("pause_queue", _nothing)
        return Operate("pause", _nothing, check_id(group_id, "group_id"))

    def resume(self, group_id: Any) -> Operate:
        """Let it go on."""
        if group_id is None:
            return Operate("resume_queue", _nothing)
        return Operate("resume", _nothing, check_id(group_id, "group_id"))

    def release(self, group_id: Any) -> Operate:
        """End a lease or a parking."""
        return Operate("release", bool, check_id(group_id, "group_id"))

    def delete(self, seq: Any) -> Operate:
        """Remove a message."""
        return Operate("delete", bool, seqs=[checks.integer(seq, "seq")])

    def purge(self, group_id: Any, everything: Any) -> Operate:
        """Remove what is not in work."""
        if not isinstance(everything, bool):
            raise TypeError(f"everything is a bool, not {type(everything).__name__}")
        if group_id is not None:
            if everything:
                raise InvalidMessage("purge of a group and of everything: which?", "everything")
            return Operate("purge", int, check_id(group_id, "group_id"))
        if not everything:
            raise InvalidMessage("purge without a group removes all messages: say everything=True", "everything")
        return Operate("purge_queue", int)

    def redrive(self, group_id: Any, seqs: Any, limit: Any) -> Operate:
        """Bring dead letters back."""
        group = None if group_id is None else check_id(group_id, "group_id")
        most = None if limit is None else checks.at_least_one(limit, "limit")
        if seqs is not None:
            return Operate("redrive_seqs", int, group, checks.seqs(seqs), most)
        return Operate("redrive" if group is None else "redrive_group", int, group, limit=most)

    def drop_dead_letters(self, seqs: Any) -> Operate:
        """Remove dead letters."""
        return Operate("drop", int, seqs=checks.seqs(seqs))

    # -- reads --------------------------------------------------------------------------------------------

    def _question(self, answer: Callable[[list[Rows]], R], *reads: list[Any]) -> Question[R]:
        """The question of these reads: a statement's name and its parameters, each."""
        texts = self._statements.operate
        return Question([read[0] for read in reads], [[texts[read[0]], *read[1:]] for read in reads], answer)

    def stats(self) -> Question[Stats]:
        """The queue in figures."""
        now = self._now()
        names = ("stats_messages", "stats_held", "stats_claimable")
        return self._question(_stats, *([name, now] for name in names), ["stats_groups"])

    def groups(self, state: Any, order: Any, limit: Any, after: Any) -> Question[list[GroupInfo]]:
        """A page of groups."""
        if state is not None:
            checks.one_of(state, STATES, "state")
        checks.one_of(order, ORDERS, "order")
        key, name = None, None
        if isinstance(after, GroupInfo):
            key, name = _place(after, order), after.group_id
        elif after is not None:
            name = check_id(after, "after")
        page = [f"groups_{order}", self._now(), state, key, _listed(name), checks.page(limit)]
        if name is None or key is not None:
            return self._question(lambda rows: [_group(row) for row in rows[0]], page)

        def answer(rows: list[Rows]) -> list[GroupInfo]:
            if not rows[1][0][0]:
                raise InvalidMessage(f"after={name!r}: that group has gone; pass the GroupInfo instead", "after")
            return [_group(row) for row in rows[0]]

        return self._question(answer, page, ["group_there", _listed(name)])

    def queues(self) -> Question[list[str]]:
        """The queues of the database."""
        text = self._statements.opening["registry_read"]
        return Question(["registry_read"], [[text]], lambda rows: [str(row[0]) for row in rows[0]])

    def peek(self, group_id: Any, limit: Any) -> Question[list[StoredMessage[Any]]]:
        """The first messages of a group."""
        page = ["peek", _listed(check_id(group_id, "group_id")), checks.page(limit)]
        return self._question(lambda rows: [StoredMessage(**self._stored(row)) for row in rows[0]], page)

    def dead_letters(self, group_id: Any, limit: Any, after: Any) -> Question[list[DeadLetter[Any]]]:
        """A page of dead letters."""
        group = None if group_id is None else check_id(group_id, "group_id")
        page = [
            "dead_all" if group is None else "dead_group",
            _listed(group),
            checks.integer(after, "after"),
            checks.page(limit),
        ]

        def answer(rows: list[Rows]) -> list[DeadLetter[Any]]:
            return [
                DeadLetter(**self._stored(row), reason=row[9], error=row[10], died_at=float(row[11])) for row in rows[0]
            ]

        return self._question(answer, page)

    def _stored(self, row: list[Any]) -> dict[str, Any]:
        seq, group_id, raw, attempts, rank, headers, published_at, due, priority = row[:9]
        return {
            "seq": seq,
            "group_id": group_id,
            "raw": raw,
            "priority": priority or 0,
            "attempts": attempts,
            "rank": rank,
            "published_at": None if published_at is None else float(published_at),
            "due_at": float(due),
            "_headers": headers,
            "_decode": self._decode,
        }


def _listed(name: str | None) -> str | None:
    """A name as it is bound: the server takes some bare texts for blobs."""
    return None if name is None else orjson.dumps([name]).decode()


def _stats(rows: list[Rows]) -> Stats:
    (messages, delayed, now, dead), (in_work, since, parked) = rows[0][0], rows[1][0]
    (claimable, due), (groups, paused, queue_paused) = rows[2][0], rows[3][0]
    return Stats(
        messages=messages,
        claimable=claimable,
        in_work=in_work,
        parked=parked,
        delayed=delayed,
        paused=groups if queue_paused else paused,
        dead=dead,
        groups=groups,
        oldest_claimable_age=_age(now, due),
        oldest_in_work_age=_age(now, since),
        queue_paused=bool(queue_paused),
    )


def _age(now: float, since: float | None) -> float | None:
    return None if since is None else max(0.0, float(now - since))


def _group(row: list[Any]) -> GroupInfo:
    group_id, state, priority, depth, seq, attempts, published_at, due, token, held_until, now = row
    held = held_until is not None and held_until >= now
    until = held_until if held else due if state == "delayed" else None
    return GroupInfo(
        group_id=group_id,
        state=state,
        until=None if until is None else float(until),
        depth=depth,
        priority=priority,
        head_seq=seq,
        head_attempts=attempts or 0,
        worker_id=holder_of(token) if held and token != PARKED else None,
        oldest_age=_age(now, published_at),
    )


def _place(group: GroupInfo, order: str) -> int:
    """Where a group stands in this order: the key of the statements."""
    if order == "oldest":
        return LAST if group.head_seq is None else group.head_seq
    return -group.depth if order == "depth" else -group.head_attempts
