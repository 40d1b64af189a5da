"""`rqfast schema`: show, check, upgrade.  (finish: tests/moving.)"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import rqfast
from rqfast.sql.names import table_names
from tests.cli.command import call
from tests.cli.conftest import Place

PLAIN = (
    "CREATE TABLE messages(seq INTEGER PRIMARY KEY AUTOINCREMENT, group_id TEXT NOT NULL, event TEXT NOT NULL, "
    "locked_by TEXT, lock_expiry REAL)",
    "CREATE TABLE groups(group_id TEXT PRIMARY KEY, last_claimed_at REAL NOT NULL DEFAULT 0.0, "
    "priority INT NOT NULL DEFAULT 0)",
    "INSERT INTO messages(group_id,event) VALUES('g','1')",
    "INSERT INTO groups(group_id) VALUES('g')",
)


def execute(file: str, *statements: str) -> None:
    """Run them in an SQLite file."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_show(place: Place) -> None:
    shown = call("schema", "show", "--url", place.url).ok.out
    assert f"{place.name} (version 1)" in shown
    (found,) = call("schema", "show", "--url", place.url, "--json").ok.json
    assert found["queues"][place.name] == 1 and "plain" in found


def test_check(place: Place) -> None:
    assert call("schema", "check", *place.options).ok.out == f"Queue {place.name}: complete.\n"
    assert {"queue": place.name, "faults": []} in call("schema", "check", "--url", place.url, "--json").ok.json


def test_check_names_what_is_missing() -> None:
    for queue in (None, "orders"):
        rqfast.connect("q.db", queue=queue).close()
    assert call("schema", "check", "--url", "q.db").ok.lines == [
        "The default queue: complete.",
        "Queue orders: complete.",
    ]
    index = table_names("orders")["g_pri"]
    execute("q.db", f'DROP INDEX "{index}"')
    ran = call("schema", "check", "--url", "q.db")
    assert (ran.status, ran.err) == (1, "")
    assert ran.lines[1] == f"Queue orders: {index} is missing." and "verify --repair" in ran.lines[2]
    assert call("schema", "check", "--url", "q.db", "--queue", "").ok.lines == ["The default queue: complete."]
    assert call("verify", "--url", "q.db", "--repair").ok.lines
    execute("q.db", "UPDATE rqfast_schema SET version=99 WHERE queue='orders'")
    ran = call("schema", "check", "--url", "q.db", "--json")
    assert ran.status == 1
    assert ran.json[1] == {"queue": "orders", "faults": ["version 99, and this rqfast knows 1"]}


def test_upgrade_takes_over_the_tables_of_the_plain_transport() -> None:
    execute("q.db", *PLAIN)
    assert "`rqfast schema upgrade` takes them over" in call("schema", "show", "--url", "q.db").ok.out
    assert call("stats", "--url", "q.db").status == 1
    assert call("schema", "upgrade", "--url", "q.db").ok.out.startswith("Done: ")
    assert call("stats", "--url", "q.db", "--json").ok.json[0]["messages"] == 1
    assert call("schema", "upgrade", "--url", "q.db").ok.out.startswith("Nothing to do: ")
    assert call("schema", "upgrade", "--url", "q.db", "--json").ok.json == [{"upgraded": False}]


def test_each_column_of_the_nodes_has_a_heading(place: Place) -> None:
    found = call("verify", "--url", place.url, "--queue", place.name).ok.lines
    if place.url.startswith("http"):
        head, node = [line.split() for line in found[:2]]
        assert head == ["node", "address", "role", "index", "state"]
        assert node[2] == "leader" and node[4] == "answers"
    else:
        assert found[-1].startswith("All agrees: ")
