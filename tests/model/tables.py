"""What stands in the tables of the queue, and what must hold of it between two requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rqfast.address.selection import Selection
from rqfast.sql import Statements

from .clients import Client, Row
from .oracle import PARKED, Group, Oracle
from .plans import EVERY, Only
from .stores import Store

TABLES = ("messages", "groups", "state", "lane", "dedup", "dead")


def only_of(only: Only) -> tuple[str, str] | None:
    """The groups of a claim as the core takes them."""
    return Selection(only.groups, only.prefix).only


class Tables:
    """The tables of one queue, and its oracle."""

    def __init__(self, store: Store, statements: Statements, tell: Callable[[str], None]) -> None:
        self.store = store
        self.statements = statements
        self.names = statements.names
        self.tell = tell
        self.oracle = Oracle()
        self.counts: Counter[str] = Counter()
        self.clients: dict[str, Client] = {}
        # What the users' own statements wrote.
        self.written: list[int] = []

    def whole(self, columns: str, table: str, order: str) -> Row:
        """The read of a whole table of the queue."""
        return [f'SELECT {columns} FROM "{self.names[table]}" ORDER BY {order}']

    def everything(self) -> list[list[Row]]:
        """All rows of all tables of the queue."""
        return self.store.read_all([self.whole("*", table, "1") for table in TABLES])

    def hints(self) -> dict[str, float]:
        """The `ready_at` of each group."""
        return {row[0]: row[1] for row in self.store.read(*self.whole("group_id,ready_at", "groups", "1"))}

    def look(self, min_priority: int, ahead: float = 0.0, only: Only = EVERY) -> None:
        """A look says what a claim would find at that time, and never too late when to look again."""
        at = self.oracle.time + ahead
        name, text, parameters = self.statements.look(min_priority, only_of(only))
        row = self.store.read(text, at, *parameters)[0]
        may = [group for group in self.oracle.claimable(min_priority, at) if only.includes(group)]
        self._check_look(f"{name} {only}", row, may, self._held_back(self.hints(), only, at))

    def _held_back(self, hints: dict[str, float], only: Only, at: float) -> dict[str, float]:
        """The groups that stand among those held back, and when each will be ready."""
        return {
            name: ready
            for name, ready in self.oracle.ready().items()
            if not self.oracle.groups[name].paused and hints[name] > at and only.includes(name)
        }

    def _check_look(self, name: str, row: Row, may: list[str], held_back: dict[str, float]) -> None:
        assert bool(row[0]) == bool(may), f"{name} says {row[0]}, claimable are {may}"
        for group, ready in held_back.items():
            if group not in may:
                assert row[1] is not None and row[1] <= ready, f"{name} says {row[1]}, {group!r} is ready at {ready}"

    def check(self) -> None:
        """All that must hold between two requests."""
        at, queue = self.oracle.time, self.statements.queue
        looks = [("look_high" if least else "look", least) for least in range(5)]
        tables, expected = self._tables()
        found = self.store.read_all(
            [*tables, self._two_workers(), *([queue[name], at, least] for name, least in looks)]
        )
        self._compare_tables(found, expected)
        assert found[len(tables)] == [], "two workers in a group"
        hints = {row[0]: row[-1] for row in found[1]}
        self._check_hints(hints)
        may, held_back = self.oracle.claimable(), self._held_back(hints, EVERY, at)
        for (name, least), rows in zip(looks, found[len(tables) + 1 :], strict=True):
            among = [group for group in may if self.oracle.groups[group].priority >= least]
            self._check_look(name, rows[0], among, held_back)

    def check_tables(self) -> None:
        """The whole tables are the oracle's."""
        tables, expected = self._tables()
        self._compare_tables(self.store.read_all(tables), expected)

    def check_hints(self) -> None:
        """`ready_at` may be early, never late."""
        self._check_hints(self.hints())

    def _tables(self) -> tuple[list[Row], list[list[Row]]]:
        """How the tables are read, and what must stand there; of the second one without its last column."""
        oracle = self.oracle
        messages = "seq,group_id,event,rank,due,headers,published_at,attempts,locked_by,coalesce(lock_expiry,0)"
        letters = "seq,group_id,event,rank,due,headers,published_at,attempts,priority,reason,error,died_at"
        reads = [
            self.whole(messages, "messages", "seq"),
            self.whole("group_id,priority,turn,paused,ready_at", "groups", "group_id"),
            self.whole("id,seq,until", "dedup", "id"),
            self.whole("lane,n,at", "lane", "lane"),
            self.whole("t,turn,paused,busy", "state", "id"),
            self.whole(letters, "dead", "seq"),
            [f"SELECT n FROM {self.own} ORDER BY rowid"],
        ]
        lanes = [[lane.name, lane.number, lane.at] for client in self.clients.values() for lane in client.lanes]
        expected: list[list[Row]] = [
            [list(vars(message).values()) for _, message in sorted(oracle.messages.items())],
            [_group_row(name, one) for name, one in sorted(oracle.groups.items())],
            [[name, *known] for name, known in sorted(oracle.dedup.items())],
            lanes,
            [[oracle.time, oracle.turn, oracle.paused, 0]],
            [[*list(vars(letter.message).values())[:8], *letter[1:]] for _, letter in sorted(oracle.dead.items())],
            [[number] for number in self.written],
        ]
        return reads, expected

    @property
    def own(self) -> str:
        """A table that belongs to the user."""
        return f'"own_{self.names["messages"]}"'

    def _compare_tables(self, found: list[list[Row]], expected: list[list[Row]]) -> None:
        for place, rows in enumerate(expected):
            got = [row[:-1] for row in found[place]] if place == 1 else found[place]
            assert got == rows, f"in the tables: {got}, it is {rows}"

    def _check_hints(self, hints: dict[str, float]) -> None:
        for group, ready in self.oracle.ready().items():
            if not self.oracle.groups[group].paused:
                latest = max(ready, self.oracle.time)
                assert hints[group] <= latest, f"ready_at of {group!r} is {hints[group]}, it is ready at {latest}"

    def _two_workers(self) -> Row:
        """The groups with two workers, as far as one of them is of rqfast."""
        where = f"locked_by<>'{PARKED}' AND lock_expiry>={self.oracle.time!r}"
        more = "HAVING count(DISTINCT locked_by)>1 AND max(locked_by GLOB '~*')"
        return [f'SELECT group_id,count(*) FROM "{self.names["messages"]}" WHERE {where} GROUP BY 1 {more}']


def _group_row(name: str, group: Group) -> Row:
    return [name, group.priority, group.turn, group.paused]
