"""The user's own statements, which commit with a publish or an ack: checked before anything is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from .._core import MOST_EVENT
from ..errors import InvalidMessage
from .alike import Sameness

INT64 = 1 << 63

# Strings, quoted names and comments; placeholders; words; what is left one character at a time.  (SQLite takes a
# byte order mark before a word for a blank.)
_TOKEN = re.compile(
    r"""(?P<skip>[ \t\n\f\r\ufeff]+|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
    |(?P<place>\?\d*|[:@$][A-Za-z_]\w*)
    |(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    |(?P<end>;)
    |(?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)

# They end or begin a transaction, act on the connection, or (on a server) may not take part in a rollback.
_REFUSED = {
    "begin", "commit", "end", "rollback", "savepoint", "release", "attach", "detach", "pragma", "vacuum",
}  # fmt: skip

# rqlite takes a text parameter of this form for a blob.
_BLOB_LIKE = re.compile(r"\s*[xX]'(?:[0-9a-fA-F]{2})*'\s*")


def check_statements(statements: Any, argument: str = "with_statements", *, written: bool = True) -> list[list[Any]]:
    """Return `statements` as a list of [sql, *parameters], or refuse them.

    Args:
        written: they go to every node, so they must do the same on each.

    Raises:
        TypeError, InvalidMessage: which statement, and why.
    """
    if isinstance(statements, str | bytes) or not isinstance(statements, Iterable):
        raise TypeError(f"{argument} is a list of [sql, *parameters], not {type(statements).__name__}")
    made = [_statement(one, f"{argument}[{position}]", position, written) for position, one in enumerate(statements)]
    size = sum(len(value) for one in made for value in one if isinstance(value, str | bytes))
    if size > MOST_EVENT:
        raise InvalidMessage(f"{argument} have {size:,} bytes: {MOST_EVENT:,} at most, in one transaction", argument)
    return made


def split_script(script: Any) -> list[str]:
    """The statements of a text, parted by semicolons, without comments; blank ones left out.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(script, str):
        raise TypeError(f"SQL is a str, not {type(script).__name__}")
    found: list[str] = []
    kept: list[str] = []
    for token in _TOKEN.finditer(script):
        if token.lastgroup == "end":
            found.append("".join(kept))
            kept = []
        else:
            kept.append(" " if token.lastgroup == "skip" else token.group())
    found.append("".join(kept))
    return [text for one in found if (text := one.strip())]


def _statement(statement: Any, name: str, position: int, written: bool) -> list[Any]:
    if isinstance(statement, str) or not isinstance(statement, Sequence) or not statement:
        raise TypeError(f"{name} is [sql, *parameters], not {type(statement).__name__}")
    text, parameters = statement[0], list(statement[1:])
    if not isinstance(text, str):
        raise TypeError(f"{name}[0] is the SQL (str), not {type(text).__name__}")
    sameness = Sameness()
    text, places = _sql(text, name, position, sameness)
    if len(parameters) != len(places):
        raise InvalidMessage(f"{name} has {len(places)} placeholders and {len(parameters)} parameters", name, position)
    checked = [_parameter(value, name, position) for value in parameters]
    sameness.check_values(checked)
    if written and sameness.fault:
        raise InvalidMessage(f"{name}: {sameness.fault}", name, position)
    return [text, *checked]


def _sql(text: str, name: str, position: int, sameness: Sameness) -> tuple[str, list[str]]:
    """The text without comments and final semicolon, and its placeholders."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(f"{name} holds a lone surrogate", name, position) from None
    if "\0" in text:
        raise InvalidMessage(f"{name} holds a NUL character", name, position)
    kept: list[str] = []
    places: list[str] = []
    words: list[str] = []
    ended = False
    for token in _TOKEN.finditer(text):
        kind, found = token.lastgroup, token.group()
        if kind == "skip":
            kept.append(" ")
            continue
        if kind == "end":
            ended = True
            continue
        if ended:
            _check_words(words, name, position)
            raise InvalidMessage(f"{name} is more than one statement", name, position)
        kept.append(found)
        sameness.token(kind, found)
        if kind == "word":
            words.append(found.lower())
        elif kind == "place":
            places.append(found)
    _check_words(words, name, position)
    _check_places(places, name, position)
    return "".join(kept).strip(), places


def _check_words(words: list[str], name: str, position: int) -> None:
    if not words:
        raise InvalidMessage(f"{name} is no statement", name, position)
    if words[0] in _REFUSED:
        raise InvalidMessage(f"{name}: {words[0].upper()} cannot be part of a transaction of the queue", name, position)
    if words[0] == "create" and "trigger" in words[:4]:
        raise InvalidMessage(f"{name}: CREATE TRIGGER is not taken, make it beforehand", name, position)
    if words[0] == "create" and words[1:2] in (["temp"], ["temporary"]):
        raise InvalidMessage(
            f"{name}: what is TEMP stands on one connection of one node: it is not taken", name, position
        )
    if "returning" in words:
        # On rqlite such a statement may fail without undoing the others.
        raise InvalidMessage(f"{name}: RETURNING is not taken, nobody would see its rows", name, position)


def _check_places(places: list[str], name: str, position: int) -> None:
    if any(place != "?" for place in places):
        raise InvalidMessage(f"{name}: placeholders are written ? and nothing else", name, position)


def _parameter(value: Any, name: str, position: int) -> Any:
    if value is None or isinstance(value, bool):
        return value if value is None else int(value)
    if isinstance(value, int):
        if not -INT64 <= value < INT64:
            raise InvalidMessage(f"{name}: a parameter does not fit in 64 bits", name, position)
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMessage(f"{name}: {value} is no number that a database can store", name, position)
        return float(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidMessage(f"{name}: a parameter holds a lone surrogate", name, position) from None
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{name}: a parameter is str, int, float, bool, bytes or None, not {type(value).__name__}")


def for_http(statement: list[Any]) -> list[Any]:
    """A checked statement as rqlite takes it: bytes as numbers, and text that looks like a blob stays text."""
    text, parameters = statement[0], list(statement[1:])
    doubtful = {at for at, value in enumerate(parameters) if isinstance(value, str) and _BLOB_LIKE.fullmatch(value)}
    if doubtful:
        text = _with_casts(text, doubtful)
    values = [
        list(value.encode() if at in doubtful else value) if at in doubtful or isinstance(value, bytes) else value
        for at, value in enumerate(parameters)
    ]
    return [text, *values]


def _with_casts(text: str, places: set[int]) -> str:
    """The text with CAST(? AS TEXT) for the placeholders at these positions."""
    made, count = [], 0
    for token in _TOKEN.finditer(text):
        found = token.group()
        if token.lastgroup == "place":
            found = "CAST(? AS TEXT)" if count in places else found
            count += 1
        made.append(found)
    return "".join(made)


def for_sqlite(statement: list[Any]) -> list[Any]:
    """A checked statement as SQLite takes it: as it is."""
    return statement
