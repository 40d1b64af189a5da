"""How far `rqfast publish --resume` has come, in a file."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from ..errors import ConfigError


@dataclass(slots=True)
class Progress:
    """What the file holds.

    Attributes:
        run: the beginning of the dedup ids of this run.
        source: what is read, "-" for stdin.
        lines: so many lines are in.
        published: so many messages, over all attempts.
        first: a hash of the first line, by which a file that took its place is known; "" while that may change.
    """

    run: str
    source: str
    lines: int = 0
    published: int = 0
    first: str = ""


class Checkpoint:
    """Reads and writes the file; without one it only counts.

    Raises:
        ConfigError: the file is none of ours, or of another source.
    """

    def __init__(self, file: Path | None, source: str) -> None:
        self._file = file
        self.progress = Progress(secrets.token_hex(8), source)
        if file is None or not file.exists():
            return
        try:
            self.progress = Progress(**orjson.loads(file.read_bytes()))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{file} is no file that --resume has written: {error}") from error
        if self.progress.source != source:
            raise ConfigError(f"{file} is about {self.progress.source}, not {source}: name another file for --resume")

    def begin(self, first: bytes) -> None:
        """The source begins with this line.

        The file is there from then on: a run that dies in its first piece is to be gone on with under its dedup ids.

        Raises:
            ConfigError: it began with another line before.
        """
        progress = self.progress
        mark = hashlib.sha256(first.strip()).hexdigest()[:16] if first else ""  # an empty file may yet grow
        if progress.first not in ("", mark):
            raise ConfigError(
                f"{progress.source} begins with another line than when {self._file} was written, so it is another file "
                f"(of the one before {progress.lines:,} lines are in): for this one name another file for --resume, "
                f"or delete {self._file}"
            )
        progress.first = mark
        self.save(progress.lines, 0)

    def mended(self) -> None:
        """A line is refused and will be another one: where none is in before it, that may be the first."""
        if self.progress.lines == 0:
            self.progress.first = ""
            self.save(0, 0)

    def save(self, lines: int, messages: int) -> None:
        """So many lines are in, and so many more messages."""
        self.progress.lines = lines
        self.progress.published += messages
        if self._file is None:
            return
        beside = self._file.with_name(self._file.name + ".new")
        with beside.open("wb") as file:
            file.write(orjson.dumps(asdict(self.progress)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self._file)
        _sync_folder(self._file.parent)


def _sync_folder(folder: Path) -> None:
    """Let the new name outlast a crash of the machine; Windows cannot be told so."""
    if sys.platform == "win32":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
