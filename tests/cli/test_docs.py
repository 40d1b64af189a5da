"""docs/cli.md says what the help says, and its examples do what it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from rqfast.cli.exits import epilog
from tests.cli.command import Ran, call, commands, rqfast_command
from tests.docs.pages import blocks
from tests.docs.session import commands as shown_commands

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
COMMON = ("--url", "--queue", "--json", "--debug", "--payload", "--help")
# Options of soak that its section leaves to its help.
OF_DEVELOPERS = ("soak",)
# What would run for long, needs a cluster, or a program that is not there.
LEFT_OUT = ("rqfast demo", "rqfast dev", "rqfast soak", "rqfast inbox", "rqfast work shop.")
# What is different each time: ages, days, figures and times.
VARIES = (
    (re.compile(r"[\d.,]+ (s|min|h)\b"), "AGE"),
    (re.compile(r"\d{4}-\d\d-\d\d "), ""),
    (re.compile(r"[\d.,:]*\d"), "0"),
)


def sections() -> dict[str, str]:
    """Command -> its section."""
    parts = re.split(r"^### rqfast (.+)$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_each_command_has_a_section_in_the_order_of_the_help() -> None:
    assert sorted(sections()) == sorted(commands())


@pytest.mark.parametrize("name", sorted(sections()))
def test_a_section_has_the_exit_statuses_and_the_options(name: str) -> None:
    section = " ".join(sections()[name].split())
    assert " ".join(epilog(name).split()) in section
    assert "$ rqfast " + name in section or name == "top"
    if name in OF_DEVELOPERS:
        return
    for parameter in commands()[name].params:
        option = max(parameter.opts, key=len)
        if option.startswith("--") and option not in COMMON and not parameter.hidden:
            assert f"`{option}" in section or f" {option} " in section, option


def examples() -> Iterator[tuple[str, list[str]]]:
    """Each command that is run, and what it prints."""
    for block in blocks("docs/cli.md", "console"):
        for one in shown_commands(block):
            if not one.line.startswith(LEFT_OUT):
                yield one.line, one.shown


def plain(lines: list[str]) -> list[str]:
    """The lines with what varies made equal."""
    told = []
    for line in lines:
        for varying, same in VARIES:
            line = varying.sub(same, line)
        told.append(" ".join(line.split()))
    return told


def test_the_examples_do_what_they_show(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in blocks("docs/cli.md"):
        if block.title is not None:
            (folder / block.title).write_text(block.text, encoding="utf-8")
    for command, shown in examples():
        words = shlex.split(command)
        if words[0] == "export":
            monkeypatch.setenv(*words[1].split("="))
            continue
        assert words[0] == "rqfast", command
        if words[1] == "work":  # it sets up logging, and its module is no part of this process
            done = rqfast_command(folder, *words[1:], RQFAST_URL="queue.db")
            ran = Ran(done.returncode, done.stdout, done.stderr)
        else:
            ran = call(*words[1:])
        assert ran.status in (0, 1), (command, ran)
        assert plain((ran.out + ran.err).splitlines()) == plain(shown), command
