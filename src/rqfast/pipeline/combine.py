"""Threads share transactions: whoever holds the write lock takes along all that wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from .._core import Batch, Batcher, Call, Claim, Many, Outcome, Settle, give_back
from ..engine.sqlite import SqliteEngine
from ..errors import Closed, LeaseLost, RqfastError
from . import wake
from .watch import Watch

OnLost = Callable[[Exception], None]


class Slot:
    """Where a thread's outcome is put; what the core calls a future."""

    __slots__ = ("_done", "error", "value")

    def __init__(self) -> None:
        self._done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        """Whether the outcome is there, or nobody wants it."""
        return self._done

    def set_result(self, value: Any) -> None:
        """The call took effect."""
        self.value = value
        self._done = True

    def set_exception(self, error: BaseException) -> None:
        """It did not."""
        self.error = error
        self._done = True

    def abandon(self) -> None:
        """Nobody waits any more."""
        self._done = True

    def leases(self) -> list[Any]:
        """What a claim put here."""
        if isinstance(self.value, list):
            return self.value
        return [] if self.value is None else [self.value]

    def result(self) -> Any:
        """The outcome, once done."""
        if self.error is not None:
            raise self.error
        return self.value


class Combiner:
    """Runs the calls of all threads of one embedded transport."""

    def __init__(self, engine: SqliteEngine, watch: Watch, max_batch: int, queue: Hashable) -> None:
        self._engine = engine
        self._watch = watch
        self._batcher = Batcher(1, max_batch, 8 << 20)
        self._queue = queue
        self._tidy: int | None = None
        self._woken = threading.Condition()
        self._stirs = 0
        self.closed = False
        self.restart()
        wake.register(queue, self.stir)

    def restart(self) -> None:
        """New locks, for a child process: its parent's threads, which may hold the old ones, are not here."""
        self._door = threading.Lock()
        self._writing = threading.Lock()
        self._woken = threading.Condition()

    @property
    def name(self) -> str:
        """What is served, for people."""
        return f"{self._engine.path} queue={self._engine.queue!r}"

    def start(self, calls: Sequence[Call]) -> None:
        """Take in calls; they run when a thread waits for one of them, or for another."""
        with self._door:
            if self.closed:
                raise Closed("this transport was closed")
            for call in calls:
                self._batcher.add(call)

    def wait(self, slot: Slot) -> Any:
        """The result of calls that report to `slot`, which this thread runs itself unless another just does."""
        try:
            while not slot.done():
                with self._writing:
                    if not slot.done():
                        self._run_batch()
        except BaseException:
            slot.abandon()
            raise
        return slot.result()

    def _run_batch(self) -> None:
        with self._door:
            batch = self._batcher.take(0)
        if batch is None:
            return
        batch.tidy, self._tidy = self._tidy, None
        try:
            rows = self._engine.run(batch)
        except RqfastError as error:
            self._finish(batch)
            batch.reject(error)
            return
        except BaseException:
            # Ctrl-C in the thread that did the work: nothing was applied, the others' calls go on.
            self._finish(batch)
            with self._door:
                for call in batch.calls():
                    self._batcher.add(call)
            raise
        self._settle(self._engine.resolve(batch, rows), batch)

    def _finish(self, batch: Batch) -> None:
        with self._door:
            self._batcher.finish(batch)

    def _settle(self, outcome: Outcome, batch: Batch) -> None:
        """What is left to do when a batch took effect."""
        self._finish(batch)
        self._watch.replied(outcome.hint, outcome.short)
        self._tidy = self._watch.tidies(outcome.short, time.monotonic())
        leases = list(outcome.give_back)
        for _call, late in outcome.late:
            leases += late
        with self._door:
            for lease in leases:
                self._batcher.add(give_back(lease))
        if leases:
            self._run_batch()
        for call in outcome.refused:
            assert call.tied is not None
            call.reject(call.tied.lost())
        for call in [*outcome.unfilled, *(call for call, _ in outcome.late)]:
            call.resolve(None)
        if not batch.claims_only:
            wake.stir(self._queue)

    # -- claims -------------------------------------------------------------------------------------------

    def claim(self, call: Claim, acks: Sequence[Settle], on_lost: OnLost | None) -> Any:
        """Claim; waits, by looking, until the claim's own `wait_until`.  `acks` go in the same transaction."""
        for settle in acks[:1]:
            settle.tie(call)
            settle.on_lost = on_lost
        others = acks[1:]
        while True:
            seen = self._stirs
            if call.tied is not None or self._watch.claims_at_once(call.min_priority) or self._look(call):
                found = self._claim_once(call, others, on_lost)
                if found:
                    return found
                others = ()
                call.untie()
            left = call.wait_until - time.monotonic()
            if left <= 0:
                return call.empty()
            self._rest(min(left, self._watch.rest(self._engine.clock.now())), seen)

    def _claim_once(self, call: Claim, acks: Sequence[Settle], on_lost: OnLost | None) -> Any:
        slot, verdict = Slot(), Slot()
        call.future = slot
        if acks:
            many = Many(verdict, len(acks))
            for position, settle in enumerate(acks):
                settle.part_of(many, position)
        try:
            self.start([*acks, call])
            found = self.wait(slot)
            for outcome in self.wait(verdict) if acks else ():
                if isinstance(outcome, LeaseLost) and on_lost is not None:
                    on_lost(outcome)
                elif isinstance(outcome, RqfastError):
                    raise outcome
            return found
        except BaseException:
            self._release(slot)
            raise

    def _release(self, slot: Slot) -> None:
        """Give back what came for a caller that is no longer there (Ctrl-C)."""
        leases = slot.leases()
        with self._door:
            for lease in leases:
                self._batcher.add(give_back(lease))
        if leases:
            with self._writing:
                self._run_batch()

    def _look(self, call: Claim) -> bool:
        with self._writing:
            if self.closed:
                raise Closed("this transport was closed")
            work, next_ready = self._engine.look(call.min_priority)
        self._watch.looked(work, next_ready)
        return work

    def _rest(self, pause: float, seen: int) -> None:
        with self._woken:
            if self._stirs == seen and not self.closed:
                self._woken.wait(pause)
        if self.closed:
            raise Closed("this transport was closed while a claim was waiting")

    def stir(self) -> None:
        """Wake the waiting claims: there may be work."""
        self._watch.stirred()
        with self._woken:
            self._stirs += 1
            self._woken.notify_all()

    def close(self) -> None:
        """Let what was begun end, then close the database."""
        with self._door:
            if self.closed:
                return
            self.closed = True
        self.stir()
        with self._writing:
            while self._batcher.waiting():
                self._run_batch()
            self._engine.close()
