"""The messages that every side of a comparison moves, and the test that none was lost or overtaken."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from rqfast import connect
from rqfast.sql import Statements

from .servers import Server

TEXT = "x" * 40
VISIBILITY = 600.0
# Of lane rows and such, for all sides that send them by hand.
HOLDER = "bench"


class Work(NamedTuple):
    """So many messages, spread over so many groups in turn."""

    messages: int
    groups: int

    def group(self, n: int) -> str:
        """The group of message n."""
        return f"g{n % self.groups}"

    def event(self, n: int) -> dict[str, object]:
        """Message n; about 55 bytes of JSON."""
        return {"number": n, "text": TEXT}

    def rows(self) -> Iterator[tuple[str, dict[str, object]]]:
        """All messages, as `publish_many` takes them."""
        return ((self.group(n), self.event(n)) for n in range(self.messages))


@contextmanager
def queue_on(server: Server) -> Iterator[str]:
    """A new queue of rqfast; dropped afterwards, so that no round finds what another left."""
    name = "q" + uuid.uuid4().hex[:12]
    with connect(server.url, queue=name):
        pass
    yield name
    server.drop(name)


def fill(server: Server, queue: str | None, work: Work) -> None:
    """Put all messages into a queue."""
    with closing(connect(server.url, queue=queue)) as transport:
        transport.publish_many(work.rows())


def check_published(server: Server, queue: str | None, work: Work, *, in_order: bool = True) -> None:
    """Fail unless every message is there once, in order in its group."""
    names = Statements(queue).names
    number = "event->>'number'"
    found = server.query(
        f'SELECT count(*), count(DISTINCT {number}), min({number}), max({number}) FROM "{names["messages"]}"'
    )[0]
    assert found == (work.messages, work.messages, 0, work.messages - 1), f"lost or doubled: {found} of {work}"
    if in_order:
        inverted = server.query(
            f"SELECT count(*) FROM (SELECT {number} AS n, lag({number}) OVER (PARTITION BY group_id ORDER BY seq) AS p "
            f'FROM "{names["messages"]}") WHERE n<=p'
        )[0]
        assert inverted == (0,), f"{inverted[0]} messages overtook another of their group"


def check_worked(server: Server, queue: str | None, work: Work, done: Iterable[tuple[str, int]]) -> None:
    """Fail unless (group, number) of what was worked is every message once, in order, and nothing is left."""
    names = Statements(queue).names
    left = server.query(f'SELECT count(*) FROM "{names["messages"]}"')
    assert left == [(0,)], f"{left[0][0]} messages were left"
    of_group: dict[str, list[int]] = {}
    for group, number in done:
        of_group.setdefault(group, []).append(number)
    expected = {f"g{k}": list(range(k, work.messages, work.groups)) for k in range(min(work.groups, work.messages))}
    assert of_group == expected, "a message was lost, doubled or out of order"
