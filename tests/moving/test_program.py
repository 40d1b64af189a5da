"""A user's worker program runs on the plain transport, on rqfast with one line replaced, and on both side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import rqfast
from bench.reference import Event
from tests.cluster import wait_until
from tests.moving.conftest import MixedQueue
from tests.plain import first_node
from tests.script import WARNINGS_ARE_ERRORS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MESSAGES = 120
GROUPS = 10
FAIL = (7, 33)
SECONDS = 90.0

PROGRAMS = {"async": "old_worker.py", "sync": "old_worker_sync.py"}
# The whole of moving over.
OLD_LINE = {
    "async": "transport = await plain.AsyncRqliteTransport.from_url(url)",
    "sync": "transport = plain.RqliteTransport.from_url(url)",
}
OPTIONS = 'url, decode=plain.Event.model_validate_json, lost="warn"'
NEW_LINE = {
    "async": f"transport = await rqfast.AsyncRqliteTransport.from_url({OPTIONS})",
    "sync": f"transport = rqfast.RqliteTransport.from_url({OPTIONS})",
}


def program(colour: str, who: str, folder: Path) -> Path:
    """The program as it stands, or with its line replaced."""
    old = HERE / PROGRAMS[colour]
    if who == "old":
        return old
    text = old.read_text(encoding="utf-8")
    assert text.count(OLD_LINE[colour]) == 1
    new = folder / f"new_{old.name}"
    new.write_text(text.replace(OLD_LINE[colour], NEW_LINE[colour]), encoding="utf-8")
    return new


def start(path: Path, url: str, name: str) -> subprocess.Popen[str]:
    source = str(Path(rqfast.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, *WARNINGS_ARE_ERRORS, str(path), url, name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("crew", [("old",), ("new",), ("old", "new")], ids=["old", "new", "side by side"])
def test_the_program(q: MixedQueue, crew: tuple[str, ...], tmp_path: Path) -> None:
    plain = q.open_plain()
    for n in range(MESSAGES):
        plain.publish(f"g{n % GROUPS}", Event(n, "fail" if n in FAIL else ""))
    workers = [start(program(q.colour, who, tmp_path), first_node(q.url), who) for who in crew]
    try:
        left = "SELECT count(*) FROM messages"
        gone = [worker.poll for worker in workers]
        wait_until(
            "all messages to be done",
            lambda: q.sql(left) == [(0,)] or any(poll() is not None for poll in gone),
            SECONDS,
        )
        for who in crew:
            plain.publish(f"stop {who}", Event(0, "stop"))
        told = [worker.communicate(timeout=SECONDS) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert [(worker.returncode, errors) for worker, (_, errors) in zip(workers, told, strict=True)] == [(0, "")] * len(
        crew
    )
    check([lines for lines, _ in told])
    assert q.sql('SELECT count(*) FROM "groups"') == q.sql(left) == [(0,)]


def check(outputs: list[str]) -> None:
    """Each message once, each group in order within what one program did."""
    numbers = []
    for output in outputs:
        seqs = defaultdict(list)
        for line in output.splitlines():
            group, seq, number = line.split()
            numbers.append(int(number))
            seqs[group].append(int(seq))
        assert all(of_group == sorted(of_group) for of_group in seqs.values())
    assert sorted(numbers) == list(range(MESSAGES))
