"""What a newcomer gets wrong first is refused with a line that says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType

import pytest

import rqfast
from rqfast.devserver import DevServer


@pytest.mark.parametrize(
    "address",
    ["localhost:4001", "127.0.0.1:4001", "node1:4001,node2:4001", "[::1]:4001", "http:127.0.0.1:1", "file:x.db"],
)
def test_an_address_without_a_scheme_makes_no_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RQFAST_URL", address)
    for open_one in (lambda: rqfast.connect(address), rqfast.connect, lambda: rqfast.SqliteTransport(address)):
        with pytest.raises(rqfast.ConfigError, match="http://host:port"):
            open_one()
    assert list(tmp_path.iterdir()) == []
    rqfast.connect(f"./{address.replace('/', '')}").close()


def test_unavailable_tells_why_for_each_node() -> None:
    with DevServer() as server:
        gone = server.url
    with pytest.raises(rqfast.Unavailable) as caught:
        rqfast.connect(f"{gone},nohost.invalid:4001", timeout=0.5, connect_retries=1, retry_delay=0.1)
    assert re.search(rf"{re.escape(gone)} \(.+\), http://nohost\.invalid:4001 \(.+\)", str(caught.value)), caught.value


def test_headers_may_be_any_mapping() -> None:
    with rqfast.connect(":memory:") as queue:
        queue.publish("g", 1, headers=MappingProxyType({"a": "b"}))
        lease = queue.claim()
        assert lease is not None and lease.headers == {"a": "b"}


def test_what_is_no_json_names_the_event() -> None:
    with rqfast.connect(":memory:") as queue, pytest.raises(TypeError, match=r"event: .*encode="):
        queue.publish("g", object())


@pytest.mark.parametrize("skew", [float("nan"), float("inf"), 1e300])
def test_an_impossible_clock_skew_is_refused(skew: float) -> None:
    with pytest.raises(rqfast.ConfigError, match="clock_skew"):
        DevServer(clock_skew=skew)
