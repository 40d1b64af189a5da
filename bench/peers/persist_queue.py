"""persist-queue: its SQLite queues, one with acknowledgements, and one that commits when it is told to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .peer import Message, Peer, PullingPeer


class AckQueue(PullingPeer):
    """SQLiteAckQueue: every call commits."""

    name = "persist-queue (SQLiteAckQueue)"
    package = "persist-queue"
    order = "all"
    cannot = "no groups, no batches; one process (what another one left unacknowledged returns when it opens)"
    batches_publish = batches_work = False

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        from persistqueue import SQLiteAckQueue

        self._queue = SQLiteAckQueue(str(folder / "persist-ack"))
        self._queue._putter.execute(f"PRAGMA synchronous={synchronous}")

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._queue.put(message.event)

    def publish_batch(self, messages: list[Message]) -> None:
        self.publish(messages)

    def claim(self) -> Any:
        return self._queue.get(block=False, raw=True) if self._queue.size else None

    def ack(self, claimed: Any) -> None:
        self._queue.ack(id=claimed["pqid"])

    def read(self, claimed: Any) -> Message:
        return Message(claimed["data"]["group"], claimed["data"]["number"])

    def close(self) -> None:
        self._queue.close()


class CommitQueue(Peer):
    """SQLiteQueue: each call commits and a get deletes, or (`auto_commit=False`) `task_done` commits what was got."""

    name = "persist-queue (SQLiteQueue)"
    package = "persist-queue"
    order = "all"
    cannot = "no groups; one worker: what was got is gone, or with auto_commit=False comes again for all after it"
    batches_publish = False

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._queue = self._open(auto_commit=True)

    def _open(self, *, auto_commit: bool) -> Any:
        from persistqueue import SQLiteQueue

        queue = SQLiteQueue(str(self._folder / "persist"), auto_commit=auto_commit)
        queue._putter.execute(f"PRAGMA synchronous={self._synchronous}")
        return queue

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._queue.put(message.event)

    def publish_batch(self, messages: list[Message]) -> None:
        self.publish(messages)

    def work(self, count: int) -> Iterator[Message]:
        for _ in range(count):
            if not self._queue.size:
                return
            event = self._queue.get(block=False)
            yield Message(event["group"], event["number"])

    def work_batches(self, count: int, size: int) -> Iterator[Message]:
        self._queue.close()
        self._queue = self._open(auto_commit=False)
        for _ in range(-(-count // size)):
            events = [self._queue.get(block=False) for _ in range(min(size, self._queue.size))]
            self._queue.task_done()
            yield from (Message(event["group"], event["number"]) for event in events)

    def close(self) -> None:
        self._queue.close()
