"""The table of a subscription as it stands in the database, and the statements that fit it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..address.inbox import Address, Inbox
from ..errors import SchemaError
from ..sql.inbox import InboxStatements, Indexes
from ..transport.desk import Desk
from .inbox_check import Found, columns_of, examine, prepare

log: logging.Logger = logging.getLogger("rqfast")


@dataclass(frozen=True, slots=True)
class Fit:
    """What fits the table.

    Attributes:
        statements: composed for its columns and indexes.
        columns: of the table, in their order.
    """

    statements: InboxStatements
    columns: list[str]


class InboxTable:
    """The table of an address; read once, when it is first needed.

    Args:
        dead: where dead letters go: a group, a table, or nowhere.

    Attributes:
        known: what was found; None before.
    """

    def __init__(self, address: Address, desk: Desk, dead: tuple[str | None, Inbox | None]) -> None:
        self._address = address
        self._inbox = address.inbox
        self._desk = desk
        self._dead = dead
        self.known: Fit | None = None

    async def fit(self) -> Fit:
        """What fits it; raises as `check` does."""
        return self.known or await self.check()

    async def check(self) -> Fit:
        """Look at the table: its columns, its indexes, and whether each statement can be prepared.

        Raises:
            SchemaError: the table or a column is missing; it names both.
        """
        found = await examine(self._address, self._desk.read)
        for kind, index in found.missing.items():
            log.warning(
                "table %s has no index for its %s: each claim reads all of it; make it with: %s",
                self._inbox.table,
                "claims" if kind == "claim" else "leases",
                index.create,
            )
        _, dead = self._dead
        try:
            made = self._statements(found, found.indexes)
            await prepare(made, self._inbox.table, self._desk.read)
        except SchemaError:
            if found.indexes == Indexes():
                raise
            # An index that cannot serve this claim after all.
            made = self._statements(found, Indexes())
            await prepare(made, self._inbox.table, self._desk.read)
        if dead is not None:
            await self._check_dead(dead, made)
        self.known = Fit(made, found.columns)
        return self.known

    def _statements(self, found: Found, indexes: Indexes) -> InboxStatements:
        return InboxStatements(
            self._address, self._desk.statements, found.columns, indexes, self._dead[0], found.not_null
        )

    async def _check_dead(self, dead: Inbox, made: InboxStatements) -> None:
        standing = {column.lower() for column in await columns_of(dead, self._desk.read)}
        for column in made.moved(dead):
            if column.lower() not in standing:
                raise SchemaError(
                    f"table {dead.table} takes the dead letters of table {self._inbox.table} and has no column {column}"
                )
