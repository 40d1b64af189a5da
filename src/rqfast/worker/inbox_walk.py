"""The way of a subscription through the groups of its table, so that each has its turn."""

from __future__ import annotations

from typing import Any

import orjson

from ..address.inbox import Address
from ..address.selection import after_all
from ..transport.desk import Desk
from ..transport.posting import iso_of
from .inbox_table import InboxTable


class Walk:
    """Goes round the groups, on from the one that was served last.

    Args:
        dead_group: the group of the same table where dead letters go, which is left out; or None.
    """

    def __init__(self, address: Address, desk: Desk, table: InboxTable, dead_group: str | None) -> None:
        self._address = address
        self._desk = desk
        self._table = table
        self._dead_group = dead_group
        self._cursor: Any = None

    def served(self, group: Any) -> None:
        """This one had its turn; as its column has it."""
        self._cursor = group

    def start(self) -> str:
        """Where a claim begins, as its statement takes it: after the one that was served last."""
        selection = self._address.selection
        if selection.groups is not None:
            groups = list(selection.groups)
            # They are named by text, whatever the column holds.
            served = None if self._cursor is None else str(self._cursor)
            at = groups.index(served) + 1 if served in groups else 0
            return orjson.dumps(groups[at:] + groups[:at]).decode()
        low = high = None
        if selection.prefix is not None:
            low, high = selection.prefix, after_all(selection.prefix)
        cursor = self._cursor if isinstance(self._cursor, str | int | float) else None
        return orjson.dumps([cursor, low, high, self._dead_group]).decode()

    async def finds(self) -> bool:
        """Whether a claim would find something, by plain reads."""
        made = (await self._table.fit()).statements
        inbox = self._address.inbox
        now = self._desk.now()
        at = iso_of(now) if inbox.roles["locked_until"] in inbox.iso_text else now
        start, is_round = self._cursor, False
        while True:
            walk = self.start()
            rows = (await self._desk.read(["inbox_look"], [[made.look, None, at, walk, 1]]))[0]
            if rows or made.cut is None:
                return bool(rows)
            # More groups than one walk goes through: on from where it ended, until it is round.
            cut = (await self._desk.read(["inbox_cut"], [[made.cut, None, None, walk]]))[0]
            if not cut:
                return False
            self._cursor, from_first = cut[0]
            if is_round and (from_first or _reaches(self._cursor, start)):
                return False
            is_round = is_round or bool(from_first)


def _reaches(group: Any, start: Any) -> bool:
    """Whether a walk from the beginning has come to where it once began."""
    return isinstance(group, type(start)) and group >= start
