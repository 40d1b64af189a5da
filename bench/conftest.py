"""Two servers for the comparison, and its table after all rounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console
from rich.table import Table

from tests.cluster import NO_SERVER, Cluster, find_rqlited

from .measure import Row
from .sides import Ours, Theirs

COLUMNS = ("", "rqfast/s", "plain/s", "times", "Raft entries", "requests", "client CPU, us")
_rows: list[Row] = []


@pytest.fixture(scope="session")
def sides() -> Iterator[tuple[Ours, Theirs]]:
    """rqfast and the plain transport, each with a node of its own, so that neither has the other's tables or log."""
    if find_rqlited() is None:
        pytest.skip(NO_SERVER)
    with Cluster(1) as ours, Cluster(1) as theirs:
        yield Ours(ours), Theirs(theirs)


@pytest.fixture
def rows() -> list[Row]:
    """What the table will show."""
    return _rows


def pytest_terminal_summary() -> None:
    """Print the table."""
    if not _rows:
        return
    table = Table(*COLUMNS, title="rqfast and the plain transport, each message: rqfast | plain")
    for row in _rows:
        table.add_row(*row.cells())
    Console(width=120).print(table)
