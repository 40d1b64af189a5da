"""rqdb and pyrqlite: clients of rqlited, not queues. Their publishing loop is the INSERT that one would write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from .peer import Message, Peer

MAKE = "CREATE TABLE {table} (seq INTEGER PRIMARY KEY AUTOINCREMENT, group_id TEXT NOT NULL, event TEXT NOT NULL)"
INSERT = "INSERT INTO {table}(group_id, event) VALUES (?, ?)"
READ = "SELECT group_id, event FROM {table} ORDER BY seq"


class Client(Peer):
    """What both have in common."""

    order = "all"
    cannot = "no queue: only the INSERT is compared"
    needs = "rqlited"
    works = False

    def _prepare(self, folder: Path) -> None:
        self._insert = INSERT.format(table=folder.name)
        self._read = READ.format(table=folder.name)
        self._cursor.execute(MAKE.format(table=folder.name))

    _cursor: Any

    @classmethod
    def durable(cls, synchronous: str) -> str:
        return "rqlited, one node: in the Raft log on disk"

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._cursor.execute(self._insert, _values(message))

    def published(self) -> list[Message]:
        """What is in the table."""
        self._cursor.execute(self._read)
        return [Message(group, orjson.loads(text)["number"]) for group, text in self._cursor.fetchall()]


class Rqdb(Client):
    """Several statements in one request by `executemany3`."""

    name = package = "rqdb"

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        import rqdb

        self._cursor = rqdb.connect([urlsplit(server).netloc]).cursor()
        self._prepare(folder)

    def publish_batch(self, messages: list[Message]) -> None:
        self._cursor.executemany3([(self._insert, _values(message)) for message in messages])


class Pyrqlite(Client):
    """Puts the values into the text of each statement itself."""

    name = package = "pyrqlite"

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        from pyrqlite import dbapi2

        address = urlsplit(server)
        self._connection = dbapi2.connect(host=address.hostname, port=address.port)
        self._cursor = self._connection.cursor()
        self._prepare(folder)

    def publish_batch(self, messages: list[Message]) -> None:
        self._cursor.executemany(self._insert, [_values(message) for message in messages])

    def close(self) -> None:
        self._connection.close()


def _values(message: Message) -> tuple[str, str]:
    return message.group, orjson.dumps(message.event).decode()
