"""Whether a statement of the user's own does the same on every node, and when it is applied again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Each node has a clock, dice and a library of its own, and applies the statement by itself.
_WORDS = frozenset(("current_timestamp", "current_date", "current_time"))
_CHANCE = frozenset(("random", "randomblob"))
_OF_THE_NODE = frozenset(
    ("total_changes", "sqlite_version", "sqlite_source_id", "sqlite_compileoption_used", "sqlite_compileoption_get",
     "load_extension")
)  # fmt: skip
# How many arguments come before the time.
_TIME = {
    "date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1, "timediff": 0,
}  # fmt: skip
_NOW = ("now", "localtime", "utc")
# As the first argument of a time it is that of now.
_FINER = ("subsec", "subsecond")
_ADVICE = "bind a value instead"


class Sameness:
    """Looks at the tokens of one statement, in their order.

    Attributes:
        fault: why nodes would differ, "" when nothing was found.
        time_places: the placeholders (by position) whose value a function of time gets.
    """

    def __init__(self) -> None:
        self.fault: str = ""
        self.time_places: set[int] = set()
        self._last = ""
        self._places = 0
        # Of each open bracket: the function that it belongs to ("" when none), its arguments so far.
        self._open: list[tuple[str, list[str]]] = []

    def token(self, kind: str | None, found: str) -> None:
        """The next one; blanks and comments are left out."""
        plain = found[1:-1].lower() if kind == "text" and found[0] != "'" else found.lower()
        if kind == "word" and plain in _WORDS:
            self._found(f"{found} is another time on each node")
        if found == "(" and kind == "other":
            self._open.append((self._last, [""]))
        elif found == ")" and kind == "other" and self._open:
            self._close(*self._open.pop())
        elif self._open:
            self._argument(kind, found)
        if kind == "place":
            if any(name in _TIME for name, _ in self._open):
                self.time_places.add(self._places)
            self._places += 1
        self._last = plain if kind in ("word", "text") else ""

    def check_values(self, values: Iterable[Any]) -> None:
        """A placeholder may say `now` as well."""
        for place, value in enumerate(values):
            if place in self.time_places and isinstance(value, str) and value.strip().lower() in _NOW:
                self._found(f"a function of time gets {value!r}, which each node takes from its own clock or zone")

    def _argument(self, kind: str | None, found: str) -> None:
        arguments = self._open[-1][1]
        if found == "," and kind == "other":
            arguments.append("")
            return
        arguments[-1] += found
        said = found[1:-1].strip().lower() if kind == "text" else ""
        for name, _ in self._open:
            if said in _NOW and name in _TIME:
                self._found(f"{name}({found}) goes by each node's own clock or zone")

    def _close(self, name: str, arguments: list[str]) -> None:
        given = 0 if arguments == [""] else len(arguments)
        if name in _CHANCE and given == (name == "randomblob"):
            self._found(f"{name}() is another value on each node")
        elif name in _OF_THE_NODE:
            self._found(f"{name}() tells of the node that runs it")
        elif name in _TIME and (given <= _TIME[name] or arguments[_TIME[name]].lower()[1:-1] in _FINER):
            self._found(f"{name}() without a time is that of each node's own clock")
        if self._open:
            self._open[-1][1][-1] += "()"

    def _found(self, fault: str) -> None:
        self.fault = self.fault or f"{fault}; {_ADVICE}"
