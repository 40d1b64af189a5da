"""What becomes of a message whose handling failed: by `on_error`, the retry cap, and the back-off."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from .context import Context
from .counts import Counts
from .errortext import raised_by_handler, text_of, told
from .outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter, as_outcome
from .subscription import Subscription

log: logging.Logger = logging.getLogger("rqfast.worker")


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


class Failures:
    """Finds outcomes as a subscription declares them, and makes them final.

    Args:
        visibility: how long a lease lasts, in seconds.
    """

    def __init__(self, subscription: Subscription, visibility: float, counts: Counts) -> None:
        self._subscription = subscription
        self._name = subscription.name
        self._visibility = visibility
        self._counts = counts

    async def failed(self, context: Context, error: BaseException, *, ask: bool = True) -> Outcome:
        """What becomes of a message whose handler raised; by `on_error`, where there is one and it is asked."""
        self._counts.failed += 1
        context._error = error
        context.forget_collected()
        log.error(
            "%s: the handler failed with message %s of group %r (attempt %d): %s",
            self._name, context.id, context.group, context.attempt,
            "on_error is asked" if ask and self._subscription.on_error is not None else self._goes_again(context),
            exc_info=raised_by_handler(error),
            extra=_fields(context),
        )  # fmt: skip
        if ask and self._subscription.on_error is not None:
            said = await self._asked(context, error)
            log.warning(
                "%s: after on_error, of message %s of group %r (attempt %d): %s",
                self._name, context.id, context.group, context.attempt,
                self._goes_again(context) if said is None else self._goes(context, said),
                extra=_fields(context),
            )  # fmt: skip
            if said is not None:
                return said
        return Failed(self._pause_after(context), text_of(error))

    async def _asked(self, context: Context, error: BaseException) -> Outcome | None:
        """What `on_error` says; None: the usual way."""
        on_error = self._subscription.on_error
        assert on_error is not None
        try:
            said = on_error(error, context)
            if asyncio.iscoroutine(said):
                said = await said
            outcome = None if said is None else as_outcome(said)
        except (Exception, asyncio.CancelledError) as failed:
            if isinstance(failed, asyncio.CancelledError) and _is_cancelled():
                raise
            log.exception("%s: on_error failed, the message goes the usual way", self._name)
            return None
        return Buried(outcome.reason, text_of(error)) if isinstance(outcome, Dead) else outcome

    def _goes(self, context: Context, outcome: Outcome) -> str:
        """For people: what becomes of a message with this outcome."""
        if isinstance(outcome, Dead):
            return f"it goes to {self._grave()}: {outcome.reason!r}"
        if isinstance(outcome, Drop):
            return "it is dropped"
        if isinstance(outcome, Retry | RetryAfter):
            again = self._goes_again(context)
            return f"{again}, in {outcome.delay:g} s" if outcome.delay and not self._is_last(context) else again
        return "it is done"

    def _grave(self) -> str:
        """For people: where messages go that are given up."""
        where = self._subscription.dead_letter
        if isinstance(where, str):
            return f"group {where!r} as a dead letter"
        if self._subscription.inbox is None:
            return "the dead letters"
        return "nowhere, as there is no dead_letter=" if where is None else f"table {where.table} as a dead letter"

    def _is_last(self, context: Context) -> bool:
        cap = self._subscription.max_attempts
        return cap is not None and context.attempt >= cap

    def _goes_again(self, context: Context) -> str:
        """For people: what becomes of a message that is to go again."""
        cap = self._subscription.max_attempts
        if self._is_last(context):
            return f"it is given up, after {context.attempt} attempt{'' if context.attempt == 1 else 's'}"
        if cap is None:
            return "it goes again"
        left = cap - context.attempt
        return f"it goes again, {left} {'attempt is' if left == 1 else 'attempts are'} left"

    def _pause_after(self, context: Context) -> float:
        try:
            return self._subscription.pause_after(context.attempt)
        except Exception:
            log.exception("%s: backoff failed, the message goes again at once", self._name)
            return 0.0

    def undecodable(self, context: Context, error: Exception) -> Outcome:
        """What becomes of a message whose payload could not be decoded."""
        context._error = error
        policy = self._subscription.on_undecodable
        if policy is None:
            policy = Dead("undecodable") if self._subscription.max_attempts is not None else Retry(self._visibility)
        log.error(
            "%s: the payload of message %s of group %r (attempt %d) could not be decoded, %s: %s",
            self._name, context.id, context.group, context.attempt, self._goes(context, policy), told(error),
            extra=_fields(context),
        )  # fmt: skip
        if isinstance(policy, Dead):
            return Buried(policy.reason, text_of(error))
        return self.final(context, policy)

    def over_the_cap(self, context: Context, cap: int) -> Outcome:
        """What becomes of a message that was delivered so often before that it is not tried any more."""
        before = f"{context.attempt - 1} time{'' if context.attempt == 2 else 's'}"
        outcome = Dead(f"delivered {before} before, and max_attempts is {cap}: not tried again")
        log.warning(
            "%s: of message %s of group %r (attempt %d): %s",
            self._name, context.id, context.group, context.attempt, self._goes(context, outcome),
            extra=_fields(context),
        )  # fmt: skip
        return outcome

    def final(self, context: Context, outcome: Outcome) -> Outcome:
        """The outcome with what was collected, and after the retry cap."""
        cap = self._subscription.max_attempts
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


def _fields(context: Context) -> dict[str, Any]:
    """For formatters: of which message a line is."""
    return {"group": context.group, "seq": context.id, "attempt": context.attempt}


def _is_cancelled() -> bool:
    """Whether the running task is to end; else what was cancelled is something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
