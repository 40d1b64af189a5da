"""README and docs, taken apart: their code blocks, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

FENCE = re.compile(r"^( *)(`{3,})(\S*)(?: +title=\"([^\"]+)\")?\s*$")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$")


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: the file, from the root of the project.
        line: where it begins.
        heading: under which it stands.
        language: "" where none is told.
        title: the name of the file that a reader is to save it in, or None.
        text: what is in it.
        output: the text of the `text` block that follows it at once, "" when none does: what it prints.
    """

    page: str
    line: int
    heading: str
    language: str
    title: str | None
    text: str
    output: str = ""

    @property
    def name(self) -> str:
        """For the id of a test."""
        return f"{self.page}:{self.heading}"


def pages() -> list[str]:
    """README and all pages of the docs, from the root of the project."""
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))]


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[Block]:
    """The code blocks of a page, in these languages or in all."""
    found = list(_with_output(list(_blocks(page))))
    return [one for one in found if not languages or one.language in languages]


def _blocks(page: str) -> Iterator[Block]:
    heading = ""
    begun: tuple[int, re.Match[str]] | None = None
    lines: list[str] = []
    for number, line in enumerate(read(page).splitlines(), 1):
        fence = FENCE.match(line)
        if begun is None:
            told = HEADING.match(line)
            heading = told[1] if told else heading
            if fence:
                begun, lines = (number, fence), []
        elif fence and fence[2] == begun[1][2] and not fence[3]:
            indent = len(begun[1][1])
            text = "".join(f"{one[indent:]}\n" for one in lines)
            yield Block(page, begun[0], heading, begun[1][3], begun[1][4], text)
            begun = None
        else:
            lines.append(line)
    assert begun is None, f"{page}:{begun[0]}: a code block that does not end"


def _with_output(found: list[Block]) -> Iterator[Block]:
    for one, following in zip_longest(found, found[1:]):
        # Its own lines, two fences and a blank line.
        begins = one.line + one.text.count("\n") + 3
        if following is not None and following.language == "text" and following.line == begins:
            yield Block(one.page, one.line, one.heading, one.language, one.title, one.text, following.text)
        else:
            yield one


def prose(page: str) -> str:
    """A page without its code blocks and code in lines."""
    kept, inside = [], False
    for line in read(page).splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(kept)


def anchors(page: str) -> set[str]:
    """What a link into this page may name behind its #."""
    found: set[str] = set()
    inside = False
    for line in read(page).splitlines():
        inside ^= bool(FENCE.match(line))
        heading = None if inside else HEADING.match(line)
        if heading:
            found.add(_slug(re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading[1])))
    return found


def _slug(heading: str) -> str:
    """As Python-Markdown makes it."""
    kept = re.sub(r"[^\w\s-]", "", heading.encode("ascii", "ignore").decode()).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)
