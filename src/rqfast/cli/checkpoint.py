"""How far `rqfast publish --resume` has come, in a file."""

from __future__ import annotations

import os
import secrets
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
    """

    run: str
    source: str
    lines: int = 0
    published: int = 0


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

    def save(self, lines: int, messages: int) -> None:
        """So many lines are in, and so many more messages."""
        self.progress.lines = lines
        self.progress.published += messages
        if self._file is None:
            return
        beside = self._file.with_name(self._file.name + ".new")
        beside.write_bytes(orjson.dumps(asdict(self.progress)))
        os.replace(beside, self._file)
