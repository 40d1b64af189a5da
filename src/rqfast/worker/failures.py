"""What becomes of a message whose handling failed: by `on_error`, the retry cap, and the back-off."""

from __future__ import annotations

import asyncio
import logging

from .context import Context
from .counts import Counts
from .errortext import raised_by_handler, text_of
from .outcomes import Ack, Dead, Outcome, Retry, RetryAfter, as_outcome
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
            self._name, context.id, context.group, context.attempt, self._what_next(context, ask),
            exc_info=raised_by_handler(error),
            extra={"group": context.group, "seq": context.id, "attempt": context.attempt},
        )  # fmt: skip
        if ask and self._subscription.on_error is not None:
            try:
                said = self._subscription.on_error(error, context)
                if asyncio.iscoroutine(said):
                    said = await said
                if said is not None:
                    outcome = as_outcome(said)
                    return Buried(outcome.reason, text_of(error)) if isinstance(outcome, Dead) else outcome
            except (Exception, asyncio.CancelledError) as failed:
                if isinstance(failed, asyncio.CancelledError) and _is_cancelled():
                    raise
                log.exception("%s: on_error failed, the message goes the usual way", self._name)
        return Failed(self._pause_after(context), text_of(error))

    def _what_next(self, context: Context, ask: bool) -> str:
        """For people: what becomes of a message that failed."""
        cap = self._subscription.max_attempts
        if ask and self._subscription.on_error is not None:
            return "on_error is asked"
        if cap is not None and context.attempt >= cap:
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
        if isinstance(policy, Dead):
            return Buried(policy.reason, text_of(error))
        return self.final(context, policy)

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


def _is_cancelled() -> bool:
    """Whether the running task is to end; else what was cancelled is something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
