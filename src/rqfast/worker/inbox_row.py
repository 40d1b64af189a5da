"""A row of the user's own table, in work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from ..address.inbox import Inbox
from ..model import Header

_extensions = threading.Lock()


class Row:
    """A claimed row.

    Attributes:
        id: its id (int or str).
        group_id: its group (str), "" where the table has none.
        group: the same as it is stored.
        attempts: how often it was claimed (int, from 1); 1 where the table does not count.
        token: what proves the lease (str, or the lease's end where the table has no token column).
        expires_at: when the lease ends, seconds on the queue's clock (float).
        raw: the payload as it is stored (str, bytes, or another value of SQLite).
        row: the declared class filled, or a dict from column to value.
        fence: rises with every claim (int).
        settled: whether an outcome was given already.
        extending: whether its lease is just being extended.
    """

    __slots__ = (
        "_columns", "_inbox", "_now", "attempts", "expires_at", "extending", "fence", "group", "group_id", "id", "raw",
        "row", "settled", "token",
    )  # fmt: skip

    def __init__(
        self,
        inbox: Inbox,
        columns: Mapping[str, Any],
        token: Any,
        expires_at: float,
        fence: int,
        now: Callable[[], float],
    ) -> None:
        roles = inbox.roles
        self._inbox = inbox
        self._columns = columns
        self._now = now
        self.id: Any = columns[roles["id"]]
        self.group: Any = columns[roles["group"]] if inbox.has("group") else None
        self.group_id: str = "" if self.group is None else str(self.group)
        attempts = columns[roles["attempt"]] if inbox.has("attempt") else 1
        self.attempts: int = attempts if isinstance(attempts, int) else 1
        self.token: Any = token
        self.expires_at: float = expires_at
        self.fence: int = fence
        self.raw: Any = columns[roles["payload"]]
        self.row: Any = _filled(inbox, columns)
        self.settled: bool = False
        self.extending: bool = False

    @property
    def seq(self) -> Any:
        """Its id (int or str)."""
        return self.id

    @property
    def headers(self) -> dict[str, Header]:
        """What travels with it; parsed when it is looked at."""
        found: dict[str, Header] = {}
        column = self._inbox.roles.get("headers")
        text = self._columns[column] if column is not None else None
        if text:
            try:
                parsed = orjson.loads(text)
            except (orjson.JSONDecodeError, TypeError):
                parsed = None
            if isinstance(parsed, dict):
                found.update(parsed)
        for name, own in self._inbox.header_columns.items():
            if self._columns[own] is not None:
                found[name] = self._columns[own]
        return found

    def remaining(self) -> float:
        """Seconds left of its lease, never below 0."""
        return max(0.0, self.expires_at - self._now())

    def begin_extension(self) -> bool:
        """Whether no other one is under way, in any thread: their order would be lost, and with it the lease's end."""
        with _extensions:
            if self.extending:
                return False
            self.extending = True
            return True

    def __repr__(self) -> str:
        return f"<Row {self.id!r} of table {self._inbox.table}, group {self.group_id!r}, attempt {self.attempts}>"


def _filled(inbox: Inbox, columns: Mapping[str, Any]) -> Any:
    if inbox.row_class is None:
        return dict(columns)
    made: Any = object.__new__(inbox.row_class)
    for attribute, column in inbox.attributes.items():
        value = columns[column]
        if column in inbox.iso_text and isinstance(value, str):
            value = _time_of(value)
        # Past __setattr__, which a frozen class refuses.
        object.__setattr__(made, attribute, value)
    return made


def _time_of(text: str) -> Any:
    """A time as the class has it; text that is none stays what it is."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def unquoted(text: str | None) -> Any:
    """The value of what SQLite's quote() made, or of text after a t (None, int, float, str or bytes)."""
    if text is None or text == "NULL":
        return None
    if text.startswith("t"):
        return text[1:]
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith(("X'", "x'")):
        return bytes.fromhex(text[2:-1])
    try:
        return int(text)
    except ValueError:
        return float(text)
