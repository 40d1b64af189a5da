"""litequeue: a table in SQLite, one order for all messages, pop and done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from .peer import Message, PullingPeer


class LiteQueue(PullingPeer):
    """`transaction()` of its own API makes one commit of many puts or dones; a pop opens one itself."""

    name = package = "litequeue"
    order = "all"
    cannot = "no groups, no claim of many, no lease that ends by itself"

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        from litequeue import LiteQueue as Queue

        self._queue = Queue(str(folder / "litequeue.db"))
        self._queue.conn.execute(f"PRAGMA synchronous={synchronous}")

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._queue.put(orjson.dumps(message.event).decode())

    def publish_batch(self, messages: list[Message]) -> None:
        with self._queue.transaction():
            self.publish(messages)

    def in_one(self, run: Callable[[], None]) -> None:
        with self._queue.transaction():
            run()

    def claim(self) -> Any:
        return self._queue.pop()

    def ack(self, claimed: Any) -> None:
        self._queue.done(claimed.message_id)

    def read(self, claimed: Any) -> Message:
        event = orjson.loads(claimed.data)
        return Message(event["group"], event["number"])

    def close(self) -> None:
        self._queue.close()
