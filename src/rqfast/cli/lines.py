"""JSON lines as messages: read in pieces as they come, each line with its number."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from ..errors import ConfigError, InvalidMessage, RqfastError
from ..model import Message

FIELDS = tuple(Message.__dataclass_fields__)
# What one piece is at most, in bytes.
PIECE = 1 << 20

Numbered = tuple[int, bytes]


class Damaged(RqfastError):
    """A compressed file ends too early, or is none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a line becomes a message.

    Attributes:
        group_field: the line is an event, and this field of it its group; None: the line is a message.
        dedup_field: the field of the event whose value is the dedup id.
        defaults: what a line does not say.
        run: with the number of the line, the dedup id of a message that has none.
    """

    group_field: str | None = None
    dedup_field: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    run: str | None = None

    def message(self, number: int, line: bytes) -> Message:
        """The message of a line.

        Raises:
            ValueError: it is none.
        """
        found = orjson.loads(line)
        told = self._event(found, line) if self.group_field is not None else _message(found)
        if self.dedup_field is not None:
            told["dedup_id"] = _named(told["event"] if self.group_field is None else found, self.dedup_field)
        elif self.run is not None and told.get("dedup_id") is None:
            told["dedup_id"] = f"{self.run}:{number}"
        return Message(**{**self.defaults, **told})

    def _event(self, found: Any, line: bytes) -> dict[str, Any]:
        assert self.group_field is not None
        return {"group_id": _named(found, self.group_field), "event": line.strip()}


class Lines:
    """The lines of a file (that may be gzip), or of stdin.

    Attributes:
        name: of the file; "-" is stdin.
        size: of the file, in bytes; None where nobody knows.
    """

    def __init__(self, file: Path | None) -> None:
        self.name = "-" if file is None else os.fspath(file.absolute())
        self.size: int | None = None
        self._file: Any = sys.stdin.buffer
        self._raw: Any = None
        self._ahead = b""
        self._opened: AbstractContextManager[Any] | None = None
        if file is not None:
            self._raw = _open(file)
            self._opened = self._raw
            self.size = file.stat().st_size or None if file.is_file() else None
            self._file = gzip.GzipFile(fileobj=self._raw) if file.suffix == ".gz" else self._raw

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._opened.__exit__(kind, error, trace)

    @property
    def position(self) -> int | None:
        """How far it was read, of `size`."""
        return None if self.size is None else int(self._raw.tell())

    def first(self) -> bytes:
        """The first line, before `pieces` begins.

        Raises:
            Damaged: as `pieces`.
        """
        while b"\n" not in self._ahead:
            data = self._read()
            if not data:
                break
            self._ahead += data
        return self._ahead.partition(b"\n")[0]

    def pieces(self, skip: int, most: int) -> Iterator[tuple[int, list[Numbered]]]:
        """Lines as they come, those that are blank left out: the number of the last one, and they themselves.

        Args:
            skip: so many lines are not read.
            most: so many are in a piece at most.

        Raises:
            Damaged: the file ends too early, or is no gzip; all lines before were given.
        """
        number, rest = 0, b""
        while True:
            data, self._ahead = self._ahead or self._read(), b""
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            if rest and not data:  # the last line has no end
                lines = [rest]
            for start in range(0, len(lines), most):
                part = lines[start : start + most]
                numbered = [(number + n, line) for n, line in enumerate(part, 1) if line.strip()]
                number += len(part)
                if number > skip:
                    yield number, [one for one in numbered if one[0] > skip]
            if not data:
                return

    def _read(self) -> bytes:
        """What comes next; nothing at the end."""
        try:
            return bytes(self._file.read1(PIECE))
        except EOFError as error:
            raise Damaged(f"{self.name} is cut off: the compressed data ends too early") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise Damaged(f"{self.name} is damaged, or no gzip: {error}") from error


def _open(file: Path) -> Any:
    try:
        return file.open("rb")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {file}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{file} is a folder, not a file") from error


def parse(shape: Shape, lines: Sequence[Numbered]) -> tuple[list[Message], InvalidMessage | None]:
    """The messages of the lines, up to the first that is none, and what is wrong with that."""
    messages: list[Message] = []
    for number, line in lines:
        try:
            messages.append(shape.message(number, line))
        except ValueError as error:
            return messages, InvalidMessage(f"line {number}: {error}", "line")
    return messages, None


def _message(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or "group_id" not in found or "event" not in found:
        raise ValueError('a line is an object with "group_id" and "event" (or say --group-field)')
    unknown = sorted(set(found) - set(FIELDS))
    if unknown:
        raise ValueError(f"a message has no {', '.join(unknown)}; it has {', '.join(FIELDS)}")
    return found


def _named(found: Any, name: str) -> str:
    """The value of a field, as an id."""
    value = found.get(name) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        fields = f"; it has {', '.join(map(str, found))}" if isinstance(found, dict) and name not in found else ""
        raise ValueError(f"no text or whole number in the field {name!r}{fields}")
    return str(value)
