"""How messages in work end: settled, lost, or given back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from ..errors import LeaseLost, OutcomeUnknown, RqfastError, Unavailable
from .away import FIRST_REST, LONGEST_REST
from .context import Context
from .counts import Counts
from .failures import Buried, Failures
from .feed import Feed
from .outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter
from .telling import Telling

log: logging.Logger = logging.getLogger("rqfast.worker")

COUNTED: dict[type[Outcome], str] = {Ack: "acked", Retry: "retried", RetryAfter: "retried", Drop: "dropped"}


class Settling:
    """Ends messages of one subscription.  Belongs to one loop.

    Args:
        name: of the subscription.
        visibility: how long a lease lasts, in seconds.
        active: the messages in work; those that end are taken out.

    Attributes:
        returning: what gives messages back just now.
    """

    def __init__(
        self,
        name: str,
        feed: Feed,
        *,
        visibility: float,
        active: dict[Context, None],
        failures: Failures,
        counts: Counts,
        telling: Telling,
    ) -> None:
        self._name = name
        self._feed = feed
        self._visibility = visibility
        self._active = active
        self._failures = failures
        self._counts = counts
        self._telling = telling
        self._loop = asyncio.get_running_loop()
        self.returning: set[asyncio.Task[None]] = set()

    def begin(self, context: Context, outcome: Outcome) -> Awaitable[None]:
        """The settlement has begun, so that the next claim goes with it."""
        context._settling = True
        self._telling.handled(context, outcome)
        return self._settled(context, outcome, self._settlement(context, outcome))

    def _settlement(self, context: Context, outcome: Outcome) -> asyncio.Future[Any] | RqfastError | Exception:
        try:
            if isinstance(outcome, Dead):
                error = outcome.error if isinstance(outcome, Buried) else None
                return self._feed.bury(context._held, outcome.reason, error)
            return self._feed.settle(context._held, outcome)
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
                self.lost(context)
                return
            except (Unavailable, OutcomeUnknown) as error:
                unsure = unsure or isinstance(error, OutcomeUnknown)
                log.warning(
                    "%s: the outcome %r of message %s of group %r could not be told to the database, it is tried "
                    "again: %s", self._name, outcome, context.id, context.group, error,
                )  # fmt: skip
                await asyncio.sleep(rest)
                rest = min(rest * 2, LONGEST_REST)
            except Exception as error:
                if not isinstance(outcome, Ack) or outcome.is_plain:
                    raise
                # What is to commit with the Ack cannot.  Asked once: what `on_error` said may fail as well.
                outcome = self._failures.final(context, await self._failures.failed(context, error, ask=not failed))
                failed = True
            doing = self._settlement(context, outcome)
        self._over(context)
        self._count(outcome)
        self._telling.settled(context, outcome)

    def _count(self, outcome: Outcome) -> None:
        if isinstance(outcome, Dead):
            self._counts.dead += 1
            return
        for kind, name in COUNTED.items():
            if isinstance(outcome, kind):
                setattr(self._counts, name, getattr(self._counts, name) + 1)

    def lost(self, context: Context) -> None:
        """Its lease was lost."""
        if context._over:
            return
        context.lease_lost = True
        self._over(context)
        self._counts.lost += 1
        log.warning(
            "%s: the lease of message %s of group %r (attempt %d) was lost, what its handler did is thrown away: "
            "somebody else has it, or it was released by an operator; else is visibility=%g s too short for a stall of "
            "this process?",
            self._name, context.id, context.group, context.attempt, self._visibility,
        )  # fmt: skip
        self._telling.lost(context)

    def _over(self, context: Context) -> None:
        context._over = True
        self._active.pop(context, None)

    async def give_back(self, contexts: Sequence[Context]) -> None:
        """Put them back at their places, with no attempt spent, and wait until that is done."""
        tasks = self.begin_to_give_back(contexts)
        if tasks:
            # Not cancelled with the handler.
            await asyncio.wait(tasks)

    def begin_to_give_back(self, contexts: Sequence[Context]) -> list[asyncio.Task[None]]:
        """Begin with that; returns the tasks that do it."""
        tasks = []
        for context in contexts:
            if not context._over:
                self._over(context)
                tasks.append(self._loop.create_task(self._returned(context)))
                self.returning.add(tasks[-1])
                tasks[-1].add_done_callback(self.returning.discard)
        return tasks

    async def _returned(self, context: Context) -> None:
        try:
            await self._feed.give_back(context._held)
            self._counts.given_back += 1
        except LeaseLost:
            self._counts.lost += 1
        except (RqfastError, asyncio.CancelledError) as error:
            log.warning(
                "%s: message %s of group %r could not be given back, its lease ends in %.1f s: %s",
                self._name, context.id, context.group, context.remaining(), str(error) or "the database did not answer",
            )  # fmt: skip
