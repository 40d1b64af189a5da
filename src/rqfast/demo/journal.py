"""What a worker writes down about its work, and how that is read.

Each worker has a file of its own, only added to, one JSON object a line.  A record is in the file before the worker
goes on, so that a kill takes away none; what the kill cut short is no record.  Times are nanoseconds of
`time.monotonic_ns`, the same clock in all processes of a machine.

    {"what": "ready"}                             the queue is open
    {"what": "begin", "seq", "group", "line", "attempts", "asked", "at"}
                                                  begins to work a message, for which it asked at `asked`
    {"what": "end", "seq", "attempts", "sum", "at"}
                                                  has worked it; written before it is acknowledged
    {"what": "acked", "seqs"}                     these acknowledgements were confirmed
    {"what": "lost", "seqs"}                      one of these or more were refused; the others may have been accepted
    {"what": "holding", "count"}                  holds so many messages, and waits to be killed
    {"what": "failed", "error"}                   cannot go on
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

Record = dict[str, Any]


@dataclass(slots=True)
class Attempt:
    """One worker's work on one message, pieced together from its records.

    Attributes:
        worker: who.
        seq, group, line: the message, as the worker got it.
        attempts: its count of claims, as the worker got it.
        asked: when the worker asked for it: its lease began no earlier (ns).
        begun: when the work began (ns).
        ended: when the work ended, None: it never did (ns).
        sum: the result of the work, the check sum (CRC-32) of the text.
        acked: the acknowledgement was confirmed.
        lost: it is not known whether the acknowledgement was accepted.
    """

    worker: str
    seq: int
    group: str
    line: int
    attempts: int
    asked: int
    begun: int
    ended: int | None = None
    sum: int | None = None
    acked: bool = False
    lost: bool = False


class Journal:
    """The file that one worker writes.

    Args:
        path: of a file that is not there yet.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)

    def write(self, records: Iterable[Record]) -> None:
        """Add records; they are in the file when this returns."""
        data = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
        while data:
            data = data[self._file.write(data) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Reader:
    """Reads a worker's file while it is being written.

    Args:
        path: of the file; it need not be there yet.
        worker: whose it is.

    Attributes:
        attempts: all the work in it so far, in the order in which it was begun (list of Attempt).
        done: seqs whose work has ended (set of int).
        ready: whether the worker is.
        holding: how many messages it holds and waits to be killed, None: it does not.
        error: why it could not go on, None: no reason is written down.
    """

    def __init__(self, path: Path, worker: str) -> None:
        self.worker = worker
        self.attempts: list[Attempt] = []
        self.done: set[int] = set()
        self.ready: bool = False
        self.holding: int | None = None
        self.error: str | None = None
        self._path = path
        self._offset = 0
        self._latest: dict[int, Attempt] = {}

    def read(self) -> int:
        """Take in what is new; returns how many messages were finished since (int).

        Raises:
            ValueError: a line is not a record.
        """
        before = len(self.done)
        for record in self._new():
            self._take(record)
        return len(self.done) - before

    def _new(self) -> Iterator[Record]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        for line in data[:whole].splitlines():
            yield orjson.loads(line)

    def _take(self, record: Record) -> None:
        match record:
            case {"what": "begin", "seq": seq, "at": at}:
                fields = {name: record[name] for name in ("group", "line", "attempts", "asked")}
                self._latest[seq] = Attempt(worker=self.worker, seq=seq, begun=at, **fields)
                self.attempts.append(self._latest[seq])
            case {"what": "end", "seq": seq, "at": at, "sum": check_sum}:
                self._latest[seq].ended, self._latest[seq].sum = at, check_sum
                self.done.add(seq)
            case {"what": "acked" | "lost" as what, "seqs": seqs}:
                for seq in seqs:
                    setattr(self._latest[seq], what, True)
            case {"what": "ready"}:
                self.ready = True
            case {"what": "holding", "count": count}:
                self.holding = count
            case {"what": "failed", "error": error}:
                self.error = error
            case _:
                raise ValueError(f"{self._path}: no such record: {record}")


class Signals:
    """What the parent tells the workers: files in their folder, which no kill leaves half-done.

    Args:
        folder: where the workers' files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, name: str) -> None:
        """Set a signal: "go" (begin), "on" (the victim is dead, all go on) or "stop" (when nothing more comes)."""
        self._path(name).touch()

    def is_set(self, name: str) -> bool:
        """Whether it is set."""
        return os.path.exists(self._path(name))

    def journal(self, worker: str) -> Path:
        """The file in which this worker writes (Path)."""
        return self._folder / f"{worker.replace(' ', '-')}.jsonl"

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.signal"
