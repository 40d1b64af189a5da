"""The comparing of `rqfast verify`, and its command."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import rqfast
from rqfast.verify.compare import Row, Sums, advance, first_difference
from rqfast.verify.found import NodeState, TableState
from rqfast.verify.nodes import at_one_index
from tests.cli.command import rqfast_command

COLUMNS = ["seq", "seq", "event", "due"]


def rows(*keys: int, event: str = "x") -> list[Row]:
    return [[key, key, event, 0] for key in keys]


def test_pages_reach_as_far_as_the_shortest() -> None:
    bound, pages = advance({"1": rows(1, 2, 5), "2": rows(1, 3), "3": []})
    assert bound == 3
    assert pages == {"1": rows(1, 2), "2": rows(1, 3), "3": []}
    assert advance({"1": [], "2": []}) == (None, {})
    assert advance({"1": [["a"], ["z"]], "2": [["\ud7ff"], ["\U00010000"]]})[0] == "z"


def test_the_first_row_that_differs() -> None:
    assert first_difference({"1": rows(1, 2), "2": rows(1, 2)}, COLUMNS) == ""
    assert first_difference({"1": rows(1, 2), "2": rows(2), "3": rows(1)}, COLUMNS) == (
        "seq 1: missing on node 2, there on nodes 1, 3"
    )
    changed = rows(1) + rows(2, event="secret") + rows(3, event="y")
    told = first_difference({"1": rows(1, 2, 3), "2": changed, "3": rows(1, 2, 3)}, COLUMNS)
    assert told == "seq 2: event differs between nodes 1, 3 and node 2", "and no payload is told"
    three = {"1": rows(1), "2": rows(1, event="y"), "3": []}
    assert first_difference(three, COLUMNS) == (
        "seq 1: missing on node 3, there on nodes 1, 2; event differs between node 1 and node 2"
    )


def test_checksums_do_not_depend_on_pages() -> None:
    def state(*pages: dict[str, list[Row]]) -> TableState:
        sums, found = Sums(["1", "2"]), TableState("", "messages")
        for page in pages:
            sums.add(page, COLUMNS)
        sums.finish(found)
        return found

    whole = state({"1": rows(1, 2, 3), "2": rows(1, 2)})
    parts = state({"1": rows(1), "2": rows(1)}, {"1": rows(2, 3), "2": rows(2)})
    assert whole.sums == parts.sums and whole.rows == {"1": 3, "2": 2}
    assert whole.difference == parts.difference == "seq 3: missing on node 2, there on node 1"
    assert whole.sums["1"] != whole.sums["2"] == state({"1": [], "2": rows(1, 2)}).sums["2"]


def node(applied: int, stored: int, last: int | None = None, pending: int = 0, error: str = "") -> NodeState:
    return NodeState("1", "http://x", False, applied, stored, applied if last is None else last, pending, error)


@pytest.mark.parametrize(
    ("states", "quick", "slow"),
    [
        ([node(7, 6), node(7, 6)], True, True),
        ([node(7, 6), node(6, 6)], False, False),
        ([node(7, 6), node(7, 6, last=8)], False, False),
        ([node(7, 6), node(7, 6, pending=1)], False, False),
        ([node(7, 7), node(7, 6)], False, True),
        ([node(7, 7), node(-1, -1, error="down")], True, True),
        ([node(-1, -1, error="down")], False, False),
    ],
)
def test_when_nodes_are_at_one_index(states: list[NodeState], quick: bool, slow: bool) -> None:
    assert (at_one_index(states, False), at_one_index(states, True)) == (quick, slow)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two queues."""
    path = tmp_path / "q.db"
    for queue in (None, "orders"):
        with rqfast.connect(path, queue=queue) as transport:
            transport.publish_many((f"g{n % 5}", "secret payload") for n in range(500))
    return path


def test_the_command(tmp_path: Path, path: Path) -> None:
    done = rqfast_command(tmp_path, "verify", "--url", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "All agrees: default queue, queue orders, 32 checks.\n"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("DELETE FROM \"groups\" WHERE group_id='g3'")
    done = rqfast_command(tmp_path, "verify", "--url", str(path))
    assert done.returncode == 1
    wrong, last = done.stdout.splitlines()
    assert wrong.startswith("Wrong: default queue: group 'g3' has 100 messages") and "--repair" in wrong
    assert last == "1 thing does not agree: default queue, queue orders."
    assert rqfast_command(tmp_path, "verify", "--url", str(path), "--queue", "orders").returncode == 0
    found = json.loads(rqfast_command(tmp_path, "verify", "--url", str(path), "--json", "--queue", "").stdout)
    assert (found["result"], found["queues"], found["findings"][0]["check"]) == ("disagree", [""], "group_missing")
    done = rqfast_command(tmp_path, "verify", "--url", str(path), "--repair")
    assert done.returncode == 0
    assert done.stdout.startswith("Mended: default queue: 1 groups have a row again.\nAll agrees")
    again = rqfast_command(tmp_path, "verify", "--url", str(path), "--repair")
    assert (again.returncode, again.stdout.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--url", "nowhere.db"), "nowhere.db: there is no such database"),
        (("--url", "empty.db"), "no queue of rqfast is in this database"),
        (
            ("--url", "q.db", "--queue", "other"),
            "queue 'other' is not in this database; queues that are: (default), orders",
        ),
        (("--url", "http://127.0.0.1:9", "--wait", "1"), "no leader answered in time"),
        ((), "no database was named: say --url, or set the variable RQFAST_URL"),
    ],
)
def test_it_cannot_be_told(tmp_path: Path, path: Path, arguments: tuple[str, ...], told: str) -> None:
    (tmp_path / "empty.db").touch()
    done = rqfast_command(tmp_path, "verify", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "nowhere.db").exists()


def test_a_damaged_file(tmp_path: Path, path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [[root]] = file.execute("SELECT rootpage FROM sqlite_master WHERE name='rqfast_orders_m_head'").fetchall()
        [[size]] = file.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file_bytes:
        file_bytes.seek((root - 1) * size)
        file_bytes.write(b"\xff" * size)
    done = rqfast_command(tmp_path, "verify", "--url", str(path))
    assert done.returncode == 1
    assert "Wrong: the file is damaged" in done.stdout and "secret" not in done.stdout
    path.write_bytes(b"nonsense " * 1000)
    done = rqfast_command(tmp_path, "verify", "--url", str(path))
    assert (done.returncode, done.stderr) == (1, "")
    assert "Wrong: the file is damaged: file is not a database" in done.stdout
