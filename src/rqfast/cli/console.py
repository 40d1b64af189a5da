"""How commands print: colours and bars on a terminal, plain text elsewhere; what strangers named, without control
characters."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..connect import RQLITE_SCHEMES

PLAIN_WIDTH = 100


def make_console() -> Console:
    """The console: colours and bars on a terminal, plain text elsewhere."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    is_terminal = sys.stdout.isatty()
    return Console(
        force_terminal=None if is_terminal else False,
        no_color=None if is_terminal else True,
        width=None if is_terminal else PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def say(console: Console, text: str) -> None:
    """Print text as it is, without marks of any kind in it."""
    console.print(printable(text), soft_wrap=True)


def printable(text: str) -> str:
    """The text without control characters: group names are a stranger's (str)."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def show(console: Console, rows: dict[str, str]) -> None:
    """Print a table of two columns."""
    if not console.is_terminal:
        say(console, "\n".join(f"{name:<13}{text}" for name, text in rows.items()))
        return
    table = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        table.add_row(Text(name, style="bold"), Text(printable(text)))
    console.print(table)


def show_rows(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with heads; plain columns where there is no terminal."""
    clean = [[printable(cell).replace("\n", "?") for cell in row] for row in rows]
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(heads, *clean, strict=True)]
        for row in (heads, *clean):
            say(console, "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(Text(head, style="bold"), overflow="fold")
    for row in clean:
        table.add_row(*map(Text, row))
    console.print(table)


def without_password(url: str) -> str:
    """The URL without user and password (str); a path stays as it is."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in RQLITE_SCHEMES:
        return url
    return f"{scheme}://{rest.rpartition('@')[2]}"
