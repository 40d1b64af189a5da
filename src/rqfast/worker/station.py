"""A subscription at work: its places, each of which claims a message, has it handled, and settles it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..errors import LeaseLost, OutcomeUnknown, RqfastError, Unavailable
from ..observe.hooks import Heard
from .context import Context
from .counts import Counts
from .errortext import raised_by_handler, text_of
from .feed import Feed
from .hop import hop
from .outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter, as_outcome
from .subscription import Subscription
from .telling import Telling
from .threads import Threads

log: logging.Logger = logging.getLogger("rqfast.worker")

# Between two tries where the cluster is away, in seconds; grows up to the last.
FIRST_REST, LONGEST_REST = 0.05, 2.0

# How long a worker that stops waits for what it gives back, in seconds; then the leases end by themselves.
GIVING_BACK = 2.0

# What is left of a lease at least, as a part of `visibility`, for a handler to begin: it is extended only from then on.
LEAST_LEFT = 0.1

# How often it is said that there is no database, in seconds.
AWAY = 30.0

COUNTED: dict[type[Outcome], str] = {Ack: "acked", Retry: "retried", RetryAfter: "retried", Drop: "dropped"}


class Station:
    """Runs one subscription.  Belongs to one loop.

    Args:
        queue: the name of the queue, or of the table.
        now: the queue's time.
        fatal: told of an error that no trying again would mend.
    """

    def __init__(
        self,
        subscription: Subscription,
        feed: Feed,
        *,
        concurrency: int,
        visibility: float,
        heard: Heard,
        queue: str,
        threads: Threads,
        decode: Callable[[Any], Any],
        now: Callable[[], float],
        fatal: Callable[[BaseException], None],
    ) -> None:
        self.subscription = subscription
        self.feed = feed
        self.name: str = subscription.name
        self.visibility = visibility
        self.telling: Telling = Telling(self.name, queue, heard, now)
        self.counts: Counts = Counts()
        self.active: dict[Context, None] = {}
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._decode = subscription.decoder or decode
        self._fatal = fatal
        self._batch = subscription.batch or 1
        self._places = max(1, concurrency // self._batch)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self._settling: set[asyncio.Task[None]] = set()
        self._returning: set[asyncio.Task[None]] = set()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self.stopping: bool = False
        self._away_since = self._tell_away_at = 0.0

    # -- its places ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to claim."""
        for place in range(self._places):
            task = self._loop.create_task(self._work(), name=f"rqfast: {self.name} {place}")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fatal(task.exception() or RqfastError("a place ended"))

    async def _work(self) -> None:
        claim: asyncio.Future[Any] | None = None
        rest = FIRST_REST
        task = asyncio.current_task()
        assert task is not None
        free = time.monotonic()
        try:
            while not self.stopping:
                self._waiting.add(task)
                try:
                    if not self._resumed.is_set():
                        self._drop(claim)
                        claim = None
                        await self._resumed.wait()
                    found = await (claim or self.feed.claim(self._batch))
                except (Unavailable, OutcomeUnknown) as error:
                    claim = None
                    self._tell_away(error)
                    await asyncio.sleep(rest)
                    rest = min(rest * 2, LONGEST_REST)
                    continue
                finally:
                    self._waiting.discard(task)
                claim = None
                rest = FIRST_REST
                if self._away_since:
                    self._tell_back()
                if found:
                    settled = await self._handle(found if type(found) is list else [found], free)
                    if self._may_claim():
                        claim = self.feed.claim_next(self._batch)
                    await self._settle_all(task, settled)
                    free = time.monotonic()
        finally:
            self._drop(claim)

    async def _settle_all(self, task: asyncio.Task[None], settled: list[Awaitable[None]]) -> None:
        self._settling.add(task)
        try:
            for one in settled:
                await one
        finally:
            self._settling.discard(task)

    def _tell_away(self, error: RqfastError) -> None:
        """Say once in a while, for all places, that there is no database."""
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now >= self._tell_away_at:
            self._tell_away_at = now + AWAY
            since = now - self._away_since
            log.warning("%s: nothing could be claimed for %.0f s, it is tried again: %s", self.name, since, error)

    def _tell_back(self) -> None:
        log.info("%s: claims again, after %.0f s", self.name, time.monotonic() - self._away_since)
        self._away_since = self._tell_away_at = 0.0

    def _may_claim(self) -> bool:
        return not self.stopping and self._resumed.is_set()

    def _drop(self, claim: asyncio.Future[Any] | None) -> None:
        # What came for it goes back.
        if claim is not None:
            drop = getattr(claim, "drop", claim.cancel)
            drop()

    # -- handling -----------------------------------------------------------------------------------------

    async def _handle(self, found: list[Any], free: float) -> list[Awaitable[None]]:
        """Have messages handled; what settles them has begun, and is awaited by the caller.

        Args:
            free: since when this place had nothing to do.
        """
        contexts = await self._in_time([Context(self, held) for held in found])
        if not contexts:
            return []
        now = time.monotonic()
        for context in contexts:
            context._began = now
            self.active[context] = None
        self.counts.claimed += len(contexts)
        with self.telling.claimed(contexts, now - free):
            return await self._handled(contexts)

    async def _handled(self, contexts: list[Context]) -> list[Awaitable[None]]:
        if self.subscription.batch is None:
            outcome = await self._outcome(contexts[0])
            return [] if outcome is None else [self._begin_to_settle(contexts[0], outcome)]
        outcomes = await self._outcomes(contexts)
        return [
            self._begin_to_settle(context, outcome)
            for context, outcome in zip(contexts, outcomes, strict=True)
            if outcome is not None
        ]

    async def _in_time(self, contexts: list[Context]) -> list[Context]:
        """Without those whose lease has run down since they came, as this process stalled: others may have them."""
        least = self.visibility * LEAST_LEFT
        late = [context for context in contexts if context._held.remaining() < least]
        if not late:
            return contexts
        log.warning(
            "%s: the leases of %d messages had run down before their handlers could begin, they are given back: "
            "is visibility=%g s too short for a stall of this process?",
            self.name, len(late), self.visibility,
        )  # fmt: skip
        tasks = self._begin_to_give_back(late)
        left = [context for context in contexts if context not in late]
        if not left:
            await asyncio.wait(tasks)
        return left

    async def _outcome(self, context: Context) -> Outcome | None:
        """Of one message; None: it was given back, or lost."""
        ready = self._prepared(context)
        if isinstance(ready, Outcome):
            return ready
        try:
            said: Outcome | BaseException = as_outcome(await self._called([context], ready[0], context))
        except asyncio.CancelledError as error:
            if await self._let_go([context]):
                return None
            said = error
        except (Exception, SystemExit) as error:
            # A handler does not end the worker; what does is a signal, or worker.stop().
            said = error
        return await self._concluded(context, said)

    async def _concluded(self, context: Context, said: Outcome | BaseException) -> Outcome | None:
        """What becomes of a message with whose handling this is the end; None: it is no longer ours."""
        if self._is_late(context):
            return None
        outcome = said if isinstance(said, Outcome) else await self._failure(context, said)
        return None if self._is_late(context) else self._final(context, outcome)

    async def _outcomes(self, contexts: list[Context]) -> list[Outcome | None]:
        """Of a batch: one for all, or one for each."""
        found: dict[Context, Outcome | None] = {}
        payloads: dict[Context, Any] = {}
        for context in contexts:
            ready = self._prepared(context)
            if isinstance(ready, Outcome):
                found[context] = ready
            else:
                payloads[context] = ready[0]
        if payloads:
            told: Sequence[Outcome | BaseException]
            try:
                value = await self._called(list(payloads), list(payloads.values()), list(payloads))
                told = _each(value, len(payloads))
            except asyncio.CancelledError as error:
                if await self._let_go(list(payloads)):
                    return [found.get(context) for context in contexts]
                told = [error] * len(payloads)
            except (Exception, SystemExit) as error:
                told = _for_all(error, len(payloads))
            for context, said in zip(payloads, told, strict=True):
                found[context] = await self._concluded(context, said)
        return [found[context] for context in contexts]

    def _prepared(self, context: Context) -> Outcome | tuple[Any]:
        """The payload of a message in a tuple; or its outcome, where it does not come to be handled."""
        cap = self.subscription.max_attempts
        if cap is not None and context.attempt > cap:
            # The last one crashed with its worker.
            return Dead(f"delivered {context.attempt - 1} times, and no worker came to an end with it")
        try:
            return (self._decode(context._held),)
        except Exception as error:
            log.error(
                "%s: the payload of message %s of group %r (attempt %d) could not be decoded: %s",
                self.name, context.id, context.group, context.attempt, text_of(error),
            )  # fmt: skip
            return self._undecodable(context, error)

    def _undecodable(self, context: Context, error: Exception) -> Outcome:
        context._error = error
        policy = self.subscription.on_undecodable
        if policy is None:
            policy = Dead("undecodable") if self.subscription.max_attempts is not None else Retry(self.visibility)
        if isinstance(policy, Dead):
            return Buried(policy.reason, text_of(error))
        return self._final(context, policy)

    async def _called(self, contexts: Sequence[Context], payload: Any, context: Any) -> Any:
        """What the handler returned; once it has ended, a lease that is lost cancels nothing any more."""
        for one in contexts:
            one._task = asyncio.current_task()
        try:
            return await self._call(payload, context)
        finally:
            now = time.monotonic()
            for one in contexts:
                one._task = None
                one._worked = now - one._began
            if not self.stopping:
                # It may have been cancelled, and gone on all the same.
                _forget_cancellation()

    async def _call(self, payload: Any, context: Any) -> Any:
        handler = self.subscription.handler
        if self.subscription.signature.is_async:
            if self.subscription.signature.takes_context:
                return await handler(payload, context)
            return await handler(payload)
        if self.subscription.signature.takes_context:
            value = await self._threads.run(lambda: handler(payload, context))
        else:
            value = await self._threads.run(lambda: handler(payload))
        if asyncio.iscoroutine(value):
            return await value
        return value

    def _is_late(self, context: Context) -> bool:
        """Whether the message is no longer ours: what its handler says of it is thrown away."""
        if not context.lease_lost and not context._over:
            return False
        if context.lease_lost and not context._over:
            self._lost(context)
        else:
            self.counts.discarded += 1
        return True

    async def _let_go(self, contexts: Sequence[Context]) -> bool:
        """Whether the handler was cancelled from here, since leases were lost: then nothing is in its hands any more.

        Raises:
            CancelledError: since the worker stops.
        """
        task = asyncio.current_task()
        assert task is not None
        stops = self.stopping and task.cancelling() > 0
        if not stops and not any(context.lease_lost for context in contexts):
            return False
        for context in contexts:
            if context.lease_lost:
                self._lost(context)
        if stops and not self.subscription.signature.is_async:
            for context in contexts:
                log.warning(
                    "%s: the plain handler of message %s of group %r did not end in time: the message is given back, "
                    "and what the handler still does in its thread is thrown away",
                    self.name, context.id, context.group,
                )  # fmt: skip
        await self._give_back(contexts)
        if stops:
            raise asyncio.CancelledError
        return True

    async def _give_back(self, contexts: Sequence[Context]) -> None:
        tasks = self._begin_to_give_back(contexts)
        if tasks:
            # Not cancelled with the handler.
            await asyncio.wait(tasks)

    def _begin_to_give_back(self, contexts: Sequence[Context]) -> list[asyncio.Task[None]]:
        tasks = []
        for context in contexts:
            if not context._over:
                self._over(context)
                tasks.append(self._loop.create_task(self._returned(context)))
                self._returning.add(tasks[-1])
                tasks[-1].add_done_callback(self._returning.discard)
        return tasks

    async def _returned(self, context: Context) -> None:
        try:
            await self.feed.give_back(context._held)
            self.counts.given_back += 1
        except LeaseLost:
            self.counts.lost += 1
        except (RqfastError, asyncio.CancelledError) as error:
            log.warning(
                "%s: message %s of group %r could not be given back, its lease ends in %.1f s: %s",
                self.name, context.id, context.group, context.remaining(), str(error) or "the database did not answer",
            )  # fmt: skip

    def _over(self, context: Context) -> None:
        context._over = True
        self.active.pop(context, None)

    # -- failures -----------------------------------------------------------------------------------------

    async def _failure(self, context: Context, error: BaseException, *, ask: bool = True) -> Outcome:
        """What becomes of a message whose handler raised; by `on_error`, where there is one and it is asked."""
        self.counts.failed += 1
        context._error = error
        context.forget_collected()
        log.error(
            "%s: the handler failed with message %s of group %r (attempt %d): %s",
            self.name, context.id, context.group, context.attempt, self._what_next(context, ask),
            exc_info=raised_by_handler(error),
            extra={"group": context.group, "seq": context.id, "attempt": context.attempt},
        )  # fmt: skip
        if ask and self.subscription.on_error is not None:
            try:
                said = self.subscription.on_error(error, context)
                if asyncio.iscoroutine(said):
                    said = await said
                if said is not None:
                    outcome = as_outcome(said)
                    return Buried(outcome.reason, text_of(error)) if isinstance(outcome, Dead) else outcome
            except (Exception, asyncio.CancelledError) as failed:
                if isinstance(failed, asyncio.CancelledError) and _is_cancelled():
                    raise
                log.exception("%s: on_error failed, the message goes the usual way", self.name)
        return Failed(self._pause_after(context), text_of(error))

    def _what_next(self, context: Context, ask: bool) -> str:
        """For people: what becomes of a message that failed."""
        cap = self.subscription.max_attempts
        if ask and self.subscription.on_error is not None:
            return "on_error is asked"
        if cap is not None and context.attempt >= cap:
            return f"it is given up, after {context.attempt} attempt{'' if context.attempt == 1 else 's'}"
        if cap is None:
            return "it goes again"
        left = cap - context.attempt
        return f"it goes again, {left} {'attempt is' if left == 1 else 'attempts are'} left"

    def _pause_after(self, context: Context) -> float:
        try:
            return self.subscription.pause_after(context.attempt)
        except Exception:
            log.exception("%s: backoff failed, the message goes again at once", self.name)
            return 0.0

    def _final(self, context: Context, outcome: Outcome) -> Outcome:
        """The outcome with what was collected, and after the retry cap."""
        cap = self.subscription.max_attempts
        if isinstance(outcome, Retry | RetryAfter) and cap is not None and context.attempt >= cap:
            error = outcome.error if isinstance(outcome, Failed) else None
            what = "failed" if error is not None else "not done"
            return Buried(f"{what} after {context.attempt} attempt{'' if context.attempt == 1 else 's'}", error)
        if isinstance(outcome, Ack):
            publish, statements = context.collected
            if publish or statements:
                return Ack(
                    publish=[*outcome.publish, *publish], with_statements=[*outcome.with_statements, *statements]
                )
        return outcome

    # -- settling -----------------------------------------------------------------------------------------

    def _begin_to_settle(self, context: Context, outcome: Outcome) -> Awaitable[None]:
        """The settlement has begun, so that the next claim goes with it."""
        context._settling = True
        self.telling.handled(context, outcome)
        return self._settled(context, outcome, self._settlement(context, outcome))

    def _settlement(self, context: Context, outcome: Outcome) -> asyncio.Future[Any] | RqfastError | Exception:
        try:
            if isinstance(outcome, Dead):
                error = outcome.error if isinstance(outcome, Buried) else None
                return self.feed.bury(context._held, outcome.reason, error)
            return self.feed.settle(context._held, outcome)
        except Exception as error:
            # Bad input of the handler: a message or a statement that cannot be.
            return error

    async def _settled(self, context: Context, outcome: Outcome, doing: asyncio.Future[Any] | Exception) -> None:
        unsure = failed = False
        rest = FIRST_REST
        while True:
            try:
                if isinstance(doing, Exception):
                    raise doing
                await doing
                break
            except LeaseLost:
                if unsure:
                    break  # the first try took effect
                self._lost(context)
                return
            except (Unavailable, OutcomeUnknown) as error:
                unsure = unsure or isinstance(error, OutcomeUnknown)
                log.warning(
                    "%s: the outcome %r of message %s of group %r could not be told to the database, it is tried "
                    "again: %s", self.name, outcome, context.id, context.group, error,
                )  # fmt: skip
                await asyncio.sleep(rest)
                rest = min(rest * 2, LONGEST_REST)
            except Exception as error:
                if not isinstance(outcome, Ack) or outcome.is_plain:
                    raise
                # What is to commit with the Ack cannot.  Asked once: what `on_error` said may fail as well.
                outcome = self._final(context, await self._failure(context, error, ask=not failed))
                failed = True
            doing = self._settlement(context, outcome)
        self._over(context)
        self._count(outcome)
        self.telling.settled(context, outcome)

    def _count(self, outcome: Outcome) -> None:
        if isinstance(outcome, Dead):
            self.counts.dead += 1
            return
        for kind, name in COUNTED.items():
            if isinstance(outcome, kind):
                setattr(self.counts, name, getattr(self.counts, name) + 1)

    def _lost(self, context: Context) -> None:
        if context._over:
            return
        context.lease_lost = True
        self._over(context)
        self.counts.lost += 1
        log.warning(
            "%s: the lease of message %s of group %r (attempt %d) was lost, what its handler did is thrown away: "
            "somebody else has it; is visibility=%g s too short for a stall of this process?",
            self.name, context.id, context.group, context.attempt, self.visibility,
        )  # fmt: skip
        self.telling.lost(context)

    # -- leases -------------------------------------------------------------------------------------------

    def due_for_extension(self) -> list[Context]:
        """The messages of whose lease at most half is left; from any thread."""
        half = self.visibility / 2
        return [one for one in self.active.copy() if one._held.remaining() <= half and not one.lease_lost]

    def lease_lost(self, context: Context) -> None:
        """An extension was refused: the handler is told, in the loop's thread."""
        if not context._over and self.subscription.signature.is_async and context._task is not None:
            context._task.cancel()

    def extend(self, context: Context, visibility: float) -> Any:
        """See `Context.extend`."""

        async def extended() -> float:
            lost = await self.feed.extend([context._held], visibility)
            if lost:
                context.lease_lost = True
                raise LeaseLost(context.id, context.group, "extend")
            return context._held.expires_at

        return hop(self._loop, extended())

    # -- pausing and stopping -----------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether it claims nothing until `resume`."""
        return not self._resumed.is_set()

    def pause(self) -> None:
        """Claim nothing any more; what is in work goes on."""
        if self._resumed.is_set():
            self._resumed.clear()
            for task in self._waiting.copy():
                # Its claim is taken back; the place itself goes on.
                self._tasks.discard(task)
                task.remove_done_callback(self._ended)
                task.cancel()
                self._replace()

    def _replace(self) -> None:
        task = self._loop.create_task(self._work(), name=f"rqfast: {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def resume(self) -> None:
        """Claim again."""
        self._resumed.set()

    def stop_claiming(self) -> None:
        """Claim nothing any more; places that have nothing in work end."""
        self.stopping = True
        for task in self._waiting.copy():
            task.cancel()

    async def finished(self, seconds: float) -> bool:
        """Wait until all places have ended; whether they have."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0.0, seconds))
        return not self._tasks

    def cancel(self) -> None:
        """Cancel all handlers; what is being settled goes on."""
        for task in self._tasks - self._settling:
            task.cancel()

    async def abandon(self) -> list[asyncio.Task[None]]:
        """Give back what handlers still have that do not end; returns their tasks."""
        for task in self._settling:
            task.cancel()
        for context in [one for one in self.active if not one._settling]:
            log.error(
                "%s: the handler of message %s of group %r does not end, the message is given back and what it does "
                "is thrown away", self.name, context.id, context.group,
            )  # fmt: skip
        giving = self._loop.create_task(self._give_back(list(self.active)))
        quiet = self._loop.create_task(self.feed.quiet())
        await asyncio.wait((giving, quiet, *self._returning), timeout=GIVING_BACK)
        for late in (giving, quiet, *self._returning):
            # The database does not answer.
            late.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.remove_done_callback(self._ended)
        self._tasks.clear()
        return tasks


class Buried(Dead):
    """Dead, with the text of an error."""

    def __init__(self, reason: str, error: str | None) -> None:
        super().__init__(reason)
        self.error = error


class Failed(Retry):
    """Retry after an exception."""

    def __init__(self, delay: float, error: str) -> None:
        super().__init__(delay)
        self.error = error


def _forget_cancellation() -> None:
    """Of the running task: else what is cancelled later could not be told from it."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


def _is_cancelled() -> bool:
    """Whether the running task is to end; else what was cancelled is something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _each(value: Any, count: int) -> list[Any]:
    """What a handler of a batch returned: one outcome for all, or one for each."""
    if isinstance(value, list | tuple):
        if len(value) != count:
            raise TypeError(
                f"the handler returned {len(value)} outcomes for {count} messages: one for all, or one each"
            )
        return [as_outcome(one) for one in value]
    return _for_all(as_outcome(value), count)


def _for_all(said: Any, count: int) -> list[Any]:
    """What was said of a whole batch; an Ack with more would commit that once for each message."""
    if isinstance(said, Ack) and not said.is_plain:
        said = TypeError(
            "the handler gave one Ack(publish=.., with_statements=..) for all messages of a batch, where each settles "
            "in a transaction of its own: return a list, one outcome for each message"
        )
    return [said] * count
