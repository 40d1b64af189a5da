"""The command `rqfast` as a process, as a call, and on a terminal."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import rqfast

SECONDS = 90.0
COMMAND = (sys.executable, "-m", "rqfast.cli")

# Takes the terminal that it finds as its own, so that Ctrl-C there is for it, and becomes the command.
_LAUNCH = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def environment(tmp_path: Path) -> dict[str, str]:
    """Temporary files in tmp_path/tmp, and the same rqfast that this process has."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    source = str(Path(rqfast.__file__).parent.parent)
    unwanted = ("FORCE_COLOR", "NO_COLOR", "RQFAST_URL", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {
        "TMPDIR": str(tmp_path / "tmp"),
        "TEMP": str(tmp_path / "tmp"),
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        "PYTHONIOENCODING": "utf-8",
    }


def rqfast_command(
    tmp_path: Path, *arguments: str, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run it in that folder, and wait for its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(tmp_path) | variables,
        cwd=tmp_path,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )


@dataclass(frozen=True)
class Ran:
    """What became of a command.

    Attributes:
        status: the exit status.
        out, err: what it wrote.
    """

    status: int
    out: str
    err: str

    @property
    def ok(self) -> Self:
        """The same, where it did what it should."""
        assert (self.status, self.err) == (0, ""), self
        return self

    @property
    def lines(self) -> list[str]:
        """The lines of stdout."""
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        """The lines of stdout as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


def call(*arguments: str, stdin: bytes = b"") -> Ran:
    """The same in this process, which is faster; stdin and stdout are no terminal."""
    from rqfast.cli import main

    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.argv = ["rqfast", *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    sys.stdout, sys.stderr = io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8")
    try:
        status = main()
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(status, out.getvalue().decode(), err.getvalue().decode())
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before


def commands() -> dict[str, Any]:
    """All commands, those of groups too: name -> the command of click."""
    from typer.main import get_command

    from rqfast.cli.app import make_app

    found: dict[str, Any] = {}
    for name, command in get_command(make_app()).commands.items():  # type: ignore[attr-defined]
        of_group = getattr(command, "commands", None)
        found |= {name: command} if of_group is None else {f"{name} {sub}": each for sub, each in of_group.items()}
    return found


class Terminal:
    """The command on a pseudo-terminal of its own; left, it is gone.

    Args:
        folder: in which it runs.
        arguments: of the command.
        size: columns and lines.
        variables: of the environment.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        size: tuple[int, int] = (100, 30),
        variables: Mapping[str, str] | None = None,
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._ours, theirs = pty.openpty()
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *command, *arguments],
            env=environment(folder) | {"TERM": "xterm-256color"} | (variables or {}),
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)

    def wait_for(self, text: str, *, since: int = 0) -> str:
        """Wait until it has shown the text, after so many characters; returns what it has shown since then."""
        end = time.monotonic() + SECONDS
        while text not in self.shown[since:]:
            assert time.monotonic() < end, f"waited {SECONDS:g} s for {text!r}; so far {self.shown[-2000:]!r}"
            if not self._read(end):
                raise AssertionError(f"it ended without {text!r}: {self.shown[-2000:]!r}")
        return self.shown[since:]

    def press(self, keys: str) -> int:
        """Press keys; returns how much was shown before."""
        before = len(self.shown)
        os.write(self._ours, keys.encode())
        return before

    def ended(self) -> int:
        """Wait for its end; returns its exit status."""
        end = time.monotonic() + SECONDS
        while self._read(end):
            assert time.monotonic() < end, f"waited {SECONDS:g} s for its end; so far {self.shown[-2000:]!r}"
        return self.process.wait(SECONDS)

    def _read(self, end: float) -> bool:
        """Read more; False when the other side was closed."""
        if not select.select([self._ours], [], [], max(0.0, min(1.0, end - time.monotonic())))[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how Linux says that a terminal was closed
            data = b""
        self.shown += data.decode("utf-8", "replace")
        return bool(data)
