"""The rounds of a comparison: all peers in turn, each on a fresh queue, and each checked for loss and order."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .peer import Message, Peer, in_batches
from .rqlite_clients import Client

BATCH = 64


class Work(NamedTuple):
    """What is measured."""

    name: str
    synchronous: str
    messages: int
    groups: int
    batch: int = 1

    @property
    def publishes(self) -> str:
        """The line of the table for publishing."""
        return f"publish, {self.name}"

    @property
    def works(self) -> str:
        """The line of the table for claim and ack."""
        return f"claim and ack, {self.name}"


def one_by_one(synchronous: str, messages: int) -> Work:
    """Each message by calls of its own."""
    return Work("one by one", synchronous, messages, messages // 4)


def in_64(messages: int) -> Work:
    """64 at a time, each batch durable before the next."""
    return Work(f"batches of {BATCH}", "FULL", messages, messages // 4, BATCH)


class Wrong(AssertionError):
    """A peer lost a message, or broke an order that it promises."""


def run(peer: type[Peer], work: Work, server: str) -> dict[str, float]:
    """One round; messages a second for each line of the table."""
    messages = [Message(f"g{n % work.groups}", n) for n in range(work.messages)]
    with tempfile.TemporaryDirectory(prefix="rqfast-peer-") as name:
        # The last part of the name is also that of a table or a database.
        folder = Path(name) / Path(name).name.replace("-", "_").lower()
        folder.mkdir()
        with peer(folder, work.synchronous, server) as queue:
            rates = {work.publishes: _rate(work, lambda: _publish(queue, messages, work.batch))}
            if isinstance(queue, Client):
                _check(peer, queue.published(), messages, work.groups)
            else:
                done: list[Message] = []
                rates[work.works] = _rate(work, lambda: done.extend(_work(queue, work)))
                _check(peer, done, messages, work.groups)
    return rates


def _publish(queue: Peer, messages: Sequence[Message], batch: int) -> None:
    if batch == 1:
        queue.publish(messages)
        return
    for some in in_batches(messages, batch):
        queue.publish_batch(some)


def _work(queue: Peer, work: Work) -> list[Message]:
    return list(queue.work(work.messages) if work.batch == 1 else queue.work_batches(work.messages, work.batch))


def _rate(work: Work, run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return work.messages / (time.perf_counter() - start)


def _check(peer: type[Peer], done: Sequence[Message], messages: Sequence[Message], groups: int) -> None:
    if sorted(done, key=lambda message: message.number) != list(messages):
        raise Wrong(f"{peer.name}: of {len(messages)} messages {len(set(done))} came, {len(done)} times in all")
    if peer.order == "all" and list(done) != list(messages):
        raise Wrong(f"{peer.name} promises one order and did not keep it")
    if peer.order == "group":
        of: defaultdict[str, list[int]] = defaultdict(list)
        for message in done:
            of[message.group].append(message.number)
        for group, numbers in of.items():
            if numbers != sorted(numbers):
                raise Wrong(f"{peer.name} broke the order of {group}")
