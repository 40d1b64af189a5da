"""What a database has of an Inbox: its columns, and the indexes that a claim goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..address.inbox import Address, Inbox
from ..errors import SchemaError, StatementError
from ..sql.inbox import (
    TABLE_COLUMNS,
    TABLE_INDEXES,
    InboxStatements,
    Indexes,
    WantedIndex,
    find_index,
    wanted_indexes,
)
from ..transport.desk import Reads


@dataclass(frozen=True, slots=True)
class Found:
    """What stands in the database.

    Attributes:
        columns: of the table, in their order.
        indexes: those that serve, by name.
        missing: those that do not stand, by what they are for.
        not_null: the columns that take no NULL.
    """

    columns: list[str]
    indexes: Indexes
    missing: dict[str, WantedIndex]
    not_null: frozenset[str]


async def examine(address: Address, read: Reads) -> Found:
    """Read what stands of the table of an address.

    Raises:
        SchemaError: the table, or a column, is missing; it names both.
    """
    table = address.inbox.table
    columns, indexes = await read(["table_columns", "table_indexes"], [[TABLE_COLUMNS, table], [TABLE_INDEXES, table]])
    names = check_columns(address.inbox, columns)
    wanted = wanted_indexes(address, _id_is_rowid(address.inbox, columns))
    found = {kind: find_index(one, indexes) for kind, one in wanted.items()}
    missing = {kind: one for kind, one in wanted.items() if found[kind] is None}
    not_null = frozenset(name for name, row in zip(names, columns, strict=True) if row[4])
    return Found(names, Indexes(found.get("claim"), found.get("lock")), missing, not_null)


async def columns_of(inbox: Inbox, read: Reads) -> list[str]:
    """The columns of its table; raises SchemaError as `examine` does."""
    rows = (await read(["table_columns"], [[TABLE_COLUMNS, inbox.table]]))[0]
    return check_columns(inbox, rows)


def check_columns(inbox: Inbox, rows: Sequence[Sequence[Any]]) -> list[str]:
    """The columns of the table, with the names that the Inbox gives those it declares."""
    if not rows:
        raise SchemaError(
            f"there is no table {inbox.table} in this database, from which its column {inbox.roles['id']} and others "
            "were to be read; make it first (on_startup hooks run before this check)"
        )
    # Names are compared as SQLite does, without case.
    declared = {column.lower(): column for column in inbox.attributes.values()}
    declared |= {column.lower(): column for column in inbox.roles.values()}
    standing = {str(row[0]).lower() for row in rows}
    for key, column in declared.items():
        if key not in standing:
            role = next((f" (role {role})" for role, name in inbox.roles.items() if name == column), "")
            raise SchemaError(
                f"table {inbox.table} has no column {column}{role}; it has {', '.join(str(row[0]) for row in rows)}"
            )
    return [declared.get(str(row[0]).lower(), str(row[0])) for row in rows]


def _id_is_rowid(inbox: Inbox, rows: Sequence[Sequence[Any]]) -> bool:
    keys = [row for row in rows if row[2]]
    return (
        len(keys) == 1 and str(keys[0][0]).lower() == inbox.roles["id"].lower() and str(keys[0][1]).upper() == "INTEGER"
    )


async def prepare(made: InboxStatements, table: str, read: Reads) -> None:
    """Have the database prepare what a claim looks with and reads, which finds and changes nothing.

    (rqlite explains no statement that writes; all columns are known to be there.)

    Raises:
        SchemaError: one of them cannot be prepared.
    """
    reads: dict[str, list[Any]] = {"inbox_look": [made.look, None, None, "[]", 0], "inbox_again": [made.again, "", ""]}
    for name, statement in reads.items():
        try:
            await read([name], [statement])
        except (StatementError, SchemaError) as error:
            raise SchemaError(f"table {table}: {name} cannot be prepared: {error}") from error


def places(text: str) -> int:
    """How many parameters a statement has."""
    return max((place for place in range(1, 10) if f"?{place}" in text), default=0)
