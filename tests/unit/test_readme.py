"""The examples of README and docs run as they stand, and tests that the docs name are there."""

import re
from pathlib import Path

import pytest

from tests.script import run_python

ROOT = Path(__file__).parents[2]


def blocks(name: str) -> list[str]:
    """The Python in a file."""
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = blocks("README.md")
PRINTED = [
    ["customer-7 {'order': 1} 1", "customer-7 {'order': 2} 1", "customer-8 {'order': 3} 1"],
    ["1000"],
    ["customer-7 {'order': 1} 1", "customer-7 {'order': 2} 1", "customer-7 {'order': 3} 1", "3"],
    ["1000 True"],
    ["102"],
    ["customer-7 paused 1 None", "1 0 [{'order': 1}]"],
]
NAMES = ["blocking", "asyncio", "subscriptions", "runs", "bundles", "operating"]

SUBSCRIPTIONS = "docs/subscriptions.md"
SUBSCRIPTIONS_PRINTED = {
    "a service": ["customer-7 1 1", "customer-7 2 1", "customer-7 3 1", "3"],
    "by hand": ["crm True group 'crm'"],
    "outcomes": ["[<Subscription 'ship' on groups 'orders/'..>]"],
    "what commits": ["[[7]]"],
    "batches": ["16"],
    "a table": [
        "{'id': 'id', 'group': 'target', 'attempt': 'attempt', 'locked_until': 'locked_until', 'payload': 'payload'}"
    ],
    "an application": ["7"],
    "testing": ["2 0"],
    "observing": ["{'Ack': 1}"],
}


def test_each_example_is_known() -> None:
    assert len(EXAMPLES) == len(PRINTED)
    assert len(blocks(SUBSCRIPTIONS)) == len(SUBSCRIPTIONS_PRINTED)


@pytest.mark.parametrize("number", range(len(PRINTED)), ids=NAMES)
def test_the_example_runs(number: int, tmp_path: Path) -> None:
    ran = run_python(tmp_path, "-c", EXAMPLES[number])
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(PRINTED[number])


@pytest.mark.parametrize("number", range(len(SUBSCRIPTIONS_PRINTED)), ids=list(SUBSCRIPTIONS_PRINTED))
def test_the_example_of_subscriptions_runs(number: int, tmp_path: Path) -> None:
    ran = run_python(tmp_path, "-c", blocks(SUBSCRIPTIONS)[number])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == list(SUBSCRIPTIONS_PRINTED.values())[number]


@pytest.mark.parametrize(
    ("document", "heading", "least"),
    [(SUBSCRIPTIONS, "## Which test shows it", 40), ("docs/limits.md", "# Limits", 30)],
)
def test_each_test_that_is_named_is_there(document: str, heading: str, least: int) -> None:
    text = (ROOT / document).read_text(encoding="utf-8").partition(heading)[2]
    named = re.findall(r"`(\w+/test_\w+\.py)::(\w*)`", text)
    tables = re.findall(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) >= least and all("::test_" in row for row in rows)
    assert len(named) == text.count("::")
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^(async )?def {test}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
