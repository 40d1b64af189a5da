"""The examples of README and docs, and the demo, on every engine, by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.views import Queue, queue_name
from tests.docs.pages import Block, blocks
from tests.script import run_python

URL = '"queue.db"'
EXAMPLES = [
    block
    for block in (*blocks("README.md", "python"), *blocks("docs/queue.md", "python"))
    if URL in block.text and "Transport" not in block.output
]


def test_they_are_found() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("block", EXAMPLES, ids=[block.name for block in EXAMPLES])
def test_the_example_runs_with_this_url(default_q: Queue, tmp_path: Path, block: Block) -> None:
    if default_q.colour == "async":
        pytest.skip("async: the examples say themselves which colour they are")
    default_q.execute("DROP TABLE IF EXISTS done")
    ran = run_python(tmp_path, "-c", block.text.replace(URL, repr(default_q.url)))
    default_q.execute("DROP TABLE IF EXISTS done")
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(block.output.splitlines())


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
