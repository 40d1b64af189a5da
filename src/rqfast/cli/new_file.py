"""A SQLite file that a command made for itself, and takes away at the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..errors import RqfastError
from ..transport.schema import read_schema
from ..transport.sqlite_sync import sqlite_path


class NewFile:
    """Of a database, before it is opened: whether its file is there already."""

    def __init__(self, where: str, is_rqlite: bool) -> None:
        self._file = None if is_rqlite else Path(sqlite_path(where))
        self._is_new = self._file is not None and not self._file.exists()

    def remove(self) -> None:
        """Take the file away if it was not there, and no queue is left in it, be it somebody else's."""
        file = self._file
        if file is None or not self._is_new or not file.exists() or not _is_empty(file):
            return
        for end in ("", "-wal", "-shm"):
            Path(f"{file}{end}").unlink(missing_ok=True)


def _is_empty(file: Path) -> bool:
    try:
        return not asyncio.run(read_schema(str(file), False)).queues
    except RqfastError:  # it cannot be told, so it stays
        return False
