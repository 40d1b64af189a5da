"""Links inside README and docs lead somewhere; nothing is asked of the network."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, pages, prose, read

LINK = re.compile(r"\]\(([^)\s]+)\)")
FROM_ELSEWHERE = ("http://", "https://", "mailto:")
# The pages that take their text from a file at the top, and so its links.
TAKEN = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


def links(page: str) -> list[str]:
    return [link for link in LINK.findall(prose(page)) if not link.startswith(FROM_ELSEWHERE)]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md", *pages()])
def test_each_link_leads_somewhere(page: str) -> None:
    broken = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists():
            broken.append(link)
        elif anchor and anchor not in anchors(path.resolve().relative_to(ROOT).as_posix()):
            broken.append(f"{link}: no such heading")
    assert broken == []


def test_pages_link_to_pages_only() -> None:
    """The built pages have nothing beside docs/."""
    out = [f"{page}: {link}" for page in pages() if page != "README.md" for link in links(page) if leaves(page, link)]
    assert out == []


def leaves(page: str, link: str) -> bool:
    return DOCS not in ((ROOT / page).parent / link).resolve().parents


def test_what_is_taken_from_the_top_has_no_links_of_its_own() -> None:
    taken = [name for page in pages() for name in TAKEN.findall(read(page))]
    assert taken
    assert [name for name in taken if any(LINK.findall(prose(name))) and links(name)] == []


def test_each_page_is_in_the_contents() -> None:
    contents = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    written = {PurePosixPath(page).relative_to("docs").as_posix() for page in pages() if page != "README.md"}
    assert written - set(contents) == set()


def test_pictures_are_well_formed_and_have_a_title() -> None:
    for path in sorted((DOCS / "pictures").glob("*.svg")):
        root = ElementTree.parse(path).getroot()
        assert root.find("{http://www.w3.org/2000/svg}title") is not None, path
