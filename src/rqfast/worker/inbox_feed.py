"""A table of the user's own as a source of messages: one request at a time, settlements and claims together."""

from __future__ import annotations

import asyncio
import heapq
import logging
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import orjson

from .._core import ClaimFuture
from ..address.inbox import Address, Inbox, as_address
from ..address.selection import after_all
from ..errors import Closed, ConfigError, LeaseLost, RqfastError, SchemaError
from ..pipeline import wake
from ..sql.inbox import DEAD, DONE, EXTEND, FREE, GIVE_BACK, LATER, PARK, InboxStatements, Indexes
from ..transport.awaitable import AwaitableTransport
from ..transport.desk import table_key
from ..transport.posting import iso_of
from .inbox_check import columns_of, examine, prepare
from .inbox_program import Answer, Program, Settlement
from .inbox_row import Row
from .outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter

log: logging.Logger = logging.getLogger("rqfast")

FIRST_PAUSE = 0.01
# How soon it is looked again whether an extension has ended.
EXTENSION_PAUSE = 0.005
MAX_ROWS = 1000
# Moments that it remembers, so that it looks just then; of more it learns within `max_poll`.
MAX_DUE = 10_000
# Each row with a time of its own is looked up in the list of the request.
MAX_SETTLED = 256


@dataclass(slots=True, eq=False)
class Wish:
    """A claim that waits for rows.

    Attributes:
        inner: where they are reported.
        kept: what the caller holds, alive until then.
        waits: whether it waits until one comes.
    """

    limit: int
    inner: Future[list[Row]]
    kept: Any
    waits: bool

    def answer(self, rows: list[Row]) -> None:
        """Hand over what came."""
        self.inner.set_result(rows)

    def fail(self, error: Exception) -> None:
        """Nothing comes."""
        if not self.inner.done():
            self.inner.set_exception(error)


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
        self._made: InboxStatements | None = None
        self._columns: list[str] = []
        self._not_null: frozenset[str] = frozenset()
        self._settling: deque[Settlement] = deque()
        self._wishes: deque[Wish] = deque()
        self._waiting: deque[Wish] = deque()
        self._due: list[float] = []
        self._cursor: Any = None
        self._more = False
        self._busy: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None
        self._woken: asyncio.Event | None = None
        self._scheduled = False
        self._stirred = False
        self._pause = FIRST_PAUSE
        self._warned: set[str] = set()
        self._closed = False
        wake.register(table_key(self._desk.key, self._inbox.table), self._stir)

    # -- at the start -------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Look at the table: its columns, its indexes, and whether each statement can be prepared.

        Raises:
            SchemaError: the table or a column is missing; it names both.
        """
        found = await examine(self._address, self._desk.read)
        for kind, index in found.missing.items():
            log.warning(
                "table %s has no index for its %s: each claim reads all of it; make it with: %s",
                self._inbox.table,
                "claims" if kind == "claim" else "leases",
                index.create,
            )
        self._columns, self._not_null = found.columns, found.not_null
        _, dead = self._dead
        try:
            made = self._statements(found.indexes)
            await prepare(made, self._inbox.table, self._desk.read)
        except SchemaError:
            if found.indexes == Indexes():
                raise
            # An index that cannot serve this claim after all.
            made = self._statements(Indexes())
            await prepare(made, self._inbox.table, self._desk.read)
        if dead is not None:
            await self._check_dead(dead, made)
        self._made = made

    def _statements(self, indexes: Indexes) -> InboxStatements:
        return InboxStatements(
            self._address, self._desk.statements, self._columns, indexes, self._dead[0], self._not_null
        )

    async def _check_dead(self, dead: Inbox, made: InboxStatements) -> None:
        standing = {column.lower() for column in await columns_of(dead, self._desk.read)}
        for column in made.moved(dead):
            if column.lower() not in standing:
                raise SchemaError(
                    f"table {dead.table} takes the dead letters of table {self._inbox.table} and has no column {column}"
                )

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
        inner.add_done_callback(self._left)
        if self._closed:
            wish.fail(Closed("this subscription was closed"))
        elif waits and not self._more:
            self._wait(wish)
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
        return self._settle(self._settlement(held, outcome))

    def bury(self, held: Row, reason: str, error: str | None) -> Future[None]:
        """To where dead letters go; without such a place the row is dropped, and logged."""
        if self._dead == (None, None):
            log.error(
                "table %s: row %r of group %r is dropped, for there is no dead_letter=: %s (%s)",
                self._inbox.table,
                held.id,
                held.group_id,
                reason,
                error,
            )
            return self._settle(Settlement(held, DONE))
        return self._settle(Settlement(held, DEAD, told=(_sound(reason), None if error is None else _sound(error))))

    def give_back(self, held: Row) -> Future[None]:
        """Put it back at its place, with no attempt spent."""
        return self._settle(Settlement(held, GIVE_BACK))

    def extend(self, held: Sequence[Row], visibility: float) -> Future[list[Row]]:
        """Let all their leases end `visibility` seconds from now; returns those that were lost."""
        loop = asyncio.get_running_loop()
        settlements = [Settlement(row, EXTEND, visibility, future=loop.create_future()) for row in held]
        lost: Future[list[Row]] = loop.create_task(_lost_of(settlements))
        for one in settlements:
            self._extend(one)
        return lost

    def _extend(self, one: Settlement) -> None:
        assert one.future is not None
        if one.future.done():
            return
        if self._closed:
            one.future.set_exception(Closed("this subscription was closed"))
        elif not one.row.begin_extension():
            asyncio.get_running_loop().call_later(EXTENSION_PAUSE, self._extend, one)
        elif one.row.settled:
            # In this order: whoever settles it, maybe in another thread, sets the one and looks at the other.
            one.fail(one.lost_error(self._inbox.table))
        else:
            self._settling.append(one)
            self._schedule()

    async def quiet(self) -> None:
        """Wait until nothing is on its way, so that what came for nobody has been given back."""
        # Rows that were not taken come back by the loop.
        await asyncio.sleep(0)
        while not self._closed and (self._busy is not None or self._scheduled or self._settling):
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
        twin._made, twin._columns = self._made, self._columns
        return twin

    def _settle(self, one: Settlement) -> Future[None]:
        one.future = asyncio.get_running_loop().create_future()
        if self._closed:
            one.fail(Closed("this subscription was closed"))
        elif one.row.settled:
            # A lease is spent by its first settlement.
            one.fail(one.lost_error(self._inbox.table))
        else:
            one.row.settled = True
            if one.row.extending and not self._inbox.has("token"):
                # Where the end of the lease is the token, it is about to be another one.
                self._after_extension(one)
            else:
                self._settling.append(one)
                self._schedule()
        return one.future

    def _after_extension(self, one: Settlement) -> None:
        if one.row.extending and not self._closed:
            asyncio.get_running_loop().call_later(EXTENSION_PAUSE, self._after_extension, one)
        else:
            self._settling.append(one)
            self._schedule()

    def _settlement(self, row: Row, outcome: Outcome) -> Settlement:
        if isinstance(outcome, Ack):
            return Settlement(row, DONE, publish=outcome.publish, with_statements=outcome.with_statements)
        if isinstance(outcome, Drop):
            return Settlement(row, DONE)
        if isinstance(outcome, RetryAfter):
            return self._later(row, outcome.delay, "RetryAfter")
        if isinstance(outcome, Retry):
            if self._inbox.exclusive:
                # Nobody waits for it: it goes behind those that are due.
                return self._later(row, outcome.delay, "Retry(delay=)")
            if outcome.delay:
                return Settlement(row, PARK, outcome.delay)
            return Settlement(row, FREE)
        if isinstance(outcome, Dead):
            raise ConfigError("Dead is not settled but buried, with its reason")
        raise TypeError(f"an Outcome, not {type(outcome).__name__}")

    def _later(self, row: Row, delay: float, what: str) -> Settlement:
        if self._inbox.has("retry_at"):
            return Settlement(row, LATER, delay)
        if delay and what not in self._warned:
            self._warned.add(what)
            log.warning(
                "table %s has no column with the role retry_at: %s lets a row go again at once", self._inbox.table, what
            )
        return Settlement(row, FREE)

    # -- requests -----------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled and self._busy is None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if self._busy is not None or self._closed:
            return
        settlements = self._next_settlements()
        wishes: list[Wish] = []
        if not (settlements and settlements[0].alone):
            wishes = self._next_wishes(bool(settlements))
        if settlements or wishes:
            self._busy = asyncio.create_task(
                self._carry(settlements, wishes), name=f"rqfast: table {self._inbox.table}"
            )

    def _next_settlements(self) -> list[Settlement]:
        found: list[Settlement] = []
        while self._settling and len(found) < MAX_SETTLED:
            if self._settling[0].alone:
                return found or [self._settling.popleft()]
            found.append(self._settling.popleft())
        return found

    def _next_wishes(self, rides: bool) -> list[Wish]:
        """Those that go now: all that were made for this request, and those that wait where that costs nothing."""
        found: list[Wish] = []
        room = MAX_ROWS
        for queue in (self._wishes, self._waiting) if rides or self._more else (self._wishes,):
            while queue and room > 0:
                wish = queue.popleft()
                if not wish.inner.done():
                    room -= wish.limit
                    found.append(wish)
        return found

    async def _carry(self, settlements: list[Settlement], wishes: list[Wish]) -> None:
        try:
            # What finds nothing writes nothing, unless it goes with something.
            goes = bool(settlements) or self._more or await self._look()
            answer = await self._send(settlements, wishes) if goes else Answer()
        except BaseException as error:
            self._fail(settlements, wishes, error)
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

    def _fail(self, settlements: list[Settlement], wishes: list[Wish], error: BaseException) -> None:
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
        if self._made is None:
            await self.check()
        assert self._made is not None
        # A twin opens at its first call, and the times of this one are counted by its clock.
        await self._desk.opened()
        program = Program(self._inbox, self._made, self._columns, self._desk.now, self._dead)
        if settlements:
            program.settle(settlements)
        if wishes:
            limit = min(MAX_ROWS, sum(wish.limit for wish in wishes))
            program.claim(limit, self._visibility, self._walk(), self._worker_id)
        alone = settlements[0] if settlements and settlements[0].alone else None
        answer: Answer = await self._desk.on_table(
            program.own,
            program.verdict(self._inbox.table),
            alone.publish if alone else (),
            alone.with_statements if alone else (),
        )
        return answer

    def _walk(self) -> str:
        """Where the walk of the groups begins: after the one that was served last."""
        selection = self._address.selection
        if selection.groups is not None:
            groups = list(selection.groups)
            # They are named by text, whatever the column holds.
            served = None if self._cursor is None else str(self._cursor)
            at = groups.index(served) + 1 if served in groups else 0
            return orjson.dumps(groups[at:] + groups[:at]).decode()
        low = high = None
        if selection.prefix is not None:
            low, high = selection.prefix, after_all(selection.prefix)
        cursor = self._cursor if isinstance(self._cursor, str | int | float) else None
        return orjson.dumps([cursor, low, high, self._dead[0]]).decode()

    def _told(self, settlements: list[Settlement], answer: Answer) -> None:
        for place, one in enumerate(settlements):
            if place in answer.lost:
                one.fail(one.lost_error(self._inbox.table))
                continue
            one.succeed()
            if one.what in (PARK, LATER):
                self._note_due(self._desk.now(), one.delay)
        if any(one.what != EXTEND for one in settlements):
            # What was behind them may go now.
            self._more = True
            self._pause = FIRST_PAUSE
            self._wake()

    def _note_due(self, now: float, delay: float) -> None:
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
        if len(self._due) < MAX_DUE:
            heapq.heappush(self._due, now + delay)

    def _hand_out(self, wishes: list[Wish], rows: list[Row]) -> None:
        self._more = len(rows) >= sum(wish.limit for wish in wishes)
        if rows:
            self._cursor = rows[-1].group
            self._pause = FIRST_PAUSE
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
                self._wait(wish)
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

    # -- waiting ------------------------------------------------------------------------------------------

    def _wait(self, wish: Wish) -> None:
        self._waiting.append(wish)
        if self._woken is None:
            self._woken = asyncio.Event()
        if self._idle is None:
            self._idle = asyncio.create_task(self._look_on(), name=f"rqfast: waiting for table {self._inbox.table}")

    def _left(self, inner: Future[Any]) -> None:
        if inner.cancelled():
            # Perhaps nobody waits any more.
            self._wake()

    def _stir(self) -> None:
        """A row was published in this process; from any thread."""
        if not self._stirred:
            self._stirred = True
            self._desk.call_soon(self._wake)

    def _wake(self) -> None:
        self._stirred = False
        self._pause = FIRST_PAUSE
        if self._woken is not None:
            self._woken.set()

    async def _look_on(self) -> None:
        try:
            while self._are_waiting():
                assert self._woken is not None
                self._woken.clear()
                if self._busy is not None:
                    await asyncio.wait((self._busy,))
                    continue
                if await self._look():
                    self._wishes.extend(self._waiting)
                    self._waiting.clear()
                    self._pump()
                    continue
                await self._rest()
        except asyncio.CancelledError:
            # The loop ends.
            while self._waiting:
                self._waiting.popleft().inner.cancel()
            raise
        except Exception as error:
            waiting, self._waiting = list(self._waiting), deque()
            self._fail([], waiting, error)
        finally:
            self._idle = None
            if self._waiting and not self._closed:
                self._wait(self._waiting.pop())

    def _are_waiting(self) -> bool:
        self._waiting = deque(wish for wish in self._waiting if not wish.inner.done())
        return bool(self._waiting) and not self._closed

    async def has_work(self) -> bool:
        """Whether a claim would find something, after what is on its way has come."""
        if self._busy is not None:
            await asyncio.wait((self._busy,))
        return await self._look()

    async def _look(self) -> bool:
        """Whether a claim would find something, by plain reads."""
        if self._made is None:
            await self.check()
        assert self._made is not None
        now = self._desk.now()
        at = iso_of(now) if self._inbox.roles["locked_until"] in self._inbox.iso_text else now
        start, is_round = self._cursor, False
        while True:
            walk = self._walk()
            rows = (await self._desk.read(["inbox_look"], [[self._made.look, None, at, walk, 1]]))[0]
            if rows or self._made.cut is None:
                return bool(rows)
            # More groups than one walk goes through: on from where it ended, until it is round.
            cut = (await self._desk.read(["inbox_cut"], [[self._made.cut, None, None, walk]]))[0]
            if not cut:
                return False
            self._cursor, from_first = cut[0]
            if is_round and (from_first or _reaches(self._cursor, start)):
                return False
            is_round = is_round or bool(from_first)

    async def _rest(self) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, self._max_poll)
        now = self._desk.now()
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
        if self._due:
            pause = min(pause, self._due[0] - now + 0.001)
        assert self._woken is not None
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            pass

    # -- the end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the waiting claims with `Closed`."""
        self._closed = True
        error = Closed("this subscription was closed while a claim was waiting")
        for wish in (*self._wishes, *self._waiting):
            wish.fail(copy(error))
        self._wishes.clear()
        self._waiting.clear()
        for one in self._settling:
            one.fail(copy(error))
        self._settling.clear()
        if self._idle is not None:
            self._idle.cancel()


def dead_letters_of(address: Address, dead_letter: Any) -> tuple[str | None, Inbox | None]:
    """Where dead letters go: a group, or a table."""
    inbox = address.inbox
    if dead_letter is None:
        return None, None
    if isinstance(dead_letter, Inbox):
        if dead_letter.table.lower() == inbox.table.lower():
            raise ConfigError(f"dead_letter= is table {inbox.table} itself: name another group of it, or another table")
        return None, dead_letter
    if not isinstance(dead_letter, str):
        raise ConfigError(
            f"dead_letter= of a subscription on table {inbox.table} is another group of it (str), or an Inbox with the "
            f"same columns, not {dead_letter!r}"
        )
    selection = address.selection
    if not inbox.has("group"):
        raise ConfigError(
            f"dead_letter={dead_letter!r} is a group, and table {inbox.table} has no column with that role"
        )
    if selection.groups is not None and dead_letter in selection.groups:
        raise ConfigError(f"dead_letter={dead_letter!r} is itself one of the groups of this subscription")
    if selection.prefix is not None and dead_letter.startswith(selection.prefix):
        raise ConfigError(f"dead_letter={dead_letter!r} begins with the prefix of this subscription")
    return dead_letter, None


def _reaches(group: Any, start: Any) -> bool:
    """Whether a walk from the beginning has come to where it once began."""
    return isinstance(group, type(start)) and group >= start


async def _lost_of(settlements: list[Settlement]) -> list[Row]:
    outcomes = await asyncio.gather(*(one.future for one in settlements if one.future), return_exceptions=True)
    lost = []
    for one, outcome in zip(settlements, outcomes, strict=True):
        if isinstance(outcome, LeaseLost):
            lost.append(one.row)
        elif isinstance(outcome, BaseException):
            raise outcome
    return lost


def _seen(done: Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


def _sound(text: str) -> str:
    """Text that can be stored, whatever an error was made of."""
    return text.encode("utf-8", "replace").decode()[:4000]
