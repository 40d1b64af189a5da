"""How commands print: tables and colours on a terminal, plain text elsewhere, JSON for programs.

What a stranger named or wrote is shown without control characters and never read as markup.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..connect import RQLITE_SCHEMES

PLAIN_WIDTH = 100
# Between columns, and what a column that gives way keeps.
GAP, NARROWEST = 2, 8
# What of a last word is worth to be seen.
LEAST = 5
# From so many cells on, a text is cut in its very middle.
ROOMY = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        head: what stands above it.
        right: for figures.
        fold, cut, middle: what is done to it where the terminal is too narrow (cut: at the end, or in the middle); the
            others stay whole.
        spare: left out before that.
    """

    head: str
    right: bool = False
    fold: bool = False
    cut: bool = False
    middle: bool = False
    spare: bool = False

    @property
    def gives_way(self) -> bool:
        """Whether it may be narrower than what is in it."""
        return self.fold or self.cut or self.middle


def make_console(stderr: bool = False) -> Console:
    """The console of stdout, or of stderr."""
    stream: TextIO = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    is_terminal = stream.isatty()
    return Console(
        stderr=stderr,
        force_terminal=None if is_terminal else False,
        no_color=None if is_terminal else True,
        width=None if is_terminal else PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def say(console: Console, text: str, style: str = "") -> None:
    """Print text as it is, without marks of any kind in it; on a terminal lines end between words."""
    console.print(Text(printable(text), style=style), soft_wrap=not console.is_terminal)


def tell(text: str) -> None:
    """Write one line to stderr: what is no result."""
    line = one_line(" ".join(text.split()))
    sys.stderr.write(line.encode(sys.stderr.encoding or "utf-8", "backslashreplace").decode() + "\n")


def printable(text: str) -> str:
    """The text with control characters and the like as escapes, but for the ends of lines (str)."""
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def one_line(text: str) -> str:
    """The same, ends of lines too: what a stranger named, in a line of ours (str)."""
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode() if letter != " " else letter


def json_line(value: Any) -> None:
    """Print a value as a line of JSON; no letter in it moves a terminal, and it reads the same."""
    text = orjson.dumps(value).decode()
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _json_escape(c) for c in text)
    sys.stdout.write(text + "\n")


def _json_escape(letter: str) -> str:
    pair = letter.encode("utf-16-be")
    return "".join(f"\\u{pair[at : at + 2].hex()}" for at in range(0, len(pair), 2))


def show(console: Console, rows: Mapping[str, str]) -> None:
    """Print a table of two columns: what -> how much."""
    wide = max(13, *(len(name) + 2 for name in rows))
    if not console.is_terminal:
        say(console, "\n".join(f"{name:<{wide}}{one_line(text)}".rstrip() for name, text in rows.items()))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(Text(name, style="bold"), Text(one_line(text)))
    console.print(table)


def show_rows(console: Console, heads: Sequence[str | Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with heads; plain columns where there is no terminal."""
    columns = [head if isinstance(head, Column) else Column(head) for head in heads]
    if not any(column.gives_way for column in columns):
        columns[-1] = replace(columns[-1], fold=True)
    clean = [[one_line(cell) for cell in row] for row in rows]
    if console.is_terminal:
        console.print(make_table(columns, clean, console.width))
        return
    titles = [column.head for column in columns]
    widths = [max(map(cell_len, cells)) for cells in zip(titles, *clean, strict=True)]
    for row in (titles, *clean):
        cells = [_padded(*each) for each in zip(row, widths, columns, strict=True)]
        say(console, "  ".join(cells).rstrip())


def _padded(cell: str, width: int, column: Column) -> str:
    blank = " " * (width - cell_len(cell))
    return blank + cell if column.right else cell + blank


def make_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> Table:
    """A table for a terminal so wide (Table); texts are clean already."""
    if sum(_needs(columns, rows)) + GAP * (len(columns) - 1) > width and any(column.spare for column in columns):
        kept = [n for n, column in enumerate(columns) if not column.spare]
        columns, rows = [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    widths = _widths(columns, rows, width)
    for column, most in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.head, style="bold"),
            overflow="fold" if column.fold else "ellipsis",
            justify="right" if column.right else "left",
            no_wrap=not column.fold,
            width=most,
        )
    for row in rows:
        table.add_row(*(_fitted(cell, column, most) for cell, column, most in zip(row, columns, widths, strict=True)))
    return table


def _fitted(cell: str | Text, column: Column, most: int) -> Text:
    if not column.middle:
        return cell if isinstance(cell, Text) else Text(cell)
    return Text(middle(str(cell), most), style=cell.style if isinstance(cell, Text) else "")


def middle(text: str, most: int) -> str:
    """The text in so many cells of a terminal; where that is too few, without what is in its middle (str).

    In a last word that is long enough the cut is there, so that what is said before a name stays. Where there is little
    room most of it is for the end: there names differ.
    """
    if cell_len(text) <= most:
        return text
    before, space, last = text.rpartition(" ")
    room = most - cell_len(before) - 1
    if space and room >= LEAST and cell_len(last) > room:
        return f"{before} {middle(last, room)}"
    tail = (most - 1) // 2 if most >= ROOMY else max(0, most - 2)
    return f"{_first(text, most - 1 - tail)}…{_first(text[::-1], tail)[::-1]}"


def _first(text: str, most: int) -> str:
    """What of the beginning fits into so many cells."""
    used = 0
    for n, letter in enumerate(text):
        used += cell_len(letter)
        if used > most:
            return text[:n]
    return text


def _needs(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> list[int]:
    needs = [cell_len(column.head) for column in columns]
    for row in rows:
        needs = [max(need, cell_len(str(cell))) for need, cell in zip(needs, row, strict=True)]
    return needs


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> list[int]:
    """How wide each column is: what is in it, but those that give way share what the others leave."""
    needs = _needs(columns, rows)
    yielding = sorted((n for n, column in enumerate(columns) if column.gives_way), key=lambda n: needs[n])
    left = width - GAP * (len(columns) - 1) - sum(need for n, need in enumerate(needs) if n not in yielding)
    for place, n in enumerate(yielding):
        needs[n] = min(needs[n], max(NARROWEST, left // (len(yielding) - place)))
        left -= needs[n]
    return needs


def without_password(url: str) -> str:
    """The URL without user and password (str); a path stays as it is."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in RQLITE_SCHEMES:
        return url
    return f"{scheme}://{rest.rpartition('@')[2]}"
