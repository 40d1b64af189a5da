"""The options of `connect` as type checkers see them; what they mean stands there."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, TypedDict


class ConnectOptions(TypedDict, total=False):
    """Options by name; which engine takes which is found out when it is opened."""

    queue: str | None
    create: bool
    encode: Callable[[Any], str | bytes] | None
    clock: Callable[[], float] | None
    lost: Literal["raise", "warn"]
    max_batch: int
    max_in_flight: int
    max_poll: float | timedelta
    dedup_window: float | timedelta
    timeout: float | timedelta
    connect_retries: int
    retry_delay: float | timedelta
    auth: tuple[str, str] | None
    ssl: ssl.SSLContext | None
    discover: bool
    synchronous: str
    busy_timeout: float | timedelta
