"""What every peer can be asked: publish and work, one by one and in batches."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

TEXT = "x" * 40


class Message(NamedTuple):
    """What is published; a peer gives back the group and the number of what it worked."""

    group: str
    number: int

    @property
    def event(self) -> dict[str, Any]:
        """The payload, the same for all."""
        return {"group": self.group, "number": self.number, "text": TEXT}


class Missing(Exception):
    """A peer cannot run here; says what it needs."""


class Peer:
    """One queue, opened anew and empty for each round.

    Args:
        folder: where its files go.
        synchronous: "FULL" or "NORMAL", for those on SQLite.
        server: the address of the server that it is a client of, where it needs one.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    # "group": one message of a group at a time, in order; "all": one order for all messages; "": none is promised.
    order: ClassVar[str]
    # What it cannot do of what is compared, for the table.
    cannot: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    works: ClassVar[bool] = True
    # Whether calls for 64 messages share a transaction, or are single ones after all.
    batches_publish: ClassVar[bool] = True
    batches_work: ClassVar[bool] = True

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        """Of the package that is installed; raises `Missing`."""
        try:
            return importlib.metadata.version(cls.package)
        except importlib.metadata.PackageNotFoundError:
            raise Missing(f"{cls.package} is not installed") from None

    @classmethod
    def durable(cls, synchronous: str) -> str:
        """When it confirms a message."""
        return f"SQLite, WAL, synchronous={synchronous}"

    def publish(self, messages: Iterable[Message]) -> None:
        """Each by a call of its own, confirmed before the next."""
        raise NotImplementedError

    def publish_batch(self, messages: list[Message]) -> None:
        """All, in one transaction if it can."""
        raise NotImplementedError

    def work(self, count: int) -> Iterator[Message]:
        """Claim and acknowledge so many, each before the next."""
        raise NotImplementedError

    def work_batches(self, count: int, size: int) -> Iterator[Message]:
        """The same, so many at a time if it can."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PullingPeer(Peer):
    """One whose messages are asked for, not handed to a task."""

    def claim(self) -> Any:
        """Whatever it gives for the next message; None when there is none."""
        raise NotImplementedError

    def ack(self, claimed: Any) -> None:
        """Be done with it."""
        raise NotImplementedError

    def read(self, claimed: Any) -> Message:
        """What was published."""
        raise NotImplementedError

    def in_one(self, run: Callable[[], None]) -> None:
        """Run several of its calls in one transaction, where its API has a way to."""
        run()

    def work(self, count: int) -> Iterator[Message]:
        """Claim, then ack."""
        for _ in range(count):
            claimed = self.claim()
            if claimed is None:
                return
            self.ack(claimed)
            yield self.read(claimed)

    def work_batches(self, count: int, size: int) -> Iterator[Message]:
        """Claims one by one, their acks in one transaction."""
        for _ in range(-(-count // size)):
            found = []
            while len(found) < size and (claimed := self.claim()) is not None:
                found.append(claimed)
            if not found:
                return
            self.in_one(lambda found=found: [self.ack(claimed) for claimed in found])  # type: ignore[misc]
            yield from map(self.read, found)


def in_batches(messages: Iterable[Message], size: int) -> Iterator[list[Message]]:
    """Lists of so many."""
    rest = iter(messages)
    while batch := list(islice(rest, size)):
        yield batch
