"""Where the queue of a world stands: in memory, in a file that several processes write, or on a rqlite server.

Each refuses what SQLite refuses with `sqlite3.IntegrityError`.
"""

from __future__ import annotations

import http.client
import json
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

Row = list[Any]
Slots = list[list[Row]]
Program = Sequence[Sequence[Any]]

WRITER = Path(__file__).with_name("writer.py")


class Store:
    """A database in memory."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)

    def close(self) -> None:
        """It is gone."""
        self.db.close()

    def transaction(self, program: Program, lane: str = "") -> Slots:
        """Apply some statements, all or none, as the process that has this lane; returns the rows of each."""
        slots = []
        self.db.execute("BEGIN IMMEDIATE")
        try:
            for text, *parameters in program:
                slots.append([list(row) for row in self.db.execute(text, parameters)])
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return slots

    def race(self, programs: Sequence[tuple[str, Program]]) -> list[tuple[int, Slots | None]]:
        """Apply the programs of several lanes, each or not at all.

        Returns their places in the order in which they were applied, and their rows; then, with None, those of which
        SQLite refused a statement.
        """
        applied: list[tuple[int, Slots | None]] = []
        refused: list[tuple[int, Slots | None]] = []
        for place in reversed(range(len(programs))):
            try:
                applied.append((place, self.transaction(programs[place][1])))
            except sqlite3.IntegrityError:
                refused.append((place, None))
        return applied + refused

    def crash(self, program: Program, after: int, lane: str = "") -> None:
        """The process dies when it has run so many of these statements, and has committed none."""
        self.db.execute("BEGIN IMMEDIATE")
        # A bundle may be refused before.
        with suppress(sqlite3.IntegrityError):
            for text, *parameters in program[:after]:
                self.db.execute(text, parameters).fetchall()
        self.db.execute("ROLLBACK")

    def read(self, text: str, *parameters: Any) -> list[Row]:
        """The rows of one read."""
        return [list(row) for row in self.db.execute(text, parameters)]

    def read_all(self, statements: Program) -> Slots:
        """The rows of several."""
        return [self.read(*statement) for statement in statements]


class FileStore(Store):
    """A file; each lane belongs to a process of its own, which writes as told and is killed when it is to crash.

    Programs of different lanes are begun together; a table of the test's own says in which order they were applied.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writers: dict[str, Writer] = {}
        self.db = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        self.db.execute("PRAGMA journal_mode=WAL").fetchall()
        self.db.execute("CREATE TABLE applied(n INT)")
        self.db.execute("INSERT INTO applied VALUES(0)")

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self.db.close()

    def transaction(self, program: Program, lane: str = "") -> Slots:
        answer = self._together([(lane, program)])[0]
        if isinstance(answer, sqlite3.Error):
            raise answer
        slots: Slots = answer[1]
        return slots

    def race(self, programs: Sequence[tuple[str, Program]]) -> list[tuple[int, Slots | None]]:
        answers = self._together(programs)
        refused = [place for place, answer in enumerate(answers) if isinstance(answer, sqlite3.IntegrityError)]
        applied = sorted((answer[0], place) for place, answer in enumerate(answers) if place not in refused)
        return [(place, answers[place][1]) for _, place in applied] + [(place, None) for place in refused]

    def _together(self, programs: Sequence[tuple[str, Program]]) -> list[Any]:
        """What came of programs that are begun at the same time."""
        for lane, program in programs:
            self._writer(lane).send((program, None))
        return [self._writer(lane).receive() for lane, _ in programs]

    def crash(self, program: Program, after: int, lane: str = "") -> None:
        writer = self._writers.pop(lane, None) or Writer(self._path)
        with closing(writer):
            writer.send((program, after))
            writer.wait()

    def _writer(self, lane: str) -> Writer:
        if lane not in self._writers:
            self._writers[lane] = Writer(self._path)
        return self._writers[lane]


class Writer:
    """A process that writes to a file (writer.py)."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", str(WRITER), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def send(self, message: object) -> None:
        """Tell it what to do."""
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()

    def receive(self) -> Any:
        """What came of it, or the exception."""
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def wait(self) -> None:
        """Until it is dead, by its own hand."""
        assert self._process.wait(60) != 0, "the writer was to crash, and ended"

    def close(self) -> None:
        """Kill it, if it lives."""
        self._process.kill()
        self._process.wait(60)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


class ServerStore(Store):
    """A server; transactions go to it the way those of the transports go."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        assert at.hostname is not None
        self._connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def transaction(self, program: Program, lane: str = "") -> Slots:
        return _rows(self._post("/db/execute?transaction", program))

    def crash(self, program: Program, after: int, lane: str = "") -> None:
        """What a server has begun it ends, unless it cannot: here the last statement to be run is one that fails."""
        wrong = [*program[:after], ["INSERT INTO no_such_table VALUES(1)"]]
        with pytest.raises(sqlite3.IntegrityError):
            self._post("/db/execute?transaction", wrong)

    def read(self, text: str, *parameters: Any) -> list[Row]:
        return self.read_all([[text, *parameters]])[0]

    def read_all(self, statements: Program) -> Slots:
        return _rows(self._post("/db/query?level=linearizable", statements))

    def _post(self, path: str, statements: Program) -> list[dict[str, Any]]:
        body = json.dumps(statements).encode()
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, f"{answer.status} {text!r}"
        reply = json.loads(text)
        assert "error" not in reply, reply
        results: list[dict[str, Any]] = reply["results"]
        for slot in results:
            if "error" in slot:
                raise sqlite3.IntegrityError(slot["error"])
        return results


def _rows(results: list[dict[str, Any]]) -> Slots:
    return [slot.get("values") or [] for slot in results]
