"""A queue on a dev server whose replies pass a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rqfast.devserver import DevServer
from tests.contract.views import stop_background_loop
from tests.proxy import Proxy


@pytest.fixture(scope="session", autouse=True)
def _background_loop() -> Iterator[None]:
    yield
    stop_background_loop()


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """Before a dev server of its own, which tells this address for its own."""
    with DevServer() as server, Proxy(server.host, server.port) as proxy:
        proxy.addresses = {f"{server.host}:{server.port}": f"127.0.0.1:{proxy.port}"}
        yield proxy
