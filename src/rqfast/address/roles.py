"""What a column of the user's own table is for: `Annotated[int, Id]` or `Annotated[int, Id(generated=True)]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

# Each may stand once in a table; `header` is of many names.
ROLES = (
    "id", "group", "priority", "retry_at", "attempt", "locked_until", "token", "payload", "headers", "processed_at",
)  # fmt: skip

HEADER = "header:"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that is described by hand; or, in an annotation, one that has no role.

    Args:
        name: of the column; in an annotation that of the attribute by default.
        generated: left to the database when a row is published.
        iso_text: of a time: ISO 8601 UTC text (in an annotation: `datetime`) instead of seconds since 1970.
    """

    name: str | None = None
    generated: bool = False
    iso_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a column is for.

    Args:
        column: its name, where that is not the attribute's.
        generated: left to the database when a row is published.
    """

    role: ClassVar[str] = ""

    column: str | None = None
    generated: bool = False

    @property
    def key(self) -> str:
        """Its name among the roles of an `Inbox` (str)."""
        return self.role


class Id(Role):
    """What tells rows apart, a unique int or text; rows that are equal in all else go in its order."""

    __slots__ = ()
    role = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Role):
    """The row's group.

    Args:
        fifo: one row of a group in work, in claim order.
        exclusive: one row of a group in work, in no order: one that fails or waits holds nobody back.
            Neither: it only routes.
    """

    role: ClassVar[str] = "group"

    fifo: bool = False
    exclusive: bool = False


class Priority(Role):
    """Its place in the group: smaller first."""

    __slots__ = ()
    role = "priority"


class RetryAt(Role):
    """When it is due; NULL is now.  Earlier goes first among rows of one priority."""

    __slots__ = ()
    role = "retry_at"


class Attempt(Role):
    """How often it was claimed; the claim writes it."""

    __slots__ = ()
    role = "attempt"


class LockedUntil(Role):
    """When its lease, or its pause, ends."""

    __slots__ = ()
    role = "locked_until"


class Token(Role):
    """Text: who holds it.  Without this column the lease's end is its token."""

    __slots__ = ()
    role = "token"


class Payload(Role):
    """What the handler gets."""

    __slots__ = ()
    role = "payload"


class Headers(Role):
    """A JSON object: what travels with the row, those that have no column of their own."""

    __slots__ = ()
    role = "headers"


class ProcessedAt(Role):
    """When it was finished: then finished rows stay in the table."""

    __slots__ = ()
    role = "processed_at"


@dataclass(frozen=True, slots=True)
class Header(Role):
    """The value of one header.

    Args:
        name: of the header; that of the attribute by default.
    """

    role: ClassVar[str] = "header"

    name: str | None = None

    @property
    def key(self) -> str:
        """Its name among the roles of an `Inbox` (str)."""
        return f"{HEADER}{self.name}"
