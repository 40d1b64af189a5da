"""SQL text in tokens: as far as parameters, statements in a row, and names have to be told apart."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z))
    | (?P<string>[xX]?'[^']*(?:''[^']*)*(?:'|\Z))
    | (?P<quoted>"[^"]*(?:""[^"]*)*(?:"|\Z)|`[^`]*(?:``[^`]*)*(?:`|\Z)|\[[^\]]*(?:\]|\Z))
    | (?P<parameter>\?[0-9]*|[:@$][\w$]+)
    | (?P<number>(?:[0-9][\w.]*|\.[0-9]\w*)(?:(?<=[eE])[+-][0-9]+)?)
    | (?P<word>[^\W0-9][\w$]*)
    | (?P<operator>->>|->|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)


LONG = 4096
T = TypeVar("T")


def remembered(read: Callable[[str], T]) -> Callable[[str], T]:
    """Remember what was read from the last texts, unless they are long."""
    short = lru_cache(maxsize=1000)(read)
    return lambda text: short(text) if len(text) <= LONG else read(text)


class Token(NamedTuple):
    """A token that is not blank: its kind, its text, where it starts, and how many brackets are open around it."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def word(self) -> str:
        """The token in capitals where it is a bare word, else ''."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """What it names in lower case where it may be a name, else ''."""
        if self.kind == "word":
            return self.text.lower()
        return self.text[1:-1].replace(self.text[0] * 2, self.text[0]).lower() if self.kind == "quoted" else ""


def tokens(text: str) -> list[Token]:
    """The tokens of a text; what SQLite would not take is an operator of one character."""
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    depth = 0
    for match in _TOKEN.finditer(text):
        kind, found = str(match.lastgroup), match.group()
        if kind == "blank":
            continue
        depth -= found == ")"
        yield Token(kind, found, match.start(), depth)
        depth += found == "("


@remembered
def statements(text: str) -> list[str]:
    """The statements of a text such as `a; b`; blank ones and pure comments are left out."""
    if ";" not in text:
        return [text] if tokens(text) else []
    found, start = [], 0
    for token in tokens(text):
        # A semicolon inside a trigger's body ends nothing: SQLite itself knows.
        if token.text == ";" and sqlite3.complete_statement(text[start : token.start + 1]):
            found.append(text[start : token.start])
            start = token.start + 1
    return [part for part in [*found, text[start:]] if tokens(part)]


def verb(found: list[Token]) -> tuple[str, int]:
    """The word that says what a statement does (SELECT, UPDATE, ...), behind WITH where there is one, and its place."""
    words = {"SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE"}
    if not found or found[0].word != "WITH":
        return (found[0].word if found else "", 0)
    for place, token in enumerate(found):
        if token.depth == 0 and token.word in words:
            return token.word, place
    return "WITH", 0
