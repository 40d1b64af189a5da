"""`rqfast inbox check`: what a table lacks, for people and for programs.  (On each engine: tests/subscriptions.)"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command import call

TABLE = (
    "CREATE TABLE jobs(id INTEGER PRIMARY KEY, target TEXT NOT NULL, attempt INT, locked_until REAL, token TEXT, "
    "payload TEXT NOT NULL)"
)
MODULE = """
from dataclasses import dataclass
from typing import Annotated
from rqfast import Attempt, Group, Id, Inbox, LockedUntil, Payload

@dataclass
class Job:
    id: Annotated[int, Id]
    target: Annotated[str, Group(fifo=True)]
    attempt: Annotated[int, Attempt]
    locked_until: Annotated[float, LockedUntil]
    payload: Annotated[dict, Payload]

jobs = Inbox(Job, "jobs")
number = 7
"""


@pytest.fixture(autouse=True)
def module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with an inbox."""
    name = f"inbox_{folder.name}"
    (folder / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    return name


def execute(*statements: str) -> None:
    """Run them in q.db."""
    with closing(sqlite3.connect("q.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_what_is_missing_is_told_until_it_is_there(module: str) -> None:
    execute("CREATE TABLE other(id INT)")
    none = call("inbox", "check", f"{module}:jobs", "--url", "q.db", "--json")
    assert none.status == 1 and "no table jobs" in none.json[0]["error"]
    execute(TABLE)
    lacking = call("inbox", "check", f"{module}:jobs", "--url", "q.db", "--json")
    assert (lacking.status, lacking.err) == (1, "")
    assert lacking.json[0]["roles"]["group"] == "target" and len(lacking.json[0]["missing"]) == 2
    shown = call("inbox", "check", f"{module}:Job", "--url", "q.db")
    assert shown.status == 1 and shown.out.count("CREATE INDEX") == 2
    assert "(id is the rowid, which ends each index of itself; it may be named as well.)" in shown.lines
    execute(*lacking.json[0]["missing"].values())
    assert call("inbox", "check", f"{module}:jobs", "--url", "q.db").ok.lines[-1] == "Nothing is missing."


@pytest.mark.parametrize(
    ("name", "told"),
    [("number", "not int"), ("nothing", "has no nothing"), ("", "must be module:name, as in shop.jobs:SyncChange")],
)
def test_what_is_no_inbox(module: str, name: str, told: str) -> None:
    ran = call("inbox", "check", f"{module}:{name}", "--url", "q.db")
    assert (ran.status, ran.out) == (1, "") and told in ran.err and ran.err.count("\n") == 1
