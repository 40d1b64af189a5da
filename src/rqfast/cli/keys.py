"""Single keys from a terminal, without waiting for the end of a line."""

from __future__ import annotations

import os
import select
import sys
import time
from types import TracebackType
from typing import Any, Self

UP, DOWN, ESCAPE, ENTER = "up", "down", "escape", "enter"

_NAMES = {
    b"\x1b[A": UP, b"\x1bOA": UP, b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"\x1b": ESCAPE, b"\r": ENTER, b"\n": ENTER,
}  # fmt: skip
# What Windows sends after a first '\xe0' or '\0'.
_WINDOWS = {"H": UP, "P": DOWN}


class Keys:
    """Entered, keys are read one by one and not shown; left, the terminal is as it was."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._before: list[Any] | None = None

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
        if not select.select([self._file], [], [], seconds)[0]:
            return None
        data = os.read(self._file, 1)
        if not data:
            raise EOFError
        if data == b"\x1b" and select.select([self._file], [], [], 0.02)[0]:
            data += os.read(self._file, 8)
        return _NAMES.get(data) or (data.decode("utf-8", "replace") if data[:1] != b"\x1b" else None)


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
