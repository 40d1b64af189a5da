"""What an opening transport makes of the tables it finds: pure decisions, obeyed by both engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import SchemaError
from .names import INDEXES, TABLES, TRIGGERS, VIEWS
from .statements import Statements

SCHEMA_VERSION = 1

# How often statistics on the queue's tables are looked for, in seconds.
HOUR = 3600.0

_COLUMNS = {
    "seq", "group_id", "event", "locked_by", "lock_expiry", "rank", "due", "attempts", "headers", "published_at",
    "last_claimed_at", "priority", "ready_at", "turn", "paused",
}  # fmt: skip


def must_make(registry: Sequence[Sequence[object]], queue: str | None, create: bool) -> bool:
    """Whether the tables of `queue` are still to be made (or those of the plain transport to be upgraded).

    `registry` holds the rows of rqfast_schema, none when there is no such table.

    Raises:
        SchemaError: it is not there and may not be made, or a newer rqfast made it.
    """
    versions = {str(row[0]): row[1] for row in registry}
    version = versions.get(queue or "")
    if version is None:
        if create:
            return True
        if not versions:
            raise SchemaError(f"{_called(queue)} is not in this database, nor is any other")
        there = ", ".join(name or "(default)" for name in versions)
        raise SchemaError(f"{_called(queue)} is not in this database; queues that are: {there}")
    if version != SCHEMA_VERSION:
        raise SchemaError(
            f"{_called(queue)} has tables of version {version}, this rqfast knows {SCHEMA_VERSION}: "
            "upgrade rqfast in this process"
        )
    return False


def making(statements: Statements, queue: str | None, *, beside_old: bool = True) -> list[list[object]]:
    """The one transaction that makes a queue.  Its version row comes first: whoever comes second changes nothing.

    The plain transport speaks to servers only, so a fresh file needs nothing that keeps its workers in order
    (`beside_old`).
    """
    parameters: dict[str, list[object]] = {"registry_add": [queue or "", SCHEMA_VERSION]}
    made = statements.schema | statements.compat if beside_old else statements.schema
    return [[text, *parameters.get(name, [])] for name, text in made.items()]


def was_second(text: str) -> bool:
    """Whether the transaction of `making` failed because another process had made the queue."""
    return "rqfast_schema" in text and "UNIQUE" in text


def expected(statements: Statements) -> list[str]:
    """The names of the tables, indexes and views of the queue."""
    return [statements.names[name] for name in (*TABLES, *INDEXES, *VIEWS)]


def triggers(statements: Statements) -> list[str]:
    """The names of the triggers that keep old workers in order, while they are let in."""
    return [statements.names[name] for name in TRIGGERS]


def missing_columns(columns: Iterable[object]) -> list[str]:
    """The columns of messages and groups that are not among these."""
    return sorted(_COLUMNS - {str(name) for name in columns})


def check_complete(
    statements: Statements, queue: str | None, objects: Iterable[object], columns: Iterable[object]
) -> None:
    """Raise `SchemaError` that names what is missing.

    Needed because a server goes on with the rest of a request when one of its statements cannot be prepared.
    """
    there = {str(name) for name in objects}
    missing = [name for name in expected(statements) if name not in there]
    tables = {statements.names[name] for name in TABLES}
    no_columns = [f"column {name}" for name in missing_columns(columns)]
    if missing or no_columns:
        held = bool(no_columns or tables.intersection(missing))
        option = "" if queue is None else f" --queue {queue}"
        remedy = "restore the database from a backup" if held else f"`rqfast verify --repair{option}` makes it anew"
        raise SchemaError(f"{_called(queue)} is not complete, {', '.join(missing + no_columns)} missing: {remedy}")


def _called(queue: str | None) -> str:
    return "the default queue" if queue is None else f"queue {queue!r}"
