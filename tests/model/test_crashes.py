"""A process that is killed between any two statements of any call leaves nothing half-done, and nobody stuck."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rqfast
from tests.contract.processes import HAS_FORK

from . import dying

LATER = dying.NOW + 1000


def states(path: Path) -> list[list[list[Any]]]:
    """What the file is like before the first call and after each."""
    found = [dying.snapshot(path)]
    dying.work(path, lambda number: found.append(dying.snapshot(path)))
    return found


def goes_on(path: Path) -> None:
    """The next process can work everything off, each group in its order."""
    with rqfast.connect(str(path), clock=lambda: LATER, synchronous="OFF") as queue:
        left = queue.stats().messages
        queue.resume()
        for group in queue.groups(state="paused", limit=100):
            queue.resume(group.group_id)
        done: dict[str, list[tuple[int, float, int]]] = {}
        while leases := queue.claim_many("next", 30, 100):
            for lease in leases:
                done.setdefault(lease.group_id, []).append(lease.seq)
            queue.ack_many(leases)
        assert sum(map(len, done.values())) == left
        assert queue.stats().groups == 0


@pytest.mark.skipif(not HAS_FORK, reason="there is no fork here")
def test_a_process_that_is_killed_between_any_two_statements_leaves_nothing_half_done(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-m", dying.__name__, str(tmp_path)], capture_output=True, timeout=110)
    assert ended.returncode == 0, ended.stderr.decode()
    shutil.copy(tmp_path / "first.db", tmp_path / "whole.db")
    expected = states(tmp_path / "whole.db")
    files = sorted(tmp_path.glob("[0-9]*.db"), key=lambda path: int(path.stem))
    assert len(files) > 250, "there are more statements than that"
    undone = set()
    for path in files:
        told = (tmp_path / f"{path.name}.told").read_bytes()
        found = dying.snapshot(path)
        returned = told.count(b".")
        may_be = expected[returned : returned + 2]
        assert found in may_be, f"killed before statement {path.stem}, in call {returned}: {found}"
        undone.add((returned, found == may_be[-1]))
        if int(path.stem) % 8 == 0:
            goes_on(path)
    # Each call was cut off before its commit, and the last file is that of a process that lived.
    assert {call for call, is_done in undone if not is_done} >= set(range(len(expected) - 2)) - {2}
    assert told.endswith(b"!")
