"""Figures and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400


def count(number: int, one: str, many: str | None = None) -> str:
    """ "1 message", "2,000 messages" (str)."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def every(number: int, one: str) -> str:
    """ "the 1 message", "all 2,000 messages" (str)."""
    return f"{'the' if number == 1 else 'all'} {count(number, one)}"


def age(seconds: float) -> str:
    """A duration, to two places (str)."""
    if seconds < MINUTE:
        return f"{seconds:,.1f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:,.0f} min"
    if seconds < DAY:
        return f"{seconds / HOUR:,.1f} h"
    return f"{seconds / DAY:,.1f} days"


def instant(seconds: float | None) -> str:
    """A time in UTC, to the second; "never" where no calendar reaches (str)."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "never"


def brief(seconds: float | None) -> str:
    """The same; of today only the time (str)."""
    told = instant(seconds)
    day, _, clock = told.partition(" ")
    return clock if clock and day == datetime.now(UTC).strftime("%Y-%m-%d") else told


def short(text: str, most: int) -> str:
    """The beginning of a text, with dots where there was more (str)."""
    return text if len(text) <= most else text[: most - 1] + "…"


def rate(number: float, seconds: float) -> str:
    """So many a second (str)."""
    value = number / max(seconds, 1e-9)
    return f"{value:,.0f} a second" if value >= 10 else f"{value:,.1f} a second"
