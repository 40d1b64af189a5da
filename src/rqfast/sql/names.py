"""The names of a queue's tables and indexes: checked, then quoted.  Nothing else makes an identifier."""

from __future__ import annotations

import re

from ..errors import ConfigError

_QUEUE = re.compile(r"[a-z][a-z0-9_]{0,23}")

TABLES = ("messages", "groups", "state", "lane", "dedup", "dead")
INDEXES = ("m_head", "m_lock", "g_ready", "g_pri", "g_due", "d_until", "x_group")
VIEWS = ("any", "high", "keyed", "served", "stamped", "shown")
# Of the default queue only: no old worker knows another.
TRIGGERS = (
    "old_publish", "old_group", "old_claim", "old_nack", "old_ack", "old_held", "old_run", "old_done", "old_drain",
)  # fmt: skip


def check_queue(queue: str | None) -> str | None:
    """Return `queue`, or raise `ConfigError` when it cannot name a queue.

    The letters are few on purpose: SQLite compares table names without case, and operators type them.
    """
    if queue is None:
        return None
    if not isinstance(queue, str):
        raise ConfigError(f"queue= is a name or None, not {type(queue).__name__}")
    if not _QUEUE.fullmatch(queue):
        raise ConfigError(
            f"queue={queue!r}: a name is 1 to 24 lower-case letters, digits and underscores, and begins with a letter"
        )
    return queue


def quote(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def table_names(queue: str | None) -> dict[str, str]:
    """Return the real name (not yet quoted) of each table, index, view and trigger of a queue.

    The default queue uses the tables of the plain transport, `messages` and `groups`; every other queue has a
    prefix of its own.
    """
    prefix = "rqfast_" if queue is None else f"rqfast_{queue}_"
    names = {name: prefix + name for name in (*TABLES, *INDEXES, *VIEWS, *TRIGGERS)}
    if queue is None:
        names["messages"], names["groups"] = "messages", "groups"
    # The index of the primary key, which SQLite names itself.
    names["g_key"] = f"sqlite_autoindex_{names['groups']}_1"
    return names
