"""What must hold in the tables of a queue, and how what does not is said.  The statements are those of verify.sql."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..sql import Statements
from ..sql.names import TABLES, quote
from ..sql.remake import derived
from ..sql.upgrade import missing_columns
from .found import Finding

BACKUP = "restore the database from a backup"


@dataclass(frozen=True, slots=True)
class Check:
    """One of them: a statement of that name gives rows of what must not be, each a subject and two values.

    Attributes:
        name: of the statement.
        kind: what the subject is.
        text: what is wrong, of {a} and {b}.
        mends: the statements that mend it, run until nothing is left; none: nothing here can.
        done: what mending did, of {n}.
        advice: what to do where nothing mends it.
    """

    name: str
    kind: str
    text: str
    mends: tuple[str, ...] = ()
    done: str = ""
    advice: str = BACKUP


CHECKS = (
    Check("state_row", "table", "the table of the queue's time and turn has {a} rows, and needs one"),
    Check("state_value", "table", "the queue's time is {a} and its turn {b}, or its pause is neither 0 nor 1"),
    Check(
        "state_busy", "table", "marked as in the middle of a request", ("mend_state_busy",),
        "the mark of a request was taken away",
    ),
    Check(
        "group_missing", "group", "has {a} messages, the first of seq {b}, and no row: nobody can claim them",
        ("mend_group_missing",), "{n} groups have a row again",
    ),
    Check(
        "group_empty", "group", "has a row and no message", ("mend_group_empty",),
        "{n} rows of groups without a message are gone",
    ),
    Check(
        "group_late", "group", "is held back until {a}, and could be claimed from {b} on (0: now)",
        ("mend_group_late",), "{n} groups can be claimed again when they should",
    ),
    Check(
        "group_priority", "group", "has priority {a}, outside 0 to 4", ("mend_group_priority",),
        "the priority of groups that are not paused any more is set",
        "set it by SQL, in the column priority of the groups",
    ),
    Check(
        "group_turn", "group", "was served in turn {a}, and the queue is at {b}", ("mend_group_turn",),
        "the queue's turn is ahead of all groups again",
    ),
    Check(
        "group_leases", "group", "has {a} messages in work at once, of seq {b}", (), "",
        "release the group: its workers are told that their leases are lost",
    ),
    Check(
        "message_lock", "message", "of group {a} has a lock that never ends", (), "",
        "release its group, or delete the message",
    ),
    Check("message_value", "message", "of group {a} has no valid attempts ({b}), rank or due time"),
    Check(
        "dead_again", "dead letter", "of group {a} stands among the messages too, in group {b}", (), "",
        "drop the dead letter, or delete the message",
    ),
    Check(
        "dead_priority", "dead letter", "of group {a} has priority {b}, outside 0 to 4", (), "",
        "set it by SQL, in the column priority of the dead letters",
    ),
    Check(
        "lane_number", "lane", "has the number {a}", (), "",
        "its client will be refused: end that process, then delete the row",
    ),
    Check(
        "dedup_seq", "dedup id", "stands for seq {a}, which is none or that of another id", (), "",
        "delete the row: a publish under this id is then a new one",
    ),
    Check(
        "sequence", "table", "the last seq given is noted as {a}, and {b} is in use: the next publish would fail",
        ("mend_sequence", "mend_sequence_row"), "the last seq given is noted again",
    ),
)  # fmt: skip


def lacks(check: Check, statements: Statements, there: Iterable[str]) -> list[str]:
    """The tables and indexes that a check needs and that are not there."""
    held, text = set(there), statements.verify[check.name]
    return [name for name in statements.names.values() if quote(name) in text and not _stands(name, held)]


def _stands(name: str, there: set[str]) -> bool:
    return name in there or name.startswith("sqlite_autoindex_")


def finding(check: Check, queue: str, rows: Sequence[Sequence[Any]], count: int) -> Finding:
    """What the rows of a check amount to; of many the first is told."""
    _, subject, a, b = rows[0]
    what = check.text.format(a=_short(a), b=_short(b))
    subject_text = str(subject)
    text = what if check.kind == "table" else f"{check.kind} {subject!r} {what}"
    if count > 1:
        text += f"; {count:,} such in all"
    mendable = bool(check.mends) and not (check.name == "group_priority" and any(row[2] != -1 for row in rows))
    if not mendable:
        text += f"; {check.advice}"
    return Finding(queue, check.name, subject_text, count, text, mendable)


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str) and not value.isascii() else str(value)


def of_objects(
    statements: Statements, queue: str, objects: Sequence[Sequence[Any]], columns: Sequence[Any]
) -> tuple[list[Finding], list[str]]:
    """What is wrong with tables, indexes, views and triggers, and which of them may be made anew (names of names.py).

    `objects`: rows of name, type and text; `columns`: those of messages and groups.
    """
    there = {row[0]: row[2] for row in objects}
    found: list[Finding] = []
    anew: list[str] = []
    for name in TABLES:
        real = statements.names[name]
        if real not in there:
            found.append(Finding(queue, "tables", real, 1, f"table {real} is missing; {BACKUP}", False))
        elif name not in ("messages", "groups") and there[real] != statements.schema[name]:
            found.append(Finding(queue, "tables", real, 1, f"table {real} was changed; {BACKUP}", False))
    if not found:
        for column in missing_columns(columns):
            found.append(Finding(queue, "tables", column, 1, f"column {column} is missing; {BACKUP}", False))
    lets_in = any(statements.names[name] in there for name in statements.compat)
    for name, text in derived(statements).items():
        real = statements.names[name]
        if there.get(real) == text or (name in statements.compat and not lets_in):
            continue
        kind = text.split()[1].lower()
        what = "was changed" if real in there else "is missing"
        anew.append(name)
        found.append(Finding(queue, "objects", real, 1, f"{kind} {real} {what}", True))
    return found, anew
