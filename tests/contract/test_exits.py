"""A program ends while calls are pending: in time, quietly, and nothing that was told is untrue afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import wait_until
from tests.contract import exiting
from tests.contract.conftest import COLOURS, ENGINES
from tests.contract.views import Queue, queue_name

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

WAYS = {"exit": 0, "SIGINT": -signal.SIGINT, "SIGTERM": exiting.TOLD_TO_END}
SECONDS = 30.0
NOISE = ("Exception ignored", "Fatal Python error", "Task was destroyed", "in an unexpected way", "never awaited")


@pytest.fixture(
    params=[
        pytest.param(
            (engine, colour), id=f"{engine}-{colour}", marks=() if engine == "embedded" else pytest.mark.cluster
        )
        for engine in ("embedded", "one node")
        for colour in COLOURS
    ]
)
def eq(request: pytest.FixtureRequest) -> Iterator[Queue]:
    engine, colour = request.param
    q = Queue(engine, colour, ENGINES[engine](request), queue_name())
    yield q
    q.close()


def run(q: Queue, folder: Path, way: str) -> tuple[int, list[list[object]], str]:
    """Its exit status, what it was told, and what it says to people."""
    said, errors = folder / "said", folder / "errors"
    with said.open("wb") as out, errors.open("wb") as err:
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.exiting", q.url, json.dumps(q.options), q.colour, way],
            stdout=out,
            stderr=err,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    try:
        if way != "exit":
            wait_until("the program to be ready", lambda: b"ready" in said.read_bytes() or program.poll(), SECONDS)
            program.send_signal(getattr(signal, way))
        program.wait(SECONDS)
    finally:
        program.kill()
        program.wait()
    lines = [json.loads(line) for line in said.read_text().splitlines() if line.endswith("]")]
    return program.returncode, lines, errors.read_text()


@pytest.mark.parametrize("way", WAYS)
def test_calls_are_pending_when_a_program_ends(eq: Queue, tmp_path: Path, way: str) -> None:
    q = eq
    q.open()
    status, lines, errors = run(q, tmp_path, way)
    assert ["ready"] in lines, errors
    assert status == WAYS[way], errors
    # asyncio and aiohttp say what a program left unread and unclosed; nothing was cut short, or went wrong.
    assert [line for line in NOISE if line in errors] == [], errors
    assert ("Traceback" in errors) is (way == "SIGINT"), errors
    rows = q.sql(f"SELECT group_id, event, seq FROM {q.table('messages')} ORDER BY seq")
    there = {(group, int(event)): seq for group, event, seq in rows}
    assert len(there) == len(rows), "published twice"
    told = {(name, n): seq for what, name, n, seq in (line for line in lines if line[0] == "told")}
    assert told.items() <= there.items(), "told, and not there"
    for group in ("a", "b", "soon"):
        events = [event for name, event in there if name == group]
        assert events == list(range(len(events))), f"a gap in group {group}"
    if q.colour == "sync":
        assert len([1 for name, _ in there if name == "soon"]) == 100, "the end of a script sends what it was given"
    # One message may be with the one who takes them, one after another; nobody else holds any.
    groups = {group for group, _ in there}
    leases = q.open().claim_many("w", 600, 10)
    assert len({lease.group_id for lease in leases}) >= len(groups) - 1
