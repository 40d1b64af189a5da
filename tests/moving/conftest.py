"""The default queue with the plain transport on it, on every engine that it can reach: it speaks HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.contract.conftest import BOTH, ENGINES
from tests.contract.views import Clock, Database, QueueUnderTest, stop_background_loop
from tests.plain import Plain, open_plain


class MixedQueue(QueueUnderTest):
    """The default queue, opened by rqfast and by the plain transport in the same colour."""

    def __init__(self, engine: str, colour: str, database: Database) -> None:
        super().__init__(engine, colour, database, None)
        self._plain: list[Plain] = []

    def open_plain(self, clock: Callable[[], float] = time.time) -> Plain:
        """A plain transport, closed when the test ends."""
        plain = open_plain(self.url, self.colour, clock)
        self._plain.append(plain)
        return plain

    def close(self) -> None:
        for plain in self._plain:
            plain.close()
        super().close()


def mixed_queue(request: pytest.FixtureRequest, engine: str, colour: str) -> Iterator[MixedQueue]:
    database = ENGINES[engine](request)
    database.drop(None)
    under_test = MixedQueue(engine, colour, database)
    yield under_test
    under_test.close()


@pytest.fixture(scope="session", autouse=True)
def _background_loop() -> Iterator[None]:
    yield
    stop_background_loop()


HTTP = [both for both in BOTH if not str(both.id).startswith("embedded")]


@pytest.fixture(params=HTTP)
def q(request: pytest.FixtureRequest) -> Iterator[MixedQueue]:
    """An engine that speaks HTTP."""
    for queue in mixed_queue(request, *request.param):
        if not queue.url.startswith("http"):
            pytest.skip("the plain transport cannot reach it")
        yield queue


@pytest.fixture(params=BOTH)
def any_q(request: pytest.FixtureRequest) -> Iterator[MixedQueue]:
    """Every engine: what the plain transport would do there is done by its statements."""
    yield from mixed_queue(request, *request.param)


@pytest.fixture
def clock() -> Clock:
    """A clock for all: rqfast's and the old workers'."""
    return Clock()
