"""Plain values of the public API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

Seconds: TypeAlias = float | timedelta
"""A duration: seconds (int or float) or a timedelta."""

Header: TypeAlias = str | int | float | bool | None
"""A header's value."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to publish, as a value: the arguments of `publish`.

    Example:
        >>> Message("customer-7", {"total": 3}, rank=-1)
        Message(group_id='customer-7', event={'total': 3}, priority=0, delay=0, rank=-1, headers=None, dedup_id=None)
    """

    group_id: str
    event: Any
    priority: int = 0
    delay: Seconds = 0
    rank: int = 0
    headers: dict[str, Header] | None = None
    dedup_id: str | None = None
