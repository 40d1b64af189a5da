"""A database of the plain transport on a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import Clock, stop_background_loop
from tests.plain import COLOURS, Plain, open_plain


class PlainQueue:
    """The one queue that the plain transport knows."""

    def __init__(self, cluster: Cluster, colour: str) -> None:
        self.cluster, self.colour = cluster, colour
        self.url = cluster.url
        self._open: list[Plain] = []

    def open(self, clock: Callable[[], float] = time.time, url: str | None = None) -> Plain:
        """A new transport, closed when the test ends."""
        plain = open_plain(url or self.url, self.colour, clock)
        self._open.append(plain)
        return plain

    def close(self) -> None:
        for plain in self._open:
            plain.close()


@pytest.fixture(scope="session", autouse=True)
def _background_loop() -> Iterator[None]:
    yield
    stop_background_loop()


@pytest.fixture(params=[pytest.param(colour, marks=pytest.mark.cluster("one node")) for colour in COLOURS])
def plain(request: pytest.FixtureRequest) -> Iterator[PlainQueue]:
    cluster: Cluster = request.getfixturevalue("one_node")
    ClusterDatabase(cluster).drop(None)
    queue = PlainQueue(cluster, request.param)
    yield queue
    queue.close()
    ClusterDatabase(cluster).drop(None)


@pytest.fixture
def clock() -> Clock:
    return Clock()
