"""From messages to outcomes: payloads are decoded, and the handler is called."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from .context import Context
from .counts import Counts
from .failures import Failures
from .outcomes import Ack, Outcome, as_outcome
from .settling import Settling
from .subscription import Subscription
from .threads import Threads

log: logging.Logger = logging.getLogger("rqfast.worker")


class Handling:
    """Has messages handled, one by itself or a batch.  Belongs to one loop.

    Args:
        decode: from a message in work to its payload.
        stopping: set when the worker stops: only then does a cancellation end more than one call.
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        threads: Threads,
        decode: Callable[[Any], Any],
        failures: Failures,
        settling: Settling,
        counts: Counts,
        stopping: asyncio.Event,
    ) -> None:
        self._subscription = subscription
        self._name = subscription.name
        self._threads = threads
        self._decode = decode
        self._failures = failures
        self._settling = settling
        self._counts = counts
        self._stopping = stopping

    async def outcomes(self, contexts: list[Context]) -> list[Outcome | None]:
        """One for each; None: it was given back, or lost.

        Raises:
            CancelledError: since the worker stops; they were given back.
        """
        if self._subscription.batch is None:
            return [await self._of_one(contexts[0])]
        return await self._of_batch(contexts)

    async def _of_one(self, context: Context) -> Outcome | None:
        """None: it was given back, or lost."""
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
        outcome = said if isinstance(said, Outcome) else await self._failures.failed(context, said)
        return None if self._is_late(context) else self._failures.final(context, outcome)

    async def _of_batch(self, contexts: list[Context]) -> list[Outcome | None]:
        """One for all, or one for each."""
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
        cap = self._subscription.max_attempts
        if cap is not None and context.attempt > cap:
            # The last one crashed with its worker, or another gave it back who has a larger cap.
            return self._failures.over_the_cap(context, cap)
        try:
            return (self._decode(context._held),)
        except Exception as error:
            return self._failures.undecodable(context, error)

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
            if not self._stopping.is_set():
                # It may have been cancelled, and gone on all the same.
                _forget_cancellation()

    async def _call(self, payload: Any, context: Any) -> Any:
        handler = self._subscription.handler
        if self._subscription.signature.is_async:
            if self._subscription.signature.takes_context:
                return await handler(payload, context)
            return await handler(payload)
        if self._subscription.signature.takes_context:
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
            self._settling.lost(context)
        else:
            self._counts.discarded += 1
        return True

    async def _let_go(self, contexts: Sequence[Context]) -> bool:
        """Whether the handler was cancelled from here, since leases were lost: then nothing is in its hands any more.

        Raises:
            CancelledError: since the worker stops.
        """
        task = asyncio.current_task()
        assert task is not None
        stops = self._stopping.is_set() and task.cancelling() > 0
        if not stops and not any(context.lease_lost for context in contexts):
            return False
        for context in contexts:
            if context.lease_lost:
                self._settling.lost(context)
        if stops and not self._subscription.signature.is_async:
            for context in contexts:
                log.warning(
                    "%s: the plain handler of message %s of group %r did not end in time: the message is given back, "
                    "and what the handler still does in its thread is thrown away",
                    self._name, context.id, context.group,
                )  # fmt: skip
        await self._settling.give_back(contexts)
        if stops:
            raise asyncio.CancelledError
        return True


def _forget_cancellation() -> None:
    """Of the running task: else what is cancelled later could not be told from it."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


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
