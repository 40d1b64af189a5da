"""Commands that README and docs show at a prompt are there, and take what they are given."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer.main

from rqfast.cli.app import UsageError, make_app
from tests.docs.pages import ROOT, Block, blocks, pages, read
from tests.docs.session import commands

# Programs of others.
KNOWN = ("curl", "echo", "export", "pip", "rqlited", "sqlite3", ".", "docker", "kill")


def code(page: str) -> str:
    return "\n".join(block.text for block in blocks(page, "", "bash", "sh"))


PAGES = ("CONTRIBUTING.md", *pages())
SHOWN = [
    (block, command.line) for page in PAGES for block in blocks(page, "console", "") for command in commands(block)
]
# In a line of text, which may leave arguments out, or in a block without prompts.
SAID = sorted(
    {(page, " ".join(line.split())) for page in PAGES for line in re.findall(r"`(rqfast [a-z][^`]*)`", read(page))}
    | {(page, line) for page in PAGES for line in re.findall(r"^rqfast [a-z].*", code(page), re.MULTILINE)}
)


def test_they_are_found() -> None:
    assert len(SHOWN) >= 20


@pytest.mark.parametrize(("block", "line"), SHOWN, ids=[f"{block.page}: {line}" for block, line in SHOWN])
def test_the_command_is_there(block: Block, line: str) -> None:
    words = shlex.split(line.removesuffix("&").replace("| ", "&& "))
    for part in split(words, "&&"):
        wrong = fault(part, block.page)
        assert wrong is None, f"{block.page}:{block.line}: {wrong}"


@pytest.mark.parametrize(("page", "line"), SAID, ids=[f"{page}: {line}" for page, line in SAID])
def test_the_command_that_is_told_of_is_there(page: str, line: str) -> None:
    wrong = rqfast_fault(shlex.split(line)[1:])
    assert wrong is None or wrong.startswith("Missing argument"), f"{page}: {wrong}"


def split(words: list[str], at: str) -> list[list[str]]:
    if at not in words:
        return [words]
    place = words.index(at)
    return [words[:place], *split(words[place + 1 :], at)]


def fault(words: list[str], page: str) -> str | None:
    """What is wrong with a command, None when nothing is."""
    program = words[0]
    if program == "rqfast":
        return rqfast_fault(words[1:])
    if program == "make":
        return make_fault(words[1])
    if program == "python":
        return python_fault(words[1:], page)
    return None if program in KNOWN or re.fullmatch(r"[A-Z_]+=.*", program) else f"what is {program}?"


def rqfast_fault(words: list[str]) -> str | None:
    """Have the command line read it, and no more."""
    command: Any = typer.main.get_command(make_app())
    context: Any = None
    try:
        while True:
            context = command.make_context(command.name, words, parent=context)
            if not hasattr(command, "resolve_command"):
                return None
            _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    except typer.Exit:
        return None
    except UsageError as error:
        return str(error.format_message())


def make_fault(target: str) -> str | None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return None if re.search(rf"^{target}:", makefile, re.MULTILINE) else f"make has no target {target}"


def python_fault(words: list[str], page: str) -> str | None:
    if words[0] == "-m":
        module = words[1].replace(".", "/")
        there = any((ROOT / f"{module}{end}").is_file() for end in (".py", "/__main__.py"))
        return None if there or words[1] in ("venv", "pytest") else f"there is no module {words[1]}"
    saved = {block.title for block in blocks(page, "python")}
    return None if words[0] in saved or (ROOT / words[0]).is_file() else f"the page has no file {words[0]}"
