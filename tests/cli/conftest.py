"""A folder and a queue for each test of a command."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast.connect import locate
from rqfast.transport.schema import drop_queue

collect_ignore: list[str] = []
try:
    import rich
    import typer
except ModuleNotFoundError:  # the extra is not installed: there is no command to test
    collect_ignore += [path.name for path in Path(__file__).parent.glob("test_*.py")]
else:
    del rich, typer


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test; no variable says what is to be used."""
    monkeypatch.chdir(tmp_path)
    for name in ("RQFAST_URL", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@dataclass(frozen=True)
class Place:
    """A queue that is there, and empty.

    Attributes:
        url, name: which.
        folder: of the test.
    """

    url: str
    name: str
    folder: Path

    @property
    def options(self) -> tuple[str, ...]:
        """What a command is told."""
        return "--url", self.url, "--queue", self.name

    def open(self) -> rqfast.Transport[Any]:
        """The queue itself."""
        return rqfast.connect(self.url, queue=self.name)


ENGINES = ["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))]


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    """A queue on each engine."""
    embedded = request.param == "embedded"
    url = os.fspath(folder / "q.db") if embedded else request.getfixturevalue("one_node").url
    found = Place(url, f"cli_{secrets.token_hex(4)}", folder)
    found.open().close()
    yield found
    if not embedded:
        asyncio.run(drop_queue(*locate(url), found.name))
