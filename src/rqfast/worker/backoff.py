"""How long a message that failed waits before it goes again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..errors import ConfigError
from ..model import Seconds
from ..transport import checks


@dataclass(frozen=True, slots=True)
class Exponential:
    """Back-off that grows with each attempt: `first`, `first * factor`, .., at most `most`; times in seconds.

    Args:
        first: after the first failure.
        factor: by which it grows.
        most: the longest.
        jitter: 0 to 1: so much of it is left to chance, so that what failed together does not come back together.

    Example:
        >>> worker.subscriber(group="crm", backoff=Exponential(first=1, most=300))
    """

    first: float = 1.0
    factor: float = 2.0
    most: float = 300.0
    jitter: float = 0.25
    _chance: Callable[[], float] = field(default=random.random, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"Exponential(jitter={self.jitter!r}): 0 to 1")
        if not self.factor >= 1:
            raise ConfigError(f"Exponential(factor={self.factor!r}): 1 or more")
        if not 0 <= self.first <= self.most:
            raise ConfigError(f"Exponential(first={self.first!r}, most={self.most!r}): 0 or more, first at most most")

    def delay(self, attempt: int) -> float:
        """Seconds after attempt number `attempt`, counted from 1."""
        grown = self.most
        if self.first * self.factor ** min(attempt - 1, 1000) < self.most:
            grown = self.first * self.factor ** (attempt - 1)
        return grown * (1 - self.jitter * self._chance())


Backoff: TypeAlias = Exponential | Seconds | Callable[[int], Seconds]
"""A policy, seconds, or a function from the attempt (1, 2, ..) to seconds."""


def as_backoff(value: Backoff | None) -> Callable[[int], float]:
    """From what a declaration says to seconds after each attempt; None: at once.

    Raises:
        ConfigError: it is nothing of that kind.
    """
    if value is None:
        return _at_once
    if isinstance(value, Exponential):
        return value.delay
    if callable(value):
        return lambda attempt: checks.seconds(value(attempt), "backoff")
    seconds = checks.option_seconds(value, "backoff", positive=False)
    return lambda attempt: seconds


def _at_once(attempt: int) -> float:
    return 0.0
