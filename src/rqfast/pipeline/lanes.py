"""A lane: numbered requests, one at a time, each sent until it is known what became of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from .._core import Batch, Texts, encode_program
from ..engine.leaders import rest_after
from ..engine.outcome import Kind, Result
from ..engine.rqlite import CERTAIN_READ, EXECUTE, UNANSWERED, RqliteEngine, until_answered
from ..engine.time import QueueClock
from ..errors import GarbledReply, NotHeld, OutcomeUnknown, Published, RqfastError
from ..sql import Statements
from .retry import MOST_COPIES, Progress, Step, next_step

T = TypeVar("T")

# Of each statement; None where it has none.
Rows = list[list[Any] | None]

# A lane's row is deleted after a day of silence; long before that, a new one is registered.
SILENCE = 6 * 3600.0

EMPTY = ["lane_step", "clock_step", "outcome"]


class Lane:
    """One lane of a client.  `send` is called again only after it returned."""

    def __init__(
        self,
        engine: RqliteEngine,
        statements: Statements,
        texts: Texts,
        clock: QueueClock,
        *,
        window: float,
        holder: str,
    ) -> None:
        self._engine = engine
        self._statements = statements
        self._texts = texts
        self._clock = clock
        self._window = window
        self._holder = holder
        self.progress: Progress = Progress()
        self._number = 0
        self._used = 0.0
        self.name: str = ""
        self.renew()

    def renew(self) -> None:
        """Go on under a new name: what was sent under the old one can no longer be confused with what comes."""
        self.name = uuid.uuid4().hex[:16]
        self._number = 0
        self._registered = False

    def registered(self) -> None:
        """The lane's row was made (by the request that opened the transport)."""
        self._registered = True
        self._used = asyncio.get_running_loop().time()

    def abandon(self) -> None:
        """No caller waits for the request any more."""
        self.progress.abandoned = True
        self.progress.again_at = 0.0

    async def send(self, batch: Batch) -> Rows | None:
        """Send a batch until it is known what became of it; None: it was never applied, and nobody waits.

        Raises:
            StatementError, SchemaError, ConfigError: a node refused it for good.
        """
        self.progress = Progress()
        try:
            await self._register()
            return await self._send_number(batch)
        except (NotHeld, Published):
            # Rolled back, and so will be every copy: a lost lease stays lost.  What might come true later was spent.
            raise
        except Exception as error:
            self.renew()
            if self.progress.ambiguous and isinstance(error, RqfastError):
                raise OutcomeUnknown(
                    f"a first copy of this call got no answer, a second was refused: {error}"
                ) from error
            raise

    async def _register(self) -> None:
        loop = asyncio.get_running_loop()
        if self._registered and loop.time() - self._used < SILENCE:
            return
        self.renew()
        statement = [
            self._statements.queue["lane_open"],
            encode_program([self.name]).decode(),
            self._clock.now(),
        ]
        until = loop.time() + 3600

        def deadline() -> float:
            return 0.0 if self.progress.abandoned else until

        await self._engine.repeat(EXECUTE, [statement], deadline=deadline, names=["lane_open"])
        self.registered()

    async def _send_number(self, batch: Batch) -> Rows | None:
        number = self._number + 1
        refusal: NotHeld | Published | None = None
        copies: dict[asyncio.Task[Result], str] = {}
        try:
            while True:
                node = await self._where()
                if node is None:
                    return None
                self._send_copy(batch, number, node, copies)
                step, result = await self._answers(batch, number, copies)
                if step is Step.GIVE_UP:
                    return None
                if step is Step.RAISE:
                    assert result.error is not None
                    refusal = await self._refusal(batch, result.error)
                    if refusal is not None and not self.progress.spends:
                        raise refusal
                    continue
                rows = await self._take(batch, number, step, result)
                if rows is not None:
                    self._spent(number)
                    if refusal is not None and not rows:
                        raise refusal
                    return rows or None
                if not self._registered:
                    await self._register()
                    number = self._number + 1
                await self._rest()
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    async def _refusal(self, batch: Batch, error: RqfastError) -> NotHeld | Published | None:
        """What to tell of a request that was rolled back by a guard (raised if it was not); None: to be sent again.

        A copy that is still under way may find what refused this one gone: the window of an id passed, an ack of a run
        in its turn.  Then the number is to be spent before anybody is told, so that no copy can be applied any more.
        """
        if isinstance(error, Published):
            seq = await self._ask("dedup_first", batch.dedup_id, _seq)
            if seq is None:
                return None
            self.progress.spends = self.progress.ambiguous
            return Published(seq)
        if not isinstance(error, NotHeld):
            raise error
        self.progress.spends = batch.may_be_early and self.progress.ambiguous
        if batch.acks_count > 1 or batch.may_be_early:
            return NotHeld(await self._ask("ack_lost", batch.lost_read(), _positions))
        return error

    async def _take(self, batch: Batch, number: int, step: Step, result: Result) -> Rows | None:
        """The rows of an applied request; empty when it was the empty one; None: send again."""
        if step not in (Step.DONE, Step.READ_AGAIN):
            return None
        try:
            if step is Step.DONE:
                if (self.progress.abandoned or self.progress.spends) and len(result.rows) == len(EMPTY):
                    return []
                if batch.check(result.rows, number):
                    return result.rows
            # It was applied: whatever happens to the read, nobody may be told that it was not.
            self.progress.unsure = True
            rows = await self._read_again(batch, number)
        except GarbledReply as garbled:
            self.progress.unsure, self.progress.text = True, str(garbled)
            if self.progress.abandoned or self.progress.spends:
                self.renew()
                return []
            return None
        if rows is None:
            # The lane's row is gone: nothing under its name was applied, nor will be.
            batch.forget_program()
            self.renew()
        return rows

    def _spent(self, number: int) -> None:
        self._number = number
        self._used = asyncio.get_running_loop().time()

    async def _where(self) -> str | None:
        """The node to send to; None when the request was abandoned and no copy can have been applied."""
        while True:
            if self.progress.abandoned and not self.progress.ambiguous:
                return None
            node = await self._engine.leaders.now()
            if self.progress.abandoned and not self.progress.ambiguous:
                # Abandoned meanwhile: its callers were told that nothing was applied.
                return None
            if node is not None:
                return node
            await self._rest()

    async def _rest(self) -> None:
        await asyncio.sleep(self.progress.next_pause())

    def _send_copy(self, batch: Batch, number: int, node: str, copies: dict[asyncio.Task[Result], str]) -> None:
        now = self._clock.now()
        program = batch.program(self._texts, self.name, number, now, self._window, self._holder)
        names = batch.statement_names
        if (self.progress.abandoned or self.progress.spends) and self.progress.ambiguous:
            # To give up on a number is to spend it on an empty request.
            program = batch.empty_program(self._texts, self.name, number, now)
            names = EMPTY
        body = encode_program(program)
        copy = asyncio.create_task(
            self._engine.attempt(node, EXECUTE, body, names),
            name=f"rqfast: request {number}",
        )
        copies[copy] = node
        self.progress.sent(asyncio.get_running_loop().time(), len(body))

    async def _answers(self, batch: Batch, number: int, copies: dict[asyncio.Task[Result], str]) -> tuple[Step, Result]:
        """Wait for what is open; a request unanswered for a while goes to whoever leads now as well."""
        loop, quiet = asyncio.get_running_loop(), UNANSWERED
        since = loop.time()
        while True:
            done, _ = await asyncio.wait(copies, timeout=quiet, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                asked_at = loop.time()
                await self._send_elsewhere(batch, number, copies)
                quiet = rest_after(asked_at, since, loop.time())
                continue
            step, result = Step.WAIT, Result(Kind.UNKNOWN)
            for copy in done:
                del copies[copy]
                self.progress.open -= 1
                result = copy.result()
                step = next_step(self.progress, result)
                if step in (Step.DONE, Step.READ_AGAIN, Step.RAISE):
                    break
            if step is not Step.WAIT:
                return step, result

    async def _send_elsewhere(self, batch: Batch, number: int, copies: dict[asyncio.Task[Result], str]) -> None:
        last = next(reversed(copies.values()))
        leader = await until_answered(self._engine.leaders.find(last), copies)
        if any(copy.done() for copy in copies):
            return
        elsewhere = leader is not None and leader not in copies.values()
        # A reply may have been swallowed by something on the way: silence is no reason not to send again.
        if elsewhere or asyncio.get_running_loop().time() >= self.progress.again_at:
            self._send_copy(batch, number, leader or last, copies)
        if len(copies) > MOST_COPIES:
            oldest = next(iter(copies))
            del copies[oldest]
            oldest.cancel()
            self.progress.open -= 1
            self.progress.unsure = True

    async def _ask(self, name: str, parameter: str | None, reads: Callable[[list[list[Any]]], T]) -> T:
        """What a statement tells of why a request was refused."""
        loop = asyncio.get_running_loop()
        until = loop.time() + 3600
        rows = await self._engine.repeat(
            CERTAIN_READ,
            [[self._statements.queue[name], parameter]],
            deadline=lambda: 0.0 if self.progress.abandoned else until,
            names=[name],
            reads=reads,
        )
        return reads(rows)

    async def _read_again(self, batch: Batch, number: int) -> Rows | None:
        """The results of an applied request; None when the lane's row is gone."""
        slots: Rows = [[] for _ in batch.statement_names]
        reads = batch.reread(self._texts, self.name)
        loop = asyncio.get_running_loop()
        until = loop.time() + 3600
        rows = await self._engine.repeat(
            CERTAIN_READ,
            [statement for _, statement in reads],
            deadline=lambda: 0.0 if self.progress.abandoned and loop.time() > until else until,
            names=["read again"] * len(reads),
        )
        for (slot, _), found in zip(reads, rows, strict=True):
            slots[slot] = found
        return slots if batch.check(slots, number) else None


def _seq(rows: list[list[Any]]) -> int | None:
    """The one that `dedup_first` names; None: the window of the id has passed."""
    return int(rows[0][0][0]) if rows[0] else None


def _positions(rows: list[list[Any]]) -> set[int]:
    """The acks that `ack_lost` names."""
    return {int(place) for place in orjson.loads(rows[0][0][0])}
