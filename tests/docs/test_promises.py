"""The tests, files and programs that the docs name are there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, pages, read

NAMED = re.compile(r"`(\w+/test_\w+\.py)::(\w*)`")
# A table with a test for each promise, and how many rows it has at least.
TABLES = {
    "docs/guarantees.md": ("## The rules", 24),
    "docs/subscriptions.md": ("## Which test shows it", 40),
    "docs/limits.md": ("# Limits", 30),
    "SECURITY.md": ("## Which test shows it", 15),
}
TOLD = [*(page for page in ("CONTRIBUTING.md", "SECURITY.md") if (ROOT / page).is_file()), *pages()]


@pytest.mark.parametrize("page", [page for page in TABLES if (ROOT / page).is_file()])
def test_each_promise_has_its_tests(page: str) -> None:
    heading, least = TABLES[page]
    table = read(page).partition(heading)[2].partition("## Soak")[0]
    lines = table.splitlines()
    heads = [lines[place - 1] for place, line in enumerate(lines) if line.startswith("|--")]
    promises = [line for line in lines if line.startswith("| ") and line not in heads]
    assert len(promises) >= least
    assert [row for row in promises if "::test_" not in row and "](" not in row] == []
    assert len(NAMED.findall(table)) == table.count("::")


def test_each_rule_is_told() -> None:
    found = re.findall(r"^\| \*\*(\d+)\. ", read("docs/guarantees.md"), re.MULTILINE)
    assert found == [str(number) for number in range(1, 14)]


@pytest.mark.parametrize("page", [page for page in TOLD if "::test_" in read(page)])
def test_each_test_that_is_named_is_there(page: str) -> None:
    missing = [
        f"{file}::{test}"
        for file, test in NAMED.findall(read(page))
        if not re.search(rf"^(async )?def {test}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


@pytest.mark.parametrize("page", TOLD)
def test_each_file_that_is_named_is_there(page: str) -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|pxi|pyx|sql|md))`", read(page))
    below = [ROOT, ROOT / "src", ROOT / "src" / "rqfast", ROOT / "tests"]
    assert [name for name in named if not any((folder / name).is_file() for folder in below)] == []
