"""Calls that are made of several: what the outcomes of the parts amount to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import LeaseLost, OutcomeUnknown, RqfastError, Unavailable


def failure_of(outcomes: Sequence[Any], on_lost: Callable[[Exception], None] | None) -> RqfastError | None:
    """The error of a claim's further `ack=`; None when all took effect, or only `on_lost` is to know that not."""
    for outcome in outcomes:
        if isinstance(outcome, LeaseLost) and on_lost is not None:
            on_lost(outcome)
        elif isinstance(outcome, RqfastError):
            return truthful(outcome, outcomes)
    return None


def truthful(error: RqfastError, outcomes: Sequence[Any]) -> RqfastError:
    """The error of a call with these parts: `Unavailable` only where nothing of it was applied."""
    applied = any(not isinstance(outcome, BaseException) or isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
    if not applied or not isinstance(error, Unavailable):
        return error
    return OutcomeUnknown(
        f"a part of this call took effect, or may have, and the rest did not; what was settled is lost now: {error}"
    )
