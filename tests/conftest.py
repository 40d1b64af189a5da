"""Servers that a whole test session shares. Each starts when the first test asks for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from rqfast.devserver import DevServer
from tests.cluster import NO_SERVER, Cluster, find_rqlited

# Started in the background of a script, all processes ignore Ctrl-C, and the tests of it would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `cluster`, or `cluster(what)`, where there is no server to start."""
    marker = item.get_closest_marker("cluster")
    if marker is not None and find_rqlited() is None:
        pytest.skip(": ".join([*marker.args, NO_SERVER]))


@pytest.fixture(scope="session")
def dev_server() -> Iterator[DevServer]:
    """One dev server for all tests."""
    with DevServer() as server:
        yield server


@pytest.fixture(scope="session")
def one_node() -> Iterator[Cluster]:
    """One rqlited. Tests that kill or pause nodes start a cluster of their own."""
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[Cluster]:
    """Three rqliteds in one cluster. Tests that kill or pause nodes start a cluster of their own."""
    with Cluster(3) as cluster:
        yield cluster
