"""The Python of README and docs runs as it stands, and prints what stands below it."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks, pages
from tests.script import run_python

# A block with a title is a file that a reader saves: see test_sessions.py.
EXAMPLES = [block for page in pages() for block in blocks(page, "python") if block.title is None]


def missing(block: Block) -> set[str]:
    """The packages of others that it needs and that are not here."""
    nodes = list(ast.walk(ast.parse(block.text)))
    named = [name.name for one in nodes if isinstance(one, ast.Import) for name in one.names]
    named += [one.module for one in nodes if isinstance(one, ast.ImportFrom) and one.module]
    return {name for name in {name.partition(".")[0] for name in named} if importlib.util.find_spec(name) is None}


def test_they_are_found() -> None:
    assert len(EXAMPLES) >= 25
    assert {"README.md", "docs/queue.md", "docs/subscriptions.md", "docs/observability.md"} <= {
        block.page for block in EXAMPLES
    }


@pytest.mark.parametrize("block", EXAMPLES, ids=[block.name for block in EXAMPLES])
def test_the_example_runs(block: Block, tmp_path: Path) -> None:
    if missing(block):
        pytest.skip(f"{', '.join(sorted(missing(block)))}: not installed")
    ran = run_python(tmp_path, "-c", block.text)
    assert ran.returncode == 0, f"{block.page}:{block.line}\n{ran.stderr}"
    assert ran.stdout == block.output, f"{block.page}:{block.line}"
