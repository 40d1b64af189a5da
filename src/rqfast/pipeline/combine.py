"""Threads share transactions: whoever holds the write lock takes along all that wait for it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent import futures
from copy import copy
from typing import Any

from .._core import Batch, Batcher, Call, Claim, Many, Publish, Settle, Slot, first_of_each, give_back
from ..engine.hold import Hold, let_go
from ..engine.sqlite import SqliteEngine
from ..engine.sqlite_caller import SqliteCaller
from ..errors import Closed, OutcomeUnknown, RqfastError, Unavailable
from . import wake
from .backlog import ThreadBacklog
from .parts import failure_of, truthful
from .soon import Runner
from .watch import Watch

# The most that a fork waits for a transaction that runs, in seconds.
FORKING = 10.0
MAX_SIZE = 8 << 20

log: logging.Logger = logging.getLogger("rqfast")

OnLost = Callable[[Exception], None]


class Combiner:
    """Runs the calls of all threads of one embedded transport."""

    def __init__(self, engine: SqliteEngine, watch: Watch, max_batch: int, queue: Hashable) -> None:
        self._engine = engine
        self._watch = watch
        self._max_batch = max_batch
        self._queue = queue
        self._tidy: int | None = None
        self._stirs = 0
        self._caller = SqliteCaller(engine)
        self.closed: bool = False
        self.restart()
        wake.register(queue, self.stir)

    def restart(self) -> None:
        """New locks and no calls: in a child process, what waits is the parent's."""
        self._batcher = Batcher(1, self._max_batch, MAX_SIZE)
        self._door = Hold()
        self._writing = Hold()
        self._runner = Runner(self._run_waiting, "rqfast: publish_soon")
        self._forking: list[threading.RLock] = []
        self._sleepers: set[threading.Lock] = set()

    def before_fork(self) -> None:
        """Let the transaction that runs end: a child must not inherit it half-done."""
        self._forking = [lock for lock in (self._writing, self._door) if lock.acquire(timeout=FORKING)]

    def after_fork(self) -> None:
        """The parent goes on."""
        while self._forking:
            self._forking.pop().release()

    @property
    def name(self) -> str:
        """What is served, for people."""
        return f"{self._engine.path} queue={self._engine.queue!r}"

    def start(self, calls: Sequence[Call]) -> None:
        """Take in calls; they run when a thread waits for one of them, or for another."""
        try:
            with self._door:
                if self.closed:
                    raise Closed("this transport was closed")
                self._batcher.add_all(calls)
        except BaseException:
            let_go(self._door)
            raise

    def expect(self, call: Call, backlog: ThreadBacklog) -> futures.Future[Any]:
        """The future of a call that no thread will wait for."""
        return self._runner.expect(call, backlog)

    def launch(self, call: Call) -> None:
        """Take in such a call; it runs at once, in a thread of its own."""
        self.start((call,))
        self._runner.want()

    def check_thread(self) -> None:
        """Refuse to wait in the thread that runs such calls."""
        self._runner.check_thread()

    def _run_waiting(self) -> None:
        while self._is_waited_for():
            with self._writing:
                try:
                    self._run_batch()
                except Exception as error:
                    self._abort(error)

    def _is_waited_for(self) -> bool:
        return bool(self._batcher.waiting()) or self._batcher.unfinished(0) is not None

    def _abort(self, error: Exception) -> None:
        """A fault of ours or of the user's clock: the callers must not wait for ever."""
        log.exception("a transaction failed in an unexpected way")
        wrapped = OutcomeUnknown(f"this call failed in an unexpected way, and may have taken effect: {error!r}")
        wrapped.__cause__ = error
        with self._door:
            for call in self._batcher.abort():
                call.reject(copy(wrapped))

    def wait(self, slot: Slot, undo: Callable[[], object] | None = None) -> Any:
        """The result of calls that report to `slot`, which this thread runs itself unless another just does.

        Args:
            undo: takes back what was begun after them, when the thread is interrupted.
        """
        try:
            while not slot.done():
                with self._writing:
                    if not slot.done():
                        self._run_batch()
            if self._runner.has_outcomes:
                self._runner.want()
        except BaseException:
            let_go(self._door, self._writing)
            if undo is not None:
                undo()
            slot.abandon()
            raise
        return slot.result()

    def _run_batch(self) -> None:
        """Run what waits.  Whatever raises (Ctrl-C, at any point), the next one finishes or repeats what it left."""
        self._recover()
        with self._door:
            batch = self._batcher.take(0)
        if batch is None:
            return
        batch.tidy, self._tidy = self._tidy, None
        try:
            rows = self._engine.run(batch)
        except RqfastError as error:
            batch.reject(error)
            self._batcher.finish(batch)
            return
        self._engine.resolve(batch, rows)
        self._settle(batch)

    def _recover(self) -> None:
        """Finish a batch whose thread was interrupted: applied, its callers are told; else it comes first again."""
        batch = self._batcher.unfinished(0)
        if batch is None:
            return
        if batch.outcome is None:
            rows = self._engine.recover(batch)
            if rows is None:
                with self._door:
                    self._batcher.put_back(batch)
                return
            self._engine.resolve(batch, rows)
        self._settle(batch)

    def _settle(self, batch: Batch) -> None:
        """What is left to do when a batch took effect; may be done again after an interrupt."""
        outcome = batch.outcome
        assert outcome is not None
        self._watch.replied(outcome.hint, outcome.short)
        self._tidy = self._watch.tidies(outcome.short, time.monotonic())
        for call, leases in outcome.late:
            # Only a slow commit can do this here, and nothing is sent twice: the caller decides.
            call.resolve(leases if call.wants_list else leases[0])
        for call in outcome.unfilled:
            call.resolve(None)
        with self._door:
            for lease in first_of_each(outcome.give_back):
                self._batcher.add(give_back(lease))
            self._batcher.finish(batch)
        try:
            if outcome.give_back:
                self._run_batch()
        finally:
            for call in outcome.refused:
                if call.tied is not None:  # not told before an interrupt
                    call.reject(call.tied.lost())
        if not batch.claims_only:
            wake.stir(self._queue)

    def publish_on(self, connection: Any, call: Publish) -> int:
        """Publish in a transaction of the caller's own."""
        if self.closed:
            raise Closed("this transport was closed")
        seq = self._caller.publish(call, connection)
        wake.stir(self._queue)
        return seq

    def ask(self, names: list[str], statements: list[list[Any]]) -> list[list[list[Any]]]:
        """Run plain reads of one state of the database; writers wait for them only where it is in memory."""
        if self.closed:
            raise Closed("this transport was closed")
        if self._engine.reads_apart:
            return self._engine.ask(names, statements)
        try:
            with self._writing:
                return self._engine.ask(names, statements)
        except BaseException:
            let_go(self._writing)
            raise

    # -- claims -------------------------------------------------------------------------------------------

    def claim(self, call: Claim, acks: Sequence[Settle], on_lost: OnLost | None) -> Any:
        """Claim; waits, by looking, until the claim's own `wait_until`.  `acks` go in the same transaction."""
        # The last of them: all others go before it.
        for settle in acks[-1:]:
            settle.tie(call)
            settle.on_lost = on_lost
        others = acks[:-1]
        acked = False
        while True:
            seen = self._stirs
            acks_too = call.tied is not None
            try:
                if call.tied is not None or self._watch.claims_at_once(call.min_priority) or self._look(call):
                    found = self._claim_once(call, others, on_lost)
                    if found:
                        return found
                    others = ()
                    acked = acks_too or acked
                    call.untie()
            except Unavailable:
                # It promises that nothing was applied, and the `ack=` of this call was: it found nothing, then.
                if not acked:
                    raise
                return call.empty()
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
            try:
                found = self.wait(slot)
            except Unavailable as error:
                raise truthful(error, self.wait(verdict) if acks else ()) from error.__cause__
            failure = failure_of(self.wait(verdict), on_lost) if acks else None
            if failure is not None:
                raise truthful(failure, [None])
            return found
        except BaseException:
            let_go(self._door, self._writing)
            self._release(slot)
            raise

    def _release(self, slot: Slot) -> None:
        """Give back what came for a caller that is no longer there (Ctrl-C)."""
        leases = slot.leases()
        with self._door:
            for lease in first_of_each(leases):
                self._batcher.add(give_back(lease))
        if leases:
            with self._writing:
                self._run_batch()

    def _look(self, call: Claim) -> bool:
        try:
            with self._writing:
                if self.closed:
                    raise Closed("this transport was closed")
                work, next_ready = self._engine.look(call.min_priority)
        except BaseException:
            let_go(self._writing)
            raise
        self._watch.looked(work, next_ready)
        return work

    def _rest(self, pause: float, seen: int) -> None:
        # No Condition: interrupted in its Python code, a thread would keep its lock for ever.
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.add(sleeper)
        try:
            if self._stirs == seen and not self.closed:
                sleeper.acquire(timeout=pause)
        finally:
            self._sleepers.discard(sleeper)
        if self.closed:
            raise Closed("this transport was closed while a claim was waiting")

    def stir(self) -> None:
        """Wake the waiting claims: there may be work."""
        self._watch.stirred()
        self._stirs += 1
        for sleeper in list(self._sleepers):
            with contextlib.suppress(RuntimeError):  # another thread woke it
                sleeper.release()

    def close(self) -> None:
        """Let what was begun end, then close the database."""
        try:
            with self._door:
                self.closed = True
            self.stir()
            with self._writing:
                try:
                    while not self._engine.closed and self._is_waited_for():
                        self._run_batch()
                finally:
                    self._engine.close()
        except BaseException:
            let_go(self._door, self._writing)
            raise
        self._runner.stop()
