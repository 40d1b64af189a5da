"""What a statement is, before it runs: does it prepare, does it write, where do its values go, what are its types."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from .columns import Read, declared
from .parameters import Places
from .tokens import LONG, Token, tokens, verb

_CHANGES = ("INSERT", "REPLACE", "UPDATE", "DELETE")
_WRITING = ("Vacuum", "JournalMode", "Checkpoint")
REMEMBERED = 1000


@dataclass(slots=True)
class Shape:
    """One statement as SQLite prepares it."""

    tokens: list[Token]
    places: Places
    is_read: bool
    counts: bool
    read: Read
    _types: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    def types(self, columns: Sequence[str]) -> list[str]:
        """The declared types of its result columns, '' for expressions."""
        key = tuple(columns)
        if key not in self._types:
            self._types[key] = declared(self.tokens, list(columns), self.read)
        return list(self._types[key])


class Shapes:
    """Shapes of statements, remembered while the schema stays; for connections to one database in one thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Shape]] = {}
        self._numbers = itertools.count()
        self._read: dict[tuple[str, str], None] = {}

    def watch(self, db: sqlite3.Connection) -> None:
        """Have the connection tell which columns a statement reads; and refuse other files, which ATTACH would open."""
        db.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and first and second:
            self._read[first, second] = None
        elif action == sqlite3.SQLITE_ATTACH and first != "":
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def forget(self) -> None:
        """Forget all: the schema may have gone back to what it was."""
        self._known.clear()

    def of(self, db: sqlite3.Connection, text: str) -> Shape:
        """The shape of one statement.

        Raises:
            sqlite3.Error: it does not prepare.
        """
        version = int(db.execute("PRAGMA schema_version").fetchone()[0])
        known = self._known.get(text)
        if known is not None and known[0] == version:
            return known[1]
        shape = self._prepare(db, text)
        if len(text) <= LONG:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[text] = version, shape
        return shape

    def _prepare(self, db: sqlite3.Connection, text: str) -> Shape:
        found = tokens(text)
        places = Places(text, found)
        if found[0].word == "EXPLAIN":
            return Shape(found, places, is_read=True, counts=False, read={})
        # EXPLAIN goes by the schema as this connection last saw it, which this read renews.
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        self._read.clear()
        # The number keeps Python from taking it out of its own cache: then nothing would be prepared.
        explained = db.execute(f"EXPLAIN /*{next(self._numbers)}*/ {places.text}", [None] * places.count).fetchall()
        is_read = not any(row[1] in _WRITING or (row[1] == "Transaction" and row[3]) for row in explained)
        return Shape(found, places, is_read, verb(found)[0] in _CHANGES, self._declarations(db))

    def _declarations(self, db: sqlite3.Connection) -> Read:
        """Types of the columns just read, in the order in which the statement names them."""
        read = list(self._read)
        kinds: dict[tuple[str, str], str] = {}
        for table in {table for table, _ in read}:
            for name, kind in db.execute("SELECT name, type FROM pragma_table_xinfo(?)", (table,)).fetchall():
                kinds[table, name] = kind
        declarations: dict[str, list[tuple[str, str]]] = {}
        for table, name in read:
            if (table, name) in kinds:
                declarations.setdefault(name.lower(), []).append((table.lower(), kinds[table, name]))
        return declarations
