"""The first half of the demo: a file's rows become messages, and what was published is kept for the check."""

from __future__ import annotations

import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..api import Transport
from ..model import Message
from .source import Row

EVERY = 500


@dataclass(slots=True)
class Published:
    """What was published, in order: entry i of each list belongs to message i.

    Attributes:
        lines: lines in the file.
        groups: groups.
        sums: check sums (CRC-32) of the texts.
        seqs: the seqs that the queue gave.
        seconds: how long it took.
    """

    lines: list[int] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    seqs: array[int] = field(default_factory=lambda: array("q"))
    seconds: float = 0.0

    @property
    def group_count(self) -> int:
        """How many groups there are (int)."""
        return len(set(self.groups))


def publish(transport: Transport[Any], rows: Iterable[Row], run: str, progress: Callable[[int], None]) -> Published:
    """Publish the rows in order, as one stream.

    Args:
        run: goes into each message's headers, beside the line: so a worker knows the demo's own messages.
        progress: is told how many rows were handed over so far.

    Raises:
        PublishIncomplete: it stopped half-way; the cause is chained.
    """
    published = Published()
    began = time.monotonic()
    published.seqs = transport.publish_many(_messages(rows, run, published, progress))
    published.seconds = time.monotonic() - began
    progress(len(published.seqs))
    return published


def _messages(
    rows: Iterable[Row], run: str, published: Published, progress: Callable[[int], None]
) -> Iterator[Message]:
    for row in rows:
        published.lines.append(row.line)
        published.groups.append(row.group)
        published.sums.append(zlib.crc32(row.text))
        if len(published.lines) % EVERY == 0:
            progress(len(published.lines))
        yield Message(row.group, row.text, headers={"run": run, "line": row.line})
