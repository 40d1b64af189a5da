"""Single keys from a terminal, without waiting for the end of a line."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from types import TracebackType
from typing import Any, Self

UP, DOWN, ESCAPE, ENTER = "up", "down", "escape", "enter"

_NAMES = {
    b"\x1b[A": UP, b"\x1bOA": UP, b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"\x1b": ESCAPE, b"\r": ENTER, b"\n": ENTER,
}  # fmt: skip
# An arrow and the like, the key for escape alone, or a letter of UTF-8.
_KEY = re.compile(rb"\x1b\[[0-9;]*[@-~]|\x1bO[A-Z]|[\x00-\x7f]|[\xc0-\xff][\x80-\xbf]+|[\x80-\xff]")
# What follows an escape within so many seconds belongs to it.
ESCAPED = 0.03
# What Windows sends after a first '\xe0' or '\0'.
_WINDOWS = {"H": UP, "P": DOWN}


class Keys:
    """Entered, keys are read one by one and not shown; left, the terminal is as it was."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._before: list[Any] | None = None
        self._read = b""

    def __enter__(self) -> Self:
        if sys.platform != "win32":
            import termios
            import tty

            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.platform != "win32" and self._before is not None:
            import termios

            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def get(self, seconds: float) -> str | None:
        """The next key: its letter or its name; None when none comes in time.

        Raises:
            EOFError: the terminal is gone.
        """
        if sys.platform == "win32":
            return _windows_key(seconds)
        if not self._read:
            self._fill(seconds)
        if self._read == b"\x1b":
            self._fill(ESCAPED)
        found = _KEY.match(self._read)
        if found is None:
            return None
        self._read = self._read[found.end() :]
        key = found[0]
        return _NAMES.get(key) or (None if key.startswith(b"\x1b") else key.decode("utf-8", "replace"))

    def _fill(self, seconds: float) -> None:
        if select.select([self._file], [], [], seconds)[0]:
            data = os.read(self._file, 1024)
            if not data:
                raise EOFError
            self._read += data


def _windows_key(seconds: float) -> str | None:
    if sys.platform == "win32":
        import msvcrt

        until = time.monotonic() + seconds
        while not msvcrt.kbhit():
            if time.monotonic() >= until:
                return None
            time.sleep(0.02)
        letter = msvcrt.getwch()
        if letter in "\0\xe0":
            return _WINDOWS.get(msvcrt.getwch())
        return _NAMES.get(letter.encode(), letter)
    return None
