"""Where the dead letters of a table go."""

from __future__ import annotations

from typing import Any

from ..address.inbox import Address, Inbox
from ..errors import ConfigError


def dead_letters_of(address: Address, dead_letter: Any) -> tuple[str | None, Inbox | None]:
    """Where dead letters go: a group, or a table."""
    inbox = address.inbox
    if dead_letter is None:
        return None, None
    if isinstance(dead_letter, Inbox):
        if dead_letter.table.lower() == inbox.table.lower():
            raise ConfigError(f"dead_letter= is table {inbox.table} itself: name another group of it, or another table")
        return None, dead_letter
    if not isinstance(dead_letter, str):
        raise ConfigError(
            f"dead_letter= of a subscription on table {inbox.table} is another group of it (str), or an Inbox with the "
            f"same columns, not {dead_letter!r}"
        )
    selection = address.selection
    if not inbox.has("group"):
        raise ConfigError(
            f"dead_letter={dead_letter!r} is a group, and table {inbox.table} has no column with that role"
        )
    if selection.groups is not None and dead_letter in selection.groups:
        raise ConfigError(f"dead_letter={dead_letter!r} is itself one of the groups of this subscription")
    if selection.prefix is not None and dead_letter.startswith(selection.prefix):
        raise ConfigError(f"dead_letter={dead_letter!r} begins with the prefix of this subscription")
    return dead_letter, None
