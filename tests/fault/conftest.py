"""Queues behind fault proxies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rqfast.devserver import DevServer
from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import QueueUnderTest, queue_name, stop_background_loop
from tests.devserver import DevCluster
from tests.fault.recorded import Crew
from tests.proxy import ProxiedCluster, Proxy


class FaultyQueue(QueueUnderTest):
    """A queue whose client sees a proxy in front of every node."""

    def __init__(self, engine: str, colour: str, cluster: Cluster | DevCluster, proxied: ProxiedCluster) -> None:
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
def faulty_queue(engine: str, colour: str, cluster: Cluster | DevCluster) -> Iterator[FaultyQueue]:
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


# -- nodes that tests may kill -----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def mortal_nodes() -> Iterator[Cluster]:
    """Three nodes that tests may kill and pause; whoever uses them mends them first."""
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mortal_node() -> Iterator[Cluster]:
    """One such node."""
    with Cluster(1) as cluster:
        yield cluster


def mend(cluster: Cluster) -> None:
    """Bring every node back."""
    for node in cluster.nodes:
        if node.paused:
            node.resume()
        elif not node.running:
            node.restart(wait=False)
    for node in cluster.nodes:
        node.wait_ready()
    cluster.wait_leader()
    cluster.wait_applied()


@pytest.fixture
def mortal(mortal_nodes: Cluster) -> Iterator[FaultyQueue]:
    """A queue on three nodes that the test may kill."""
    mend(mortal_nodes)
    with faulty_queue("three nodes", "async", mortal_nodes) as q:
        yield q
        mend(mortal_nodes)


@pytest.fixture
def alone(mortal_node: Cluster) -> Iterator[FaultyQueue]:
    """A queue on one node that the test may kill."""
    mend(mortal_node)
    with faulty_queue("one node", "async", mortal_node) as q:
        yield q
        mend(mortal_node)


# -- of every kind, once -----------------------------------------------------------------------------------

EACH_ENGINE = [
    pytest.param("dev server"),
    pytest.param("one node", marks=pytest.mark.cluster("one node")),
    pytest.param("three nodes", marks=pytest.mark.cluster("three nodes")),
]


@pytest.fixture(params=EACH_ENGINE)
def any_q(request: pytest.FixtureRequest) -> Iterator[FaultyQueue]:
    """A queue behind proxies on each engine that is reached by HTTP; async on some, sync on others."""
    engine = request.param
    if engine == "dev server":
        server: DevServer = request.getfixturevalue("dev_server")
        cluster: Cluster | DevCluster = DevCluster(server)
    else:
        cluster = request.getfixturevalue(engine.replace(" ", "_"))
    with faulty_queue(engine, "sync" if engine == "one node" else "async", cluster) as q:
        yield q


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    """A load that is checked by its history."""
    return Crew(tmp_path / "crew")
