"""The recorded exchanges against a real server, so that the files stay true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.devserver import Reply, ask
from tests.golden.exchanges import FILES, exchanges, fields, replay

pytestmark = pytest.mark.cluster("recorded exchanges")


@pytest.fixture(scope="module")
def seen() -> Iterator[tuple[str, dict[str, Reply]]]:
    """The server's version, and its replies."""
    with Cluster(1) as cluster:  # its own: the exchanges start from an empty database
        port = cluster.nodes[0].http_port
        said = ask("127.0.0.1", port, "GET", "/status", None, {}).headers["X-Rqlite-Version"]
        version = said.removeprefix("v").partition(".")[0]
        if version not in FILES:
            pytest.skip(f"no exchanges were recorded with rqlited {said}")
        yield (
            version,
            replay(version, lambda one: ask("127.0.0.1", port, one.method, one.path, one.body, one.headers)),
        )


@pytest.mark.parametrize("name", exchanges("10"))
def test_the_server_still_answers_so(seen: tuple[str, dict[str, Reply]], name: str) -> None:
    version, replies = seen
    assert fields(name, replies[name]) == fields(name, exchanges(version)[name].reply)
