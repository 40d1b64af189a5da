"""Declared types of result columns.

SQLite knows them, Python's sqlite3 does not tell.  So they are found by name: which column of which table a result
column shows is read from the statement, and which columns the statement reads at all is told by the authorizer.
A column that cannot be traced counts as an expression, which has no declared type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from .tokens import Token, verb

_END_OF_LIST = {"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT"}
_ROWID = ("rowid", "oid", "_rowid_")

Read = Mapping[str, Sequence[tuple[str, str]]]


class Source(NamedTuple):
    """The column that an item of the result list shows: its table where that is said, and its name."""

    table: str
    name: str


EXPRESSION, STAR = Source("", ""), Source("", "*")


def declared(found: list[Token], columns: list[str], read: Read) -> list[str]:
    """The declared type of each result column in lower case, '' where there is none.

    Args:
        found: the statement.
        columns: the names of its result columns.
        read: for each column name that it reads, in lower case, the tables that have it and the types there.
    """
    shown = _shown(found)
    if len(shown) != len(columns):
        shown = _spread(shown, len(columns))
    aliases, tables, seen = _aliases(found), _tables(found), Counter[str]()
    types = []
    for source, column in zip(shown, columns, strict=True):
        name, turn = _resolved(source.name, aliases, read), 0
        if source == STAR:
            name = _resolved(column.lower(), aliases, read)
            turn = seen[name]
            seen[name] += 1
        owners = read.get(name, ())
        told = dict(owners).get(tables.get(source.table, source.table))
        if told is None and owners:
            told = owners[min(turn, len(owners) - 1)][1]
        types.append((told if told is not None else "integer" if name in _ROWID else "").lower())
    return types


def _resolved(name: str, aliases: Mapping[str, str], read: Read) -> str:
    for _ in range(len(aliases) + 1):
        if name in read or name not in aliases:
            break
        name = aliases[name]
    return name


def _shown(found: list[Token]) -> list[Source]:
    """What each item of the result list shows."""
    what, start = verb(found)
    if what not in ("SELECT", "VALUES"):
        clauses = [at for at, token in enumerate(found) if token.word == "RETURNING" and token.depth == 0]
        if not clauses:
            return []
        start = clauses[-1]
    return [] if what == "VALUES" else [_source(item) for item in _items(found, start + 1)]


def _items(found: list[Token], start: int) -> list[list[Token]]:
    depth = found[start].depth if start < len(found) else 0
    items: list[list[Token]] = [[]]
    for at in range(start, len(found)):
        token = found[at]
        if token.depth < depth or (token.depth == depth and token.word in _END_OF_LIST):
            break
        if token.depth == depth and token.text == ",":
            items.append([])
        elif not (at == start and token.word in ("DISTINCT", "ALL")):
            items[-1].append(token)
    return items


def _source(item: list[Token]) -> Source:
    if len(item) >= 3 and item[-2].word == "AS":
        item = item[:-2]
    elif len(item) >= 2 and item[-1].name and (item[-2].name or item[-2].text == ")") and item[-1].word != "END":
        item = item[:-1]
    if item and item[0].text == "(" and len(item) > 1 and item[1].word == "SELECT" and item[-1].text == ")":
        return _source(_items(item, 2)[0])
    names, dots = item[::2], item[1::2]
    if not names or len(item) % 2 == 0 or any(dot.text != "." for dot in dots):
        return EXPRESSION
    return STAR if names[-1].text == "*" else Source(names[-2].name if dots else "", names[-1].name)


def _spread(shown: list[Source], count: int) -> list[Source]:
    """One entry for each column, where stars stand for several."""
    if shown.count(STAR) != 1:
        return [STAR if STAR in shown else EXPRESSION] * count
    at = shown.index(STAR)
    wide = count - len(shown) + 1
    return [*shown[:at], *[STAR] * wide, *shown[at + 1 :]] if wide >= 0 else [EXPRESSION] * count


def _aliases(found: list[Token]) -> dict[str, str]:
    """`a AS b` in inner queries: b shows a."""
    aliases = {}
    for at in range(1, len(found) - 2):
        first, middle, last = found[at : at + 3]
        if middle.word == "AS" and first.name and last.name and found[at - 1].text.upper() in (",", ".", "SELECT"):
            aliases[last.name] = first.name
    return aliases


def _tables(found: list[Token]) -> dict[str, str]:
    """`FROM a b` and `JOIN a AS b`: b is a."""
    named = [token for token in found if token.word != "AS"]
    begins = {"FROM", "JOIN", ","}
    triples = zip(pairwise(named), named[2:], strict=False)
    return {last.name: first.name for (before, first), last in triples if before.text.upper() in begins and last.name}
