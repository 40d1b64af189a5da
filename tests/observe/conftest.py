"""What is observed is the same on every engine: it runs on a file, and on a server where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.conftest import ENGINES
from tests.subscriptions.place import Place


@pytest.fixture(
    params=["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))], ids=["embedded", "one node"]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A queue of its own."""
    found = Place(request.param, ENGINES[request.param](request))
    yield found
    found.close()


@pytest.fixture
def embedded(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Embedded only: for what no engine has any part in."""
    found = Place("embedded", ENGINES["embedded"](request))
    yield found
    found.close()
