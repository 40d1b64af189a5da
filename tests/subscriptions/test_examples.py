"""The examples run by themselves, as a user would start them; the outbox and the chain also when they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import ENGINES
from tests.contract.views import Database
from tests.script import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"
KILLING = Path(__file__).with_name("killing.py")
EXIT = 9
SECONDS = 100.0

# The tables of the examples' own.
TABLES = ("sync_jobs", "sync_jobs_dead", "orders", "shipments", "started", "steps")

PRINTED = {
    "crm_sync": [
        "1 timed out",
        "1 Lyon arrived at attempt 2",
        "2 Oslo arrived at attempt 1",
        "4 Rome arrived at attempt 1",
        "5 Bern arrived at attempt 1",
        'given up: {"customer": 3, "city": ""}: failed after 3 attempts',
        "4 changes arrived, 1 given up, 3 failures",
    ],
    "crm_sync_by_hand": [
        "crm fifo {'id': 'id', 'group': 'target', 'attempt': 'attempt', 'locked_until': 'locked_until', "
        "'payload': 'payload', 'headers': 'headers'}",
        "in order: {1: 'Lyon', 2: 'Oslo', 4: 'Rome', 5: 'Bern'}; 1 given up",
    ],
    "outbox": [*(f"order {number} placed" for number in range(1, 6)), "shipped: 1 2 3 4 5"],
    "chain": [f"{step} 5 times, for 5 orders" for step in ("charged", "packed", "sent")],
    "fan_in": ["5,000 readings of 1,000 customers, 1,000 of them in order"],
    "moving_over": ["200 messages, each once: True; 8 groups in order", "all three took part: True"],
}


@pytest.fixture(
    params=["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))], ids=["embedded", "one node"]
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with no queue in it, before and after."""
    found = ENGINES[request.param](request)
    clean(found)
    yield found
    clean(found)
    found.close()


def clean(database: Database) -> None:
    for queue in (None, "inbox"):
        database.drop(queue)
    for table in TABLES:
        database.execute(f"DROP TABLE IF EXISTS {table}", ())


def test_each_example_is_known() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()


def check(name: str, ran: subprocess.CompletedProcess[str]) -> None:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    printed = ran.stdout.splitlines()
    assert [line for line in printed if line in PRINTED[name]] == PRINTED[name], ran.stdout + ran.stderr


@pytest.mark.parametrize("name", PRINTED)
def test_the_example_runs_by_itself(name: str, tmp_path: Path) -> None:
    check(name, run_python(tmp_path, str(EXAMPLES / f"{name}.py")))
    assert list(tmp_path.iterdir()) == []


# The old transport speaks HTTP only.
EACH = [
    pytest.param(engine, name, marks=pytest.mark.cluster(engine) if engine == "one node" else ())
    for engine in ("embedded", "one node")
    for name in PRINTED
    if (engine, name) != ("embedded", "moving_over")
]


@pytest.mark.parametrize(("database", "name"), EACH, indirect=["database"])
def test_the_example_runs_with_a_url(name: str, database: Database, tmp_path: Path) -> None:
    check(name, run_python(tmp_path, str(EXAMPLES / f"{name}.py"), database.url))


# -- killed at every step ---------------------------------------------------------------------------------


def run(folder: Path, name: str, url: str, orders: int, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the example for so many orders, watched by `killing.py`."""
    return subprocess.run(
        [sys.executable, str(KILLING), str(EXAMPLES / f"{name}.py"), url, str(orders)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def steps(name: str, database: Database, folder: Path) -> list[str]:
    """Where it can be killed: each line of the example, and of what carries statements to the database."""
    seen = folder / "steps"
    ran = run(folder, name, database.url, 2, RQFAST_STEPS=str(seen))
    assert ran.returncode == 0, ran.stderr
    return seen.read_text(encoding="utf-8").splitlines()


def some_of(found: list[str], count: int) -> list[str]:
    """Evenly spread, and every line of the example itself."""
    own = [one for one in found if one.startswith("example:")]
    other = [one for one in found if not one.startswith("example:")]
    return [*own, *other[:: max(1, len(other) // count)]]


def kill_at_each(name: str, database: Database, folder: Path) -> Iterator[int]:
    """Kill a run at each of the steps, each with one order more to do; yields how many orders there may be."""
    orders = 2
    killed = 0
    for step in some_of(steps(name, database, folder), 24):
        orders += 1
        ran = run(folder, name, database.url, orders, RQFAST_KILL_AT=step)
        assert ran.returncode in (0, EXIT), (step, ran.stderr)
        killed += ran.returncode == EXIT
        yield orders
    assert killed > 20
    ran = run(folder, name, database.url, orders)
    assert ran.returncode == 0, ran.stderr
    yield orders


@pytest.mark.timeout(600)
def test_the_outbox_is_killed_at_every_step(database: Database, tmp_path: Path) -> None:
    placed, shipped, orders = [], [], 0
    for orders in kill_at_each("outbox", database, tmp_path):
        placed = numbers(database, "SELECT number FROM orders")
        shipped = numbers(database, "SELECT number FROM shipments")
        published = numbers(database, "SELECT event ->> 'number' FROM messages")
        assert set(placed) <= set(range(1, orders + 1))
        # An order has its event, or the event was worked; never both, never neither.
        assert sorted(placed) == sorted(shipped + published)
    assert sorted(placed) == sorted(shipped) == list(range(1, orders + 1))


@pytest.mark.timeout(600)
def test_the_chain_is_killed_at_every_step(database: Database, tmp_path: Path) -> None:
    order = ("charged", "packed", "sent")
    waits_for = {"charge": "charged", "pack": "packed", "send": "sent"}
    started, done, most = [], [], 0
    for most in kill_at_each("chain", database, tmp_path):  # noqa: B007 - the last is what was asked for
        started = numbers(database, "SELECT number FROM started")
        done = database.sql("SELECT number, step FROM steps", ())
        assert [one for one, times in Counter(done).items() if times > 1] == []
        left = {number: group for group, number in split(database.sql("SELECT group_id FROM messages", ()))}
        for number in started:
            reached = [step for step in order if (number, step) in done]
            assert reached == list(order[: len(reached)])
            # One message stands for what comes next.
            following = waits_for[left.pop(number)] if number in left else None
            assert following == (order[len(reached)] if len(reached) < 3 else None)
        assert left == {}
    assert sorted(started) == list(range(1, most + 1)) and len(done) == 3 * most


def numbers(database: Database, statement: str) -> list[int]:
    if not has_tables(database):
        return []
    return [row[0] for row in database.sql(statement, ())]


def has_tables(database: Database) -> bool:
    return bool(database.sql("SELECT 1 FROM sqlite_master WHERE name IN ('shipments', 'steps')", ()))


def split(rows: list[tuple[str]]) -> Iterator[tuple[str, int]]:
    for (group_id,) in rows:
        group, _, number = group_id.partition("/")
        yield group, int(number)
