"""rqfast itself, embedded and on rqlited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import rqfast as package
from rqfast import Transport, connect

from .peer import Message, Peer

VISIBILITY = 600.0


class Embedded(Peer):
    """On a SQLite file; an ack goes with the next claim."""

    name = "rqfast"
    package = "rqfast"
    order = "group"

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        self._transport: Transport = connect(str(folder / "rqfast.db"), synchronous=synchronous)

    @classmethod
    def version(cls) -> str:
        return package.__version__

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._transport.publish(message.group, message.event)

    def publish_batch(self, messages: list[Message]) -> None:
        self._transport.publish_many((message.group, message.event) for message in messages)

    def work(self, count: int) -> Iterator[Message]:
        lease = self._transport.claim("w", VISIBILITY)
        while lease is not None:
            yield Message(lease.group_id, lease.event["number"])
            lease = self._transport.claim("w", VISIBILITY, ack=lease)

    def work_batches(self, count: int, size: int) -> Iterator[Message]:
        leases = self._transport.claim_many("w", VISIBILITY, size)
        while leases:
            yield from (Message(lease.group_id, lease.event["number"]) for lease in leases)
            leases = self._transport.claim_many("w", VISIBILITY, size, ack=leases)

    def close(self) -> None:
        self._transport.close()


class EmbeddedApart(Embedded):
    """The same with calls of their own for claim and ack, two commits."""

    name = "rqfast, ack apart"

    def work(self, count: int) -> Iterator[Message]:
        while (lease := self._transport.claim("w", VISIBILITY)) is not None:
            self._transport.ack(lease)
            yield Message(lease.group_id, lease.event["number"])

    def work_batches(self, count: int, size: int) -> Iterator[Message]:
        while leases := self._transport.claim_many("w", VISIBILITY, size):
            self._transport.ack_many(leases)
            yield from (Message(lease.group_id, lease.event["number"]) for lease in leases)


class OnRqlited(Embedded):
    """On a server."""

    name = "rqfast on rqlited"
    needs = "rqlited"

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        self._transport = connect(server, queue=folder.name)

    @classmethod
    def durable(cls, synchronous: str) -> str:
        return "rqlited, one node: in the Raft log on disk"
