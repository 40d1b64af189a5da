"""The options that all transports share: checked once, with their defaults."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from ..errors import ConfigError
from ..sql.names import check_queue
from . import checks

LOST = ("raise", "warn")


@cache
def default_worker() -> str:
    """The name under which this process claims: host name and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"[:200]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=default_worker.cache_clear)


@dataclass(slots=True, kw_only=True)
class Options:
    """Options of every transport.

    Attributes:
        queue: which queue of the database; None is the default one, in the plain transport's tables.
        create: make the queue when it is not there.
        encode: event -> JSON text (str or bytes).
        decode: stored text -> event.
        clock: the source of the queue's time, for a database of its own (tests, simulation).
        lost: "raise" `LeaseLost`, or "warn": log it once and return.
        max_batch: messages in one request.
        max_in_flight: messages of `publish_many`, and of `publish_soon`, that are on their way at once; more wait.
        max_poll: the longest pause between two looks of a waiting claim, in seconds.
        dedup_window: how long a `dedup_id` is remembered, in seconds.
    """

    queue: str | None = None
    create: bool = True
    encode: Callable[[Any], str | bytes] | None = None
    decode: Callable[[str], Any] | None = None
    clock: Callable[[], float] | None = None
    lost: str = "raise"
    max_batch: int = 5000
    max_in_flight: int = 32_768
    max_poll: float = 0.5
    dedup_window: float = 300.0

    def __post_init__(self) -> None:
        check_queue(self.queue)
        for option in ("encode", "decode", "clock"):
            checks.option_callable(getattr(self, option), option)
        if self.lost not in LOST:
            raise ConfigError(f"lost={self.lost!r}: one of {LOST}")
        if not isinstance(self.create, bool):
            raise ConfigError(f"create={self.create!r}: True or False")
        checks.option_count(self.max_batch, "max_batch")
        checks.option_count(self.max_in_flight, "max_in_flight")
        self.max_poll = checks.option_seconds(self.max_poll, "max_poll")
        self.dedup_window = checks.option_seconds(self.dedup_window, "dedup_window")

    @property
    def window(self) -> int:
        """Requests of one `publish_many` that are on their way at once."""
        return max(1, self.max_in_flight // self.max_batch)

    @property
    def decoder(self) -> Callable[[str], Any]:
        """The decoder in use."""
        return self.decode or orjson.loads


def split(options: dict[str, Any], own: dict[str, Any], what: str) -> tuple[Options, dict[str, Any]]:
    """Part the options of all transports from those of one engine (`own`: name -> default).

    Raises:
        ConfigError: an option that neither knows.
    """
    shared = {name: value for name, value in options.items() if name in Options.__dataclass_fields__}
    unknown = sorted(set(options) - set(shared) - set(own))
    if unknown:
        known = ", ".join(sorted({*Options.__dataclass_fields__, *own}))
        raise ConfigError(f"{what} has no option {', '.join(unknown)}; it has {known}")
    return Options(**shared), own | {name: options[name] for name in options if name in own}
