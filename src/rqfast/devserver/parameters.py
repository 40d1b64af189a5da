"""Parameters: from JSON to values, and from values to the places in a statement, in the way of the server's driver."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .tokens import Token

_HEX = re.compile(r"\s*[xX]'((?:[0-9a-fA-F]{2})*)'\s*\Z")
_MARK = "?00"  # a numbered parameter that stands for a named one, told from the client's own `?1`
_NAMED = re.compile(r"\?00([0-9]+)")
MAX_PARAMETERS = 32_766  # of a statement, on the server
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


class BadRequest(Exception):
    """The request is refused whole: status 400 and this text."""


class Parameter(NamedTuple):
    """A value, and its name where the client gave one."""

    name: str
    value: Any


def parameter(name: str, value: Any) -> Parameter:
    """One parameter from JSON.

    Raises:
        BadRequest: a value that cannot be stored.
    """
    if isinstance(value, str):
        found = _HEX.match(value)
        return Parameter(name, bytes.fromhex(found[1]) if found else value)
    if isinstance(value, list):
        return Parameter(name, _blob(value))
    if isinstance(value, dict):
        raise BadRequest("unsupported type map[string]interface {}")
    if isinstance(value, int) and not SMALLEST <= value <= LARGEST:
        value = float(value)
    return Parameter(name, value)


def _blob(items: list[Any]) -> bytes:
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float):
            kinds = {str: "string", bool: "bool", list: "[]interface {}", dict: "map[string]interface {}"}
            raise BadRequest(f"unsupported type {kinds.get(type(item), '<nil>')}")
        if not isinstance(item, int) or not 0 <= item <= 255:
            raise BadRequest(f"unsupported type {item}")
    return bytes(items)


class Places:
    """The parameters that a statement has, numbered as SQLite numbers them.

    `text` is the statement with its named parameters replaced by numbered ones: Python takes values by place or by
    name, and the server takes both at once.
    """

    def __init__(self, text: str, found: list[Token]) -> None:
        self.count: int = 0
        self.indexes: dict[str, int] = {}
        pieces, at = [], 0
        for token in found:
            if token.kind != "parameter":
                continue
            if token.text == "?":
                self.count += 1
            elif token.text.startswith("?"):
                # What is beyond the limit does not prepare: here it must only not take all memory.
                self.count = max(self.count, min(int(token.text[1:]), MAX_PARAMETERS + 1))
            else:
                pieces += [text[at : token.start], f"{_MARK}{self._index(token.text)}"]
                at = token.start + len(token.text)
        self.text: str = "".join([*pieces, text[at:]])

    def _index(self, name: str) -> int:
        if name not in self.indexes:
            self.count += 1
            self.indexes[name] = self.count
        return self.indexes[name]

    def values(self, given: list[Parameter]) -> list[Any]:
        """The values by place: a named one goes wherever its name stands, others to their own position."""
        values: list[Any] = [None] * self.count
        for place, (name, value) in enumerate(given):
            if not name:
                if place < self.count:
                    values[place] = value
                continue
            for sign in ":@$":
                if index := self.indexes.get(sign + name):
                    values[index - 1] = value
        return values

    def restored(self, column: str) -> str:
        """A column's name with the names that the client had put in it."""
        if not self.indexes:
            return column
        names = {str(index): name for name, index in self.indexes.items()}
        return _NAMED.sub(lambda match: names.get(match[1], match[0]), column)
