"""One request on the user's own table: settlements and a claim become statements, its reply becomes rows."""

from __future__ import annotations

import random
import secrets
from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from .._core import Verdict
from ..address.inbox import Inbox
from ..errors import LeaseLost
from ..sql.inbox import DEAD, DONE, EXTEND, FREE, GIVE_BACK, LATER, PARK, InboxStatements, Own
from ..transport.posting import iso_of
from .inbox_row import Row, unquoted

DOING = {
    DONE: "ack",
    FREE: "retry",
    PARK: "retry",
    LATER: "retry",
    EXTEND: "extend",
    GIVE_BACK: "give back",
    DEAD: "bury",
}


@dataclass(slots=True, eq=False)
class Settlement:
    """What becomes of a row.

    Attributes:
        what: one of the numbers of sql.inbox.
        delay: seconds, of those that have a time.
        told: the reason and the text of an error, of a dead one.
        future: None: nobody waits.
        publish, with_statements: of an Ack, which then goes alone.
        lost: of an extension, whether the lease is.
    """

    row: Row
    what: int
    delay: float = 0.0
    told: tuple[str, str | None] = ("", None)
    future: Future[Any] | None = None
    publish: tuple[Any, ...] = ()
    with_statements: tuple[Any, ...] = ()
    lost: bool = False

    @property
    def alone(self) -> bool:
        """Whether it goes in a request of its own, that fails as a whole."""
        return bool(self.publish or self.with_statements)

    def fail(self, error: Exception) -> None:
        """It did not take effect, or that is not known."""
        self._end_extension()
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)

    def succeed(self, value: Any = None) -> None:
        """It took effect."""
        self._end_extension()
        if self.future is not None and not self.future.done():
            self.future.set_result(value)

    def _end_extension(self) -> None:
        if self.what == EXTEND:
            self.row.extending = False

    def lost_error(self, table: str) -> LeaseLost:
        """The error of a lease that was lost."""
        return LeaseLost(self.row.id, self.row.group_id, DOING[self.what], table)


@dataclass(slots=True)
class Answer:
    """What a request did.

    Attributes:
        lost: positions of settlements that were lost.
        rows: what was claimed, in the order of the claim.
    """

    lost: set[int] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)


class Program:
    """One request.

    Args:
        now: the queue's time, as estimated when it is made.
        clock: the same, later.
        dead: where dead letters go: a group, a table, or nowhere.
    """

    def __init__(
        self,
        inbox: Inbox,
        made: InboxStatements,
        columns: list[str],
        clock: Callable[[], float],
        dead: tuple[str | None, Inbox | None],
    ) -> None:
        self._inbox = inbox
        self._made = made
        self._columns = columns
        self._clock = clock
        self._now = clock()
        self._dead = dead
        self._ends: dict[int, float] = {}
        self._expiry = 0.0
        self._token: Any = None
        self.own: list[Own] = []
        self.settlements: list[Settlement] = []
        self._claims = False

    def _time(self, seconds: float, role: str) -> Any:
        return iso_of(seconds) if self._inbox.roles[role] in self._inbox.iso_text else seconds

    def _end(self, visibility: float) -> float:
        # No two leases end at one time: where there is no token, that is what proves them.
        return round(self._now + visibility, 6) + random.randrange(1000) / 1e6

    def settle(self, settlements: list[Settlement]) -> None:
        """Settle these, first in the request."""
        self.settlements = settlements
        locked = self._time(self._now, "locked_until")
        listed = []
        for place, one in enumerate(settlements):
            listed.append([one.row.id, one.row.token, one.what, *self._argument(place, one)])
        text = orjson.dumps(listed).decode()
        self._say("inbox_verdict", self._made.verdict, [text, locked])
        if len(settlements) == 1 and settlements[0].alone:
            self._say("guard", self._made.guard, [])
        for what in sorted({one.what for one in settlements}):
            if what == DEAD:
                steps = self._made.bury(*self._dead)
                group = orjson.dumps([self._dead[0]]).decode()
                steps = [(name, sql, [group] if name == "inbox_dead_group" else more) for name, sql, more in steps]
            else:
                now = self._time(self._now, "processed_at") if self._inbox.has("processed_at") else None
                steps = self._made.settle(what, now)
            for name, sql, more in steps:
                self._say(name, sql, [text, *more])

    def _argument(self, place: int, one: Settlement) -> list[Any]:
        if one.what == PARK:
            return [self._time(self._now + one.delay, "locked_until")]
        if one.what == LATER:
            return [self._time(self._now + one.delay, "retry_at")]
        if one.what == EXTEND:
            self._ends[place] = self._end(one.delay)
            return [self._time(self._ends[place], "locked_until")]
        return list(one.told) if one.what == DEAD else []

    def claim(self, limit: int, visibility: float, walk: str, worker_id: str) -> None:
        """Claim up to `limit` rows, after the settlements."""
        self._claims = True
        locked = self._time(self._now, "locked_until")
        self._expiry = self._end(visibility)
        end = self._time(self._expiry, "locked_until")
        self._token = f"~{worker_id}:{secrets.token_hex(8)}" if self._inbox.has("token") else end
        self._say("inbox_pick", self._made.pick, [locked, walk, limit])
        self._say("inbox_take", self._made.take, [end, self._token])

    def _say(self, name: str, text: str, parameters: list[Any]) -> None:
        # SQLite takes as many as the text names.
        named = max((place for place in range(1, 6) if f"?{place}" in text), default=1)
        self.own.append((name, text, parameters[: named - 1]))

    def verdict(self, table: str) -> Verdict:
        """What ends the request."""
        made = self._made
        lost = self.settlements[0].lost_error(table) if self.settlements else None
        if self._claims:
            return Verdict(made.outcome, made.again, [self._token], self._answer, lost)
        return Verdict(made.outcome_settled, made.again_settled, [], self._settled, lost)

    def _settled(self, text: Any) -> Answer:
        return Answer(self._judge(orjson.loads(text or "[]")))

    def _answer(self, text: Any) -> Answer:
        lost, turn, picked, rows = orjson.loads(text)
        order = {identity: place for place, identity in enumerate(picked or [])}
        found = []
        for values in rows or []:
            columns = dict(zip(self._columns, map(unquoted, values), strict=True))
            found.append(Row(self._inbox, columns, self._token, self._expiry, turn, self._clock))
        found.sort(key=lambda row: order.get(row.id, len(order)))
        return Answer(self._judge(lost or []), found)

    def _judge(self, lost: list[int]) -> set[int]:
        for place, end in self._ends.items():
            if place not in lost:
                row = self.settlements[place].row
                row.expires_at = end
                if not self._inbox.has("token"):
                    row.token = self._time(end, "locked_until")
        return set(lost)
