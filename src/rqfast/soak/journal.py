"""How processes write down what they call and what they are told, and how that is read.

Each process has a file of its own, only added to, one JSON object a line.  That a call begins is in the file before it
is made, so that a kill in the midst of it leaves a call whose outcome is unknown; what the kill cut short is no record.

    {"what": "ready"}                            the queue is open
    {"n", "call", "at", ...}                     a call begins: "sends" [[id, group, delay], ..] and "trial",
                                                 "settles" [[claim, seq], ..], "seconds", "limit"
    {"n", "at", "told", ...}                     it ended: "seqs" of the first messages, "rest" what was told of the
                                                 others; "held" [[seq, group, id, attempts, fence, trial, intact], ..];
                                                 "but" {seq: told} of settlements, or {"claim:seq": told}; "count";
                                                 "totals"
    {"what": "failed", "error"}                  the process cannot go on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from .calls import DONE, UNKNOWN, Call, Held, Sent, Settled, Totals

Line = dict[str, Any]


class Folder:
    """Where the processes of a soak write, and where they see what their parent wants.

    Args:
        path: a folder that is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, name: str) -> None:
        """Give a sign: "slow" (publish no more for now), "drain" (no more at all), "stop"."""
        self._sign(name).touch()

    def clear(self, name: str) -> None:
        """Take it back."""
        self._sign(name).unlink(missing_ok=True)

    def is_set(self, name: str) -> bool:
        """Whether it was given."""
        return self._sign(name).exists()

    def journal(self, who: str) -> Path:
        """The file in which a process writes (Path)."""
        return self.path / f"{who}.jsonl"

    def log(self, who: str) -> Path:
        """The file for what a process logs; only there when it logs something (Path)."""
        return self.path / f"{who}.log"

    def read(self) -> Iterator[Call]:
        """All calls of all processes.

        Raises:
            ValueError: a line is no record.
        """
        for path in sorted(self.path.glob("*.jsonl")):
            yield from read_calls(path, path.stem)

    def _sign(self, name: str) -> Path:
        return self.path / f"{name}.sign"


class Tail:
    """Reads the new lines of a file that is being written.

    Args:
        path: it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Line]:
        """What is new; a line that is not whole is left for later."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        return [orjson.loads(line) for line in data[:whole].splitlines()]


@dataclass(slots=True)
class Counts:
    """What a process has written down so far, counted.

    Attributes:
        ready: whether it has the queue open.
        published, done: messages that were confirmed and acknowledged.
        error: why it could not go on, None: no reason is written down.
    """

    ready: bool = False
    published: int = 0
    done: int = 0
    error: str | None = None


class Counter:
    """Counts what a process writes down while it does.

    Args:
        path: of its file.
    """

    def __init__(self, path: Path) -> None:
        self.counts: Counts = Counts()
        self._tail = Tail(path)
        self._acks: dict[int, int] = {}

    def read(self) -> bool:
        """Take in what is new; whether there was any."""
        lines = self._tail.read()
        for line in lines:
            if "what" in line:
                self.counts.ready = True
                self.counts.error = line.get("error")
            elif "call" in line:
                if line["call"] in ("ack", "ack_many", "claim", "claim_many"):
                    self._acks[line["n"]] = len(line.get("settles", ()))
            else:
                self.counts.published += len(line.get("seqs", ()))
                acks = self._acks.pop(line["n"], 0)
                self.counts.done += acks - len(line.get("but", ())) if line["told"] == DONE else 0
        return bool(lines)


def read_calls(path: Path, who: str) -> Iterator[Call]:
    """The calls of one process.

    Raises:
        ValueError: a line is no record.
    """
    begun: dict[int, Line] = {}
    for line in Tail(path).read():
        if "what" in line:
            continue
        if "call" in line:
            begun[line["n"]] = line
        else:
            yield _call(who, begun.pop(line["n"]), line)
    for line in begun.values():
        yield _call(who, line, {"at": None, "told": UNKNOWN})


def _call(who: str, begin: Line, end: Line) -> Call:
    told = end["told"]
    totals = end.get("totals")
    return Call(
        who=who,
        n=begin["n"],
        name=begin["call"],
        begun=begin["at"],
        ended=end["at"],
        told=told,
        sent=_sent(begin, end),
        held=[Held(*held) for held in end.get("held", ())],
        settled=_settled(begin, end),
        seconds=begin.get("seconds", 0.0),
        limit=begin.get("limit", 0),
        count=end.get("count", 0),
        totals=None if totals is None else Totals(**totals),
    )


def _sent(begin: Line, end: Line) -> list[Sent]:
    seqs = end.get("seqs", [])
    rest: str = end["rest"] if "rest" in end else end["told"]
    trial = begin.get("trial", 1)
    return [
        Sent(name, group, DONE if place < len(seqs) else rest, seqs[place] if place < len(seqs) else None, delay, trial)
        for place, (name, group, delay) in enumerate(begin.get("sends", ()))
    ]


def _settled(begin: Line, end: Line) -> list[Settled]:
    but = end.get("but", {})
    told = end["told"]
    if not but:
        return [Settled(claim, seq, told) for claim, seq in begin.get("settles", ())]
    return [
        Settled(claim, seq, but.get(f"{claim}:{seq}") or but.get(str(seq), told))
        for claim, seq in begin.get("settles", ())
    ]
