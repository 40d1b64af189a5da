"""A file of JSON lines, plain or compressed: where the demo's messages come from."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from ..errors import RqfastError

FLIGHTS = "flights-20k.jsonl.gz"
GZIP_MAGIC = b"\x1f\x8b"


class DemoError(RqfastError):
    """The demo cannot be run, or was not finished: the file, the queue's name, a worker that is gone."""


@dataclass(frozen=True, slots=True)
class Row:
    """One message to be.

    Attributes:
        line: its line in the file, from 1.
        group: its group.
        text: the line as it stands in the file, JSON text.
    """

    line: int
    group: str
    text: bytes


class Source:
    """Rows of a file of JSON lines, all of which are looked at once when it is made; blank lines are passed over.

    Args:
        path: the file, plain or gzip; None: the packaged flights.
        field: the field of each object whose value is the group.

    Raises:
        DemoError: the file has no lines or is damaged, a line is not a JSON object or has no such field.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path | None, field: str) -> None:
        self.path = path
        self.field = field
        self.count: int = sum(1 for _ in self.rows())
        if not self.count:
            raise DemoError(f"{self.name}: the file has no lines")

    @property
    def name(self) -> str:
        """What to call it (str)."""
        return FLIGHTS if self.path is None else str(self.path)

    def rows(self) -> Iterator[Row]:
        """Read the file, row by row.

        Raises:
            DemoError: a line is not a JSON object, or has no such field.
        """
        groups: dict[str, str] = {}
        for number, line in self._lines():
            if not line.isspace():
                group = self._group(line, number)
                yield Row(number, groups.setdefault(group, group), line.strip())

    def _group(self, line: bytes, number: int) -> str:
        try:
            value: Any = orjson.loads(line)
        except ValueError as error:
            raise DemoError(f"{self.name}, line {number}: not JSON: {error}") from error
        if not isinstance(value, dict):
            raise DemoError(f"{self.name}, line {number}: not a JSON object")
        group = value.get(self.field)
        if group is None or group == "" or isinstance(group, dict | list):
            raise DemoError(
                f"{self.name}, line {number}: no group in the field {self.field!r}; the fields are {', '.join(value)}"
            )
        return group if isinstance(group, str) else orjson.dumps(group).decode()

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self._open() as file:
                yield from enumerate(file, 1)
        except (EOFError, zlib.error) as error:
            raise DemoError(f"{self.name}: damaged: {error}") from error

    def _open(self) -> io.BufferedIOBase:
        if self.path is None:
            return gzip.GzipFile(fileobj=io.BytesIO(files("rqfast.demo").joinpath(FLIGHTS).read_bytes()))
        with self.path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
        return gzip.GzipFile(self.path) if packed else self.path.open("rb")
