"""Subscriptions run on every engine; a new one is a line in `ENGINES` of the contract suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.conftest import ENGINES, IN_PROCESS
from tests.subscriptions.place import Place

EACH = [
    pytest.param(engine, id=engine, marks=() if engine in IN_PROCESS else pytest.mark.cluster(engine))
    for engine in ENGINES
]


@pytest.fixture(params=EACH)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """On each engine."""
    found = Place(request.param, ENGINES[request.param](request))
    yield found
    found.close()


@pytest.fixture
def embedded_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Embedded only: for what no engine has any part in."""
    found = Place("embedded", ENGINES["embedded"](request))
    yield found
    found.close()
