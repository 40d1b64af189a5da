"""Queues behind fault proxies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import QueueUnderTest, queue_name, stop_background_loop
from tests.proxy import ProxiedCluster, Proxy


class FaultyQueue(QueueUnderTest):
    """A queue whose client sees a proxy in front of every node."""

    def __init__(self, engine: str, colour: str, cluster: Cluster, proxied: ProxiedCluster) -> None:
        super().__init__(engine, colour, ClusterDatabase(cluster), queue_name())
        self.cluster, self.proxied = cluster, proxied
        self.url = proxied.url

    @property
    def proxy(self) -> Proxy:
        """The proxy before the node that leads now."""
        return self.proxied.leader_proxy()

    def close(self) -> None:
        self.proxied.clear()
        self.proxied.up()
        super().close()


@contextmanager
def faulty_queue(engine: str, colour: str, cluster: Cluster) -> Iterator[FaultyQueue]:
    with ProxiedCluster(cluster) as proxied:
        q = FaultyQueue(engine, colour, cluster, proxied)
        try:
            yield q
        finally:
            q.close()


@pytest.fixture(scope="session", autouse=True)
def _background_loop() -> Iterator[None]:
    yield
    stop_background_loop()


@pytest.fixture(
    params=[
        pytest.param((engine, colour), id=f"{engine}-{colour}", marks=pytest.mark.cluster(engine))
        for engine in ("one node", "three nodes")
        for colour in ("sync", "async")
    ]
)
def q(request: pytest.FixtureRequest) -> Iterator[FaultyQueue]:
    """A queue behind proxies on the session's servers: for faults of the network, not of nodes."""
    engine, colour = request.param
    with faulty_queue(engine, colour, request.getfixturevalue(engine.replace(" ", "_"))) as q:
        yield q


@pytest.fixture
def one(one_node: Cluster) -> Iterator[FaultyQueue]:
    """The same on one node, async only: where engine and colour make no difference to what is tested."""
    with faulty_queue("one node", "async", one_node) as q:
        yield q


@pytest.fixture
def three_nodes_q(three_nodes: Cluster) -> Iterator[FaultyQueue]:
    """The same on three nodes."""
    with faulty_queue("three nodes", "async", three_nodes) as q:
        yield q
