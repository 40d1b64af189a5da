"""The README's examples and the demo on every engine, by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.views import Queue, queue_name
from tests.script import run_python
from tests.unit.test_readme import EXAMPLES, PRINTED


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_the_example_runs_with_this_url(default_q: Queue, tmp_path: Path, number: int) -> None:
    if default_q.colour == "async":
        pytest.skip("async: the examples say themselves which colour they are")
    default_q.execute("DROP TABLE IF EXISTS done")
    assert '"queue.db"' in EXAMPLES[number]
    ran = run_python(tmp_path, "-c", EXAMPLES[number].replace('"queue.db"', repr(default_q.url)))
    default_q.execute("DROP TABLE IF EXISTS done")
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(PRINTED[number])


def test_the_demo_runs_with_this_url(q: Queue, tmp_path: Path) -> None:
    if q.colour == "async":
        pytest.skip("async: the demo says itself which colour its workers are")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"k": "g{n % 40}", "n": {n}}}\n' for n in range(600)), encoding="utf-8")
    name = queue_name()
    arguments = ["--file", str(rows), "--group-field", "k", "--workers", "3", "--url", q.url, "--queue", name]
    ran = run_python(tmp_path, "-m", "rqfast.cli", "demo", *arguments)
    q.database.drop(name)
    assert ran.returncode == 0, ran.stdout + ran.stderr
