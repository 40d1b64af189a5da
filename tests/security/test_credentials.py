"""Who gets the password: nodes that the user named, nodes that those list, and nobody else, however they ask for it."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest

import rqfast
from rqfast.devserver import DevServer
from tests.cluster import Cluster
from tests.proxy import ProxiedCluster, Proxy
from tests.security.strangers import Answer, Stranger, listing, refuses

USER, PASSWORD = "us@er", "p@ss:w/rd%41?#,[]& ü"
AUTH = (USER, PASSWORD)
IN_URL = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@"
SENT = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SHORT: dict[str, Any] = {"connect_retries": 1, "retry_delay": 0.2}


def with_user(url: str, user: str = IN_URL) -> str:
    return url.replace("//", f"//{user}", 1)


async def opened(url: str, **options: Any) -> None:
    async with rqfast.connect_async(url, **options):
        pass


WAYS: dict[str, Callable[..., object]] = {
    "sync": lambda url, **options: rqfast.connect(url, **options).close(),
    "async": lambda url, **options: asyncio.run(opened(url, **options)),
}
each_way = pytest.mark.parametrize("way", [pytest.param(WAYS[name], id=name) for name in WAYS])


def at_once(kind: type[BaseException], step: Callable[[], object], match: str) -> BaseException:
    """It raises, long before the 30 s for which opening waits for a leader."""
    start = time.monotonic()
    with pytest.raises(kind, match=match) as caught:
        step()
    assert time.monotonic() - start < 15
    return caught.value


@pytest.fixture(scope="module")
def locked() -> Iterator[Cluster]:
    """A node that asks for user and password."""
    with Cluster(1, auth=AUTH) as cluster:
        yield cluster


@pytest.fixture
def proxied(locked: Cluster) -> Iterator[ProxiedCluster]:
    with ProxiedCluster(locked) as proxied:
        yield proxied


def asked(proxied: ProxiedCluster) -> int:
    return len(proxied.proxies[0].seen(lambda exchange: True))


# -- how they are given ----------------------------------------------------------------------------------


@pytest.mark.cluster
@pytest.mark.parametrize("where", ["url", "auth", "RQFAST_URL", "auth over url", "from_url", "worker"])
def test_a_password_of_any_letters_opens(locked: Cluster, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = locked.nodes[0].url
    if where == "RQFAST_URL":
        monkeypatch.setenv("RQFAST_URL", with_user(plain))
    if where == "worker":
        worker = rqfast.Worker(with_user(plain))

        @worker.subscriber(group="g-worker")
        def handle(event: int) -> None:
            worker.stop()

        with rqfast.connect(plain, auth=AUTH) as queue:
            queue.publish("g-worker", 1)
        assert worker.run().acked == 1
        return
    make: dict[str, Callable[[], Any]] = {
        "url": lambda: rqfast.connect(with_user(plain)),
        "auth": lambda: rqfast.connect(plain, auth=AUTH),
        "RQFAST_URL": rqfast.connect,
        "auth over url": lambda: rqfast.connect(with_user(plain, "us:wrong@"), auth=AUTH),
        "from_url": lambda: rqfast.RqliteTransport.from_url(with_user(plain)),
    }
    with make[where]() as queue:
        assert queue.publish("g", where) >= 1


@pytest.mark.parametrize(
    "password", ["p@ss:/%41w", "@", ":", "/", "%", "%25", "a@b:c@d", "?#", "http://x@y/", "p,q", "[::1]", "  ", "ü€"]
)
def test_what_is_sent_is_what_was_given(password: str) -> None:
    wanted = "Basic " + base64.b64encode(f"u:{password}".encode()).decode()
    with Stranger(refuses) as node:
        for url, options in (
            (with_user(node.url, f"u:{quote(password, safe='')}@"), {}),
            (node.url, {"auth": ("u", password)}),
        ):
            node.asked.clear()
            with pytest.raises(rqfast.ConfigError):
                rqfast.connect(url, **options)
            assert {one.authorization for one in node.asked} == {wanted}


@pytest.mark.parametrize("given", ["http://a%3Ab:c@h:1", ("a:b", "c"), ("a", "secret\ud800"), ("a\udfff", "secret")])
@pytest.mark.parametrize("kind", [rqfast.connect, rqfast.RqliteTransport, rqfast.AsyncRqliteTransport])
def test_what_cannot_be_sent_is_refused_before_it_is(given: Any, kind: Callable[..., Any]) -> None:
    url, options = (given, {}) if isinstance(given, str) else ("http://127.0.0.1:1", {"auth": given})
    with pytest.raises(rqfast.ConfigError, match=r"colon|surrogate") as caught:
        kind(url, **options)
    assert "secret" not in repr(caught.value)


def test_a_node_may_have_an_ipv6_address() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no ::1")
    with DevServer(host="::1") as server, rqfast.connect(f"http://u:p%40@[::1]:{server.port}") as queue:
        assert server.url == f"http://[::1]:{server.port}"
        queue.publish("g", 1)
        lease = queue.claim()
        assert lease is not None
        queue.ack(lease)
        assert f"http://[::1]:{server.port}" in repr(queue)


# -- a wrong one -----------------------------------------------------------------------------------------


@pytest.mark.cluster
@each_way
@pytest.mark.parametrize("user", ["", "us%40er:wrong@", "nobody:wrong@"])
def test_a_wrong_password_is_said_after_a_handful_of_requests(
    proxied: ProxiedCluster, user: str, way: Callable[..., object]
) -> None:
    error = at_once(rqfast.ConfigError, lambda: way(with_user(proxied.url, user)), "refused the credentials")
    assert "wrong" not in repr(error)
    assert asked(proxied) <= 4, "two to see who leads, and beside the work where the nodes are"


@each_way
def test_nor_are_the_others_stormed(way: Callable[..., object]) -> None:
    with ExitStack() as stack:
        nodes = [stack.enter_context(Stranger(refuses)) for _ in range(3)]
        url = "http://u:wrong@" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        at_once(rqfast.ConfigError, lambda: way(url), "refused the credentials")
        assert sum(len(node.asked) for node in nodes) <= 12


def refuse_all(proxy: Proxy) -> None:
    proxy.answer(401, b"", lambda exchange: True, count=None)


@pytest.mark.cluster
@pytest.mark.parametrize("call", ["publish", "claim", "waiting claim", "many", "stats"])
def test_a_password_that_is_changed_ends_each_call_at_once(proxied: ProxiedCluster, call: str) -> None:
    calls: dict[str, Callable[[rqfast.Transport[Any]], object]] = {
        "publish": lambda queue: queue.publish("g", 1),
        "claim": lambda queue: queue.claim(),
        "waiting claim": lambda queue: queue.claim(wait=60),
        "many": lambda queue: queue.publish_many(("g", number) for number in range(100)),
        "stats": lambda queue: queue.stats(),
    }
    with rqfast.connect(proxied.url, auth=AUTH, queue="changed") as queue:
        before = asked(proxied)
        refuse_all(proxied.proxies[0])
        with pytest.raises(rqfast.RqfastError) as caught:
            calls[call](queue)
        told = caught.value.__cause__ if isinstance(caught.value, rqfast.PublishIncomplete) else caught.value
        assert isinstance(told, rqfast.ConfigError)
        assert asked(proxied) - before <= 3
        proxied.clear()
        assert queue.publish("h", 1) >= 1, "with the right one it goes on"


@pytest.mark.cluster
def test_a_worker_ends_and_says_so(proxied: ProxiedCluster) -> None:
    worker = rqfast.Worker(with_user(proxied.url), queue="ends")

    @worker.subscriber()
    def handle(event: int) -> None:
        refuse_all(proxied.proxies[0])

    with rqfast.connect(proxied.url, auth=AUTH, queue="ends") as queue:
        queue.publish("g", 1)
    at_once(rqfast.ConfigError, worker.run, "refused the credentials")
    before = len(proxied.proxies[0].seen(lambda exchange: exchange.status is None))
    assert before <= 20


# -- strangers -------------------------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    with Stranger(refuses) as found:
        yield found


def is_sql(exchange: Any) -> bool:
    return bool(exchange.path.startswith("/db/"))


@pytest.mark.cluster
@pytest.mark.parametrize("code", [301, 302, 307, 308])
@each_way
def test_a_redirect_to_a_stranger_is_not_followed(
    proxied: ProxiedCluster, stranger: Stranger, code: int, way: Callable[..., object]
) -> None:
    proxy = proxied.proxies[0]
    rule = proxy.answer(code, b"", is_sql, headers=[("Location", f"{stranger.url}/db/query")], count=3)
    way(with_user(proxied.url), queue="redirected")
    rule.wait(3)
    assert stranger.touched == 0


@pytest.mark.cluster
def test_where_nodes_may_not_be_seen_a_node_that_points_to_a_stranger_forwards(
    proxied: ProxiedCluster, stranger: Stranger
) -> None:
    proxy = proxied.proxies[0]
    proxy.answer(401, b"", lambda exchange: exchange.path.startswith("/nodes"), count=None)
    to_stranger = [("Location", f"{stranger.url}/db/query")]
    proxy.answer(301, b"", lambda exchange: "redirect" in exchange.path, headers=to_stranger, count=None)
    with rqfast.connect(with_user(proxied.url), queue="forwarded") as queue:
        queue.publish("g", 1)
        assert queue.claim() is not None
    assert stranger.touched == 0


@pytest.mark.cluster
def test_a_redirect_to_another_node_of_the_list_is_followed(locked: Cluster) -> None:
    with ProxiedCluster(locked) as leads:
        with Stranger(lambda path: Answer(401) if path.startswith("/nodes") else Answer(301, b"", leads.url)) as node:
            url = f"{with_user(node.url)},127.0.0.1:{leads.proxies[0].port}"
            leads.proxies[0].answer(401, b"", lambda exchange: exchange.path.startswith("/nodes"), count=None)
            with rqfast.connect(url, queue="followed") as queue:
                queue.publish("g", 1)
        assert {one.authorization for one in node.asked} == {SENT}


@pytest.mark.cluster
def test_nodes_that_a_node_lists_are_nodes_of_its_cluster(proxied: ProxiedCluster) -> None:
    with Stranger(lambda path: listing(proxied.url, leader=proxied.url)) as seed:
        with rqfast.connect(with_user(seed.url), queue="listed") as queue:
            queue.publish("g", 1)
        assert {one.path.partition("?")[0] for one in seed.asked} == {"/nodes"}


def test_without_discovery_nobody_else_is_asked(stranger: Stranger) -> None:
    def answer(path: str) -> Answer:
        if path.startswith("/nodes"):
            return listing(stranger.url, leader=stranger.url)
        return Answer(301, b"", stranger.url)

    with Stranger(answer) as node:
        with pytest.raises(rqfast.Unavailable):
            rqfast.connect(with_user(node.url), discover=False, **SHORT)
        assert node.asked and stranger.touched == 0


def test_what_is_listed_and_is_no_address_is_passed_over() -> None:
    bad = ["ftp://127.0.0.1:1", "127.0.0.1", "http://", "//x", "http://[", "http://a b", "file:///etc/passwd"]
    with DevServer() as server:
        with Stranger(lambda path: listing(*bad, server.url, leader=server.url)) as seed:
            rqfast.connect(with_user(seed.url)).close()
        with Stranger(lambda path: listing(*bad, leader=bad[0])) as seed, pytest.raises(rqfast.Unavailable) as caught:
            rqfast.connect(with_user(seed.url), **SHORT)
        assert caught.value.nodes == (seed.url,)


def test_the_environment_of_the_process_sends_it_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, stranger: Stranger
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, stranger.url)
    with DevServer() as server, rqfast.connect(with_user(server.url)) as queue:
        queue.publish("g", 1)
    assert stranger.touched == 0
