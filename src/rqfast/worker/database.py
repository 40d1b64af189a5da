"""The database behind a worker, for hooks that prepare it."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidMessage
from ..sql.own import split_script
from ..transport.awaitable import AwaitableTransport


class Database:
    """What `on_startup` hooks get: runs statements of the user's own, on whatever engine the worker has."""

    def __init__(self, transport: AwaitableTransport[Any]) -> None:
        self._desk = transport.desk

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run statements, in one transaction, once.

        Args:
            sql: a statement; without parameters also several, parted by semicolons.
            parameters: for its placeholders, which are written `?`.

        Raises:
            StatementError: one of them failed; nothing was changed.
            TypeError, InvalidMessage: they cannot be run so.
        """
        statements = split_script(sql)
        if not statements:
            raise InvalidMessage("no statement", "sql")
        if parameters:
            if len(statements) > 1:
                raise InvalidMessage("several statements take no parameters", "sql")
            await self._desk.run([[statements[0], *parameters]])
        else:
            await self._desk.run([[one] for one in statements])

    async def query(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """The rows of one read."""
        return await self._desk.query(sql, *parameters)
