"""huey on SQLite: a task queue; a task that is taken is gone, so there is nothing to acknowledge."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .peer import Message, PullingPeer


class Huey(PullingPeer):
    """SqliteHuey with `strict_fifo`; its `fsync` is synchronous=FULL, and OFF without, so NORMAL is set by hand."""

    name = "huey (SqliteHuey)"
    package = "huey"
    order = "all"
    cannot = "no groups, no batches, no acknowledgement: what a dead worker had taken is lost"
    batches_publish = batches_work = False

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        from huey import SqliteHuey

        logging.getLogger("huey").setLevel(logging.WARNING)
        self._huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True, strict_fifo=True, results=False, utc=True)
        self._huey.storage.conn.execute(f"PRAGMA synchronous={synchronous}")
        self._task = self._huey.task()(_nothing)

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._task(message.event)

    def publish_batch(self, messages: list[Message]) -> None:
        self.publish(messages)

    def claim(self) -> Any:
        return self._huey.dequeue()

    def ack(self, claimed: Any) -> None:
        """Nothing to do."""

    def read(self, claimed: Any) -> Message:
        (event,) = claimed.args
        return Message(event["group"], event["number"])

    def close(self) -> None:
        self._huey.storage.close()


def _nothing(event: dict[str, Any]) -> None:
    """The task; it is taken, never run."""
