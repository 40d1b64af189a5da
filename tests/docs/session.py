"""What a reader does at a prompt: saves the files of a page, runs its commands one after another, compares."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from tests.docs.pages import Block

SECONDS = 100.0
# What is there already, or was put in place by the test.
LEFT_OUT = ("pip", "rqlited", ".", "curl")
CTRL_C = "^C"


@dataclass
class Command:
    """A line behind a prompt, and what is shown below it."""

    line: str
    shown: list[str] = field(default_factory=list)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    found: Command | None = None
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if found is not None:
                yield found
            found = Command(line[2:].partition("  #")[0].strip())
        elif found is not None:
            found.shown.append(line)
    if found is not None:
        yield found


class Session:
    """A folder and a shell's variables."""

    def __init__(self, folder: Path, given: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.given = given or {}
        self.env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.env |= {"PYTHONDONTWRITEBYTECODE": "1"}

    def save(self, found: Iterable[Block]) -> None:
        """Save the files of a page."""
        for block in found:
            if block.title is not None:
                (self.folder / block.title).write_text(block.text, encoding="utf-8")

    def run(self, block: Block) -> None:
        """Run the commands of a block; each must show what stands below it, lines in any order."""
        for command in commands(block):
            words = shlex.split(command.line)
            if words[0] == "export":
                name, _, value = words[1].partition("=")
                self.env[name] = self.given.get(name, value)
            elif words == ["rqfast", "demo"]:
                continue  # tests of its own, and it takes long
            elif words[0] == "rqfast":
                self._compare(block, command, self._call(["-m", "rqfast.cli", *words[1:]], []), 0)
            elif words[0] == "python" and words[1:3] != ["-m", "venv"]:
                shown = self._call(words[1:], command.shown)
                self._compare(block, command, shown, self._status(words[1]))
            else:
                assert words[0] in LEFT_OUT or words[1:3] == ["-m", "venv"], f"{block.page}:{block.line}: {words[0]}"

    def _status(self, program: str) -> int:
        path = self.folder / program
        return int(path.is_file() and "os._exit(1)" in path.read_text(encoding="utf-8"))

    def _compare(self, block: Block, command: Command, ran: subprocess.CompletedProcess[str], status: int) -> None:
        where = f"{block.page}:{block.line}: {command.line}"
        assert ran.returncode == status, f"{where}\n{ran.stdout}\n{ran.stderr}"
        wanted = sorted(_plain(line) for line in command.shown if line != CTRL_C)
        if wanted:
            assert sorted(_plain(line) for line in ran.stdout.splitlines()) == wanted, f"{where}\n{ran.stderr}"

    def _call(self, arguments: list[str], shown: list[str]) -> subprocess.CompletedProcess[str]:
        """Run Python; where ^C stands in what is shown, interrupt it when all before that has come."""
        log = self.folder / "stderr.txt"
        with log.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8",
            )  # fmt: skip
            # A program that shows too little would be read for ever.
            limit = Timer(SECONDS, process.kill)
            limit.start()
            try:
                assert process.stdout is not None
                told = [process.stdout.readline() for _ in range(shown.index(CTRL_C))] if CTRL_C in shown else []
                if CTRL_C in shown:
                    process.send_signal(signal.SIGINT)
                told += process.stdout.readlines()
                process.wait(SECONDS)
            finally:
                limit.cancel()
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()
        return subprocess.CompletedProcess(arguments, process.returncode, "".join(told), log.read_text("utf-8"))


def _plain(line: str) -> str:
    """Without what differs from run to run: how long it took."""
    return re.sub(r"\bin \d+\.\d+s", "in # s", line.rstrip())
