"""A table of the user's own as a source of messages: one request at a time, settlements and claims together."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Any

from .._core import ClaimFuture
from ..address.inbox import Address, Inbox, as_address
from ..errors import Closed, LeaseLost, RqfastError
from ..pipeline import wake
from ..sql.inbox import EXTEND, GIVE_BACK, LATER, PARK
from ..transport.awaitable import AwaitableTransport
from ..transport.tables import table_key
from .inbox_dead_letters import dead_letters_of
from .inbox_outcomes import RowOutcomes
from .inbox_program import Answer, Program, Settlement
from .inbox_row import Row
from .inbox_settlements import Settlements
from .inbox_table import InboxTable
from .inbox_waiting import Waiting, Wish
from .inbox_walk import Walk
from .outcomes import Outcome

log: logging.Logger = logging.getLogger("rqfast")

MAX_ROWS = 1000


class InboxFeed:
    """Claims rows of a table and settles them; see `Feed`.

    Args:
        source: an Inbox, or some of its groups.
        worker_id: part of the token, for people.
        visibility: how long a lease lasts, in seconds.
        dead_letter: another group of the table (str), an Inbox with the same columns, or None.
        max_poll: the longest pause between two looks, in seconds.

    Raises:
        ConfigError: where dead letters go.
    """

    def __init__(
        self,
        source: Inbox | Address,
        transport: AwaitableTransport[Any],
        *,
        worker_id: str,
        visibility: float,
        dead_letter: Any = None,
        max_poll: float = 0.5,
    ) -> None:
        self._address = as_address(source)
        self._inbox = self._address.inbox
        self._transport = transport
        self._desk = transport.desk
        self._worker_id = worker_id
        self._visibility = visibility
        self._dead_letter = dead_letter
        self._dead = dead_letters_of(self._address, dead_letter)
        self._max_poll = max_poll
        self._table = InboxTable(self._address, self._desk, self._dead)
        self._walk = Walk(self._address, self._desk, self._table, self._dead[0])
        self._outcomes = RowOutcomes(self._inbox, self._dead)
        self._settlements = Settlements(self._inbox, self._schedule)
        self._waiting = Waiting(
            self._desk,
            self._inbox.table,
            max_poll=max_poll,
            busy=lambda: self._busy,
            finds=self._walk.finds,
            go=self._go,
            fail=self._fail,
        )
        self._wishes: deque[Wish] = deque()
        self._more = False
        self._busy: asyncio.Task[None] | None = None
        self._scheduled = False
        self._closed = False
        wake.register(table_key(self._desk.key, self._inbox.table), self._waiting.stir)

    # -- at the start -------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Look at the table: its columns, its indexes, and whether each statement can be prepared.

        Raises:
            SchemaError: the table or a column is missing; it names both.
        """
        await self._table.check()

    # -- calls --------------------------------------------------------------------------------------------

    def claim(self, limit: int) -> Future[list[Row]]:
        """Claim up to `limit` rows, of different groups where these are in order or exclusive; waits until one comes.

        Cancelled, also after they came, it gives them back.
        """
        return self._wish(limit, True)

    def claim_next(self, limit: int) -> Future[list[Row]]:
        """The same without waiting, in one request with what is settled in the same turn of the loop."""
        return self._wish(limit, False)

    def _wish(self, limit: int, waits: bool) -> Future[list[Row]]:
        inner: Future[list[Row]] = asyncio.get_running_loop().create_future()
        take_back: Any = self._take_back
        claimed: Any = ClaimFuture(inner, take_back)
        wish = Wish(min(limit, MAX_ROWS), inner, claimed, waits)
        inner.add_done_callback(self._waiting.left)
        if self._closed:
            wish.fail(Closed("this subscription was closed"))
        elif waits and not self._more:
            self._waiting.add(wish)
        else:
            self._wishes.append(wish)
            self._schedule()
        return claimed  # type: ignore[no-any-return]

    def settle(self, held: Row, outcome: Outcome) -> Future[None]:
        """Let an outcome take effect.

        Raises:
            LeaseLost: nothing was changed.
            StatementError: one of the statements of an `Ack` failed; nothing was changed.
        """
        return self._settlements.add(self._outcomes.settlement(held, outcome))

    def bury(self, held: Row, reason: str, error: str | None) -> Future[None]:
        """To where dead letters go; without such a place the row is dropped, and logged."""
        return self._settlements.add(self._outcomes.buried(held, reason, error))

    def give_back(self, held: Row) -> Future[None]:
        """Put it back at its place, with no attempt spent."""
        return self._settlements.add(Settlement(held, GIVE_BACK))

    def extend(self, held: Sequence[Row], visibility: float) -> Future[list[Row]]:
        """Let all their leases end `visibility` seconds from now; returns those that were lost."""
        return self._settlements.extend(held, visibility)

    async def quiet(self) -> None:
        """Wait until nothing is on its way, so that what came for nobody has been given back."""
        # Rows that were not taken come back by the loop.
        await asyncio.sleep(0)
        while not self._closed and (self._busy is not None or self._scheduled or self._settlements):
            if self._busy is not None:
                await asyncio.wait((self._busy,))
            else:
                await asyncio.sleep(0)

    def twin(self, transport: AwaitableTransport[Any]) -> InboxFeed:
        """The same over another transport, on another loop."""
        twin = InboxFeed(
            self._address,
            transport,
            worker_id=self._worker_id,
            visibility=self._visibility,
            dead_letter=self._dead_letter,
            max_poll=self._max_poll,
        )
        twin._table.known = self._table.known
        return twin

    # -- requests -----------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled and self._busy is None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _go(self, wishes: list[Wish]) -> None:
        """These have waited, and there is something now."""
        self._wishes.extend(wishes)
        self._pump()

    def _pump(self) -> None:
        self._scheduled = False
        if self._busy is not None or self._closed:
            return
        settlements = self._settlements.next()
        wishes: list[Wish] = []
        if not (settlements and settlements[0].alone):
            wishes = self._next_wishes(bool(settlements))
        if settlements or wishes:
            self._busy = asyncio.create_task(
                self._carry(settlements, wishes), name=f"rqfast: table {self._inbox.table}"
            )

    def _next_wishes(self, rides: bool) -> list[Wish]:
        """Those that go now: all that were made for this request, and those that wait where that costs nothing."""
        found: list[Wish] = []
        room = MAX_ROWS
        for queue in (self._wishes, self._waiting.wishes) if rides or self._more else (self._wishes,):
            while queue and room > 0:
                wish = queue.popleft()
                if not wish.inner.done():
                    room -= wish.limit
                    found.append(wish)
        return found

    async def _carry(self, settlements: list[Settlement], wishes: list[Wish]) -> None:
        try:
            # What finds nothing writes nothing, unless it goes with something.
            goes = bool(settlements) or self._more or await self._walk.finds()
            answer = await self._send(settlements, wishes) if goes else Answer()
        except BaseException as error:
            self._fail(error, wishes, settlements)
            if not isinstance(error, Exception):
                raise
        else:
            self._told(settlements, answer)
            if wishes:
                self._hand_out(wishes, answer.rows)
        finally:
            self._busy = None
            if not self._closed:
                self._pump()

    def _fail(self, error: BaseException, wishes: list[Wish], settlements: Sequence[Settlement] = ()) -> None:
        if isinstance(error, LeaseLost) or not isinstance(error, Exception):
            told: Exception = error if isinstance(error, Exception) else Closed("this subscription was closed")
        elif isinstance(error, RqfastError):
            told = error
        else:
            log.error("a request on table %s failed in an unexpected way", self._inbox.table, exc_info=error)
            told = RqfastError(f"a request on table {self._inbox.table} failed in an unexpected way: {error!r}")
        for one in settlements:
            # Nothing is known of the lease: another settlement may still be tried.
            if one.what != EXTEND:
                one.row.settled = isinstance(told, LeaseLost)
            one.fail(copy(told))
        for wish in wishes:
            wish.fail(copy(told))

    async def _send(self, settlements: list[Settlement], wishes: list[Wish]) -> Answer:
        fit = await self._table.fit()
        # A twin opens at its first call, and the times of this one are counted by its clock.
        await self._desk.opened()
        program = Program(self._inbox, fit.statements, fit.columns, self._desk.now, self._dead)
        if settlements:
            program.settle(settlements)
        if wishes:
            limit = min(MAX_ROWS, sum(wish.limit for wish in wishes))
            program.claim(limit, self._visibility, self._walk.start(), self._worker_id)
        alone = settlements[0] if settlements and settlements[0].alone else None
        answer: Answer = await self._desk.on_table(
            program.own,
            program.verdict(self._inbox.table),
            alone.publish if alone else (),
            alone.with_statements if alone else (),
        )
        return answer

    def _told(self, settlements: list[Settlement], answer: Answer) -> None:
        for place, one in enumerate(settlements):
            if place in answer.lost:
                one.fail(one.lost_error(self._inbox.table))
                continue
            one.succeed()
            if one.what in (PARK, LATER):
                self._waiting.note_due(one.delay)
        if any(one.what != EXTEND for one in settlements):
            # What was behind them may go now.
            self._more = True
            self._waiting.wake()

    def _hand_out(self, wishes: list[Wish], rows: list[Row]) -> None:
        self._more = len(rows) >= sum(wish.limit for wish in wishes)
        if rows:
            self._walk.served(rows[-1].group)
            self._waiting.look_often()
        for row in rows:
            if not row.remaining():
                # Applied late, after a lost reply: nobody can work it now.
                self.give_back(row).add_done_callback(_seen)
        rows = [row for row in rows if not row.settled]
        at = 0
        for wish in wishes:
            if wish.inner.done():
                continue
            share = rows[at : at + wish.limit]
            at += len(share)
            if share or not wish.waits:
                wish.answer(share)
            else:
                self._waiting.add(wish)
        for row in rows[at:]:
            self.give_back(row).add_done_callback(_seen)

    def _take_back(self, rows: list[Row]) -> None:
        """Rows that nobody took; from any thread, since futures are collected anywhere."""

        def start() -> None:
            for row in rows:
                if not row.settled and not self._closed:
                    # Nobody waits for it; a lost one is as good.
                    self.give_back(row).add_done_callback(_seen)

        self._desk.call_soon(start)

    async def has_work(self) -> bool:
        """Whether a claim would find something, after what is on its way has come."""
        if self._busy is not None:
            await asyncio.wait((self._busy,))
        return await self._walk.finds()

    # -- the end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the waiting claims with `Closed`."""
        self._closed = True
        error = Closed("this subscription was closed while a claim was waiting")
        for wish in self._wishes:
            wish.fail(copy(error))
        self._wishes.clear()
        self._waiting.close(error)
        self._settlements.close(error)


def _seen(done: Future[Any]) -> None:
    if not done.cancelled():
        done.exception()
