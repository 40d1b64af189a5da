"""The time that SQL tells, shifted; and `subsec` where this SQLite is too old to know it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

_KNOWS_SUBSEC = (3, 42, 0)
_SUBSEC = ("subsec", "subsecond")
_FUNCTIONS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
_CONSTANTS = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}


class Clock:
    """Time functions for the connections of one database.

    Args:
        skew: seconds by which all of them are ahead of this machine's clock.
    """

    def __init__(self, skew: float = 0.0) -> None:
        self.skew = skew
        self._plain: sqlite3.Connection | None = None

    def install(self, db: sqlite3.Connection) -> None:
        """Replace the functions of one connection, as far as SQLite's own are not right."""
        if self.skew == 0 and sqlite3.sqlite_version_info >= _KNOWS_SUBSEC:
            return
        if self._plain is None:
            self._plain = sqlite3.connect(":memory:")
        replaced = _FUNCTIONS if self.skew else ("unixepoch",)
        for name in replaced:
            # Called once in a statement, as SQLite's own: `now` does not move while a statement runs.
            _replace(db, name, -1, partial(self._call, name))
        for name, function in _CONSTANTS.items() if self.skew else ():
            _replace(db, name, 0, partial(self._call, function))

    def close(self) -> None:
        """End what `install` opened."""
        if self._plain is not None:
            self._plain.close()

    def _call(self, name: str, *arguments: Any) -> Any:
        given = list(arguments)
        at = 1 if name == "strftime" else 0
        first = str(given[at]).lower() if len(given) > at else ""
        if first in _SUBSEC:
            given.insert(at, self._now())
        elif first == "now":
            given[at] = self._now()
        elif len(given) == at:
            given.append(self._now())
        if name == "unixepoch" and any(str(value).lower() in _SUBSEC for value in given[1:]):
            return self._unixepoch(given)
        return self._ask(name, given)

    def _now(self) -> str:
        moment = datetime.fromtimestamp(time.time() + self.skew, UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S.%f}"

    def _unixepoch(self, given: list[Any]) -> float | None:
        known = [value for value in given if str(value).lower() not in _SUBSEC]
        seconds, fraction = self._ask("unixepoch", known), self._ask("strftime", ["%f", *known])
        return None if seconds is None else round(seconds + float(fraction) % 1, 3)

    def _ask(self, name: str, given: list[Any]) -> Any:
        assert self._plain is not None
        return self._plain.execute(f"SELECT {name}({','.join('?' * len(given))})", given).fetchone()[0]


def _replace(db: sqlite3.Connection, name: str, arguments: int, function: Callable[..., Any]) -> None:
    db.create_function(name, arguments, function, deterministic=True)
