"""TLS to real nodes: verified by default, client certificates, and no way back to plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rqfast
from tests.cluster import Cluster
from tests.script import run_python
from tests.security.certificates import Authority
from tests.security.strangers import Answer, Stranger, listing, refuses
from tests.security.test_credentials import IN_URL, PASSWORD, SHORT, at_once, each_way

SECURITY = Path(__file__).parents[2] / "SECURITY.md"
AUTH = ("user", "s3cret/:@%")


# A connection that is given up before its TLS handshake has begun (another node has answered first) is left by asyncio
# to the garbage collector, which says so wherever it comes by; so it comes by here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> tuple[Path, Path]:
    return authority.sign("server")


@pytest.fixture(scope="module")
def client(authority: Authority) -> tuple[Path, Path]:
    return authority.sign("client")


@pytest.fixture(scope="module")
def tls(server: tuple[Path, Path]) -> Iterator[Cluster]:
    """One node with TLS and a password."""
    with Cluster(1, auth=AUTH, tls=server) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def mutual(authority: Authority, server: tuple[Path, Path], client: tuple[Path, Path]) -> Iterator[Cluster]:
    """Three nodes with TLS and a password that ask for a client's certificate."""
    args = ["-http-verify-client", "-http-ca-cert", str(authority.certificate)]
    with Cluster(3, auth=AUTH, tls=server, client=client, args=args) as cluster:
        yield cluster


@pytest.fixture
def other_authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def works(url: str, **options: Any) -> None:
    """A message through the queue, in both colours."""
    with rqfast.connect(url, **options) as queue:
        queue.publish("g", 1)

    async def script() -> None:
        async with rqfast.connect_async(url, **options) as queue:
            lease = await queue.claim()
            assert lease is not None
            await queue.ack(lease)

    asyncio.run(script())


def hides(error: BaseException) -> None:
    assert AUTH[1] not in f"{error!r} {error}" and PASSWORD not in f"{error!r} {error}"


# -- real nodes ------------------------------------------------------------------------------------------


@pytest.mark.cluster
def test_with_its_authority_a_node_is_trusted(tls: Cluster, authority: Authority) -> None:
    works(tls.url, ssl=authority.context())
    works(tls.url.replace("https", "rqlites"), ssl=authority.context())
    works(tls.nodes[0].url, ssl=authority.context(), auth=AUTH)


@pytest.mark.cluster
@each_way
def test_by_default_a_certificate_is_verified(tls: Cluster, way: Callable[..., object]) -> None:
    hides(at_once(rqfast.ConfigError, lambda: way(tls.url), "certificate was not accepted"))


@pytest.mark.cluster
@each_way
def test_another_authority_does_not_do(tls: Cluster, other_authority: Authority, way: Callable[..., object]) -> None:
    context = other_authority.context()
    hides(at_once(rqfast.ConfigError, lambda: way(tls.url, ssl=context), "certificate was not accepted"))


def serving(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """What a server speaks TLS with."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*map(str, certificate))
    return context


@each_way
def test_nor_does_another_name(authority: Authority, way: Callable[..., object]) -> None:
    elsewhere = serving(authority.sign("elsewhere", "DNS:elsewhere.example,IP:127.0.0.2"))
    with Stranger(refuses, context=elsewhere) as node:
        url = f"https://{IN_URL}127.0.0.1:{node.port}"
        hides(at_once(rqfast.ConfigError, lambda: way(url, ssl=authority.context()), "certificate was not accepted"))
        assert node.asked == []


@pytest.mark.cluster
@each_way
def test_http_to_a_port_for_tls_is_said_at_once(tls: Cluster, way: Callable[..., object]) -> None:
    url = tls.url.replace("https", "http")
    hides(at_once(rqfast.ConfigError, lambda: way(url), "speaks TLS and the URL says http"))


@pytest.mark.cluster
@each_way
def test_https_to_a_plain_port_is_said_at_once(one_node: Cluster, way: Callable[..., object]) -> None:
    url = one_node.url.replace("http", "https")
    at_once(rqfast.ConfigError, lambda: way(url), r"does not speak TLS .* never falls back")


@pytest.mark.cluster
@each_way
def test_a_wrong_password_over_tls(tls: Cluster, authority: Authority, way: Callable[..., object]) -> None:
    wrong = ("user", "wrong")
    url = tls.nodes[0].url
    error = at_once(rqfast.ConfigError, lambda: way(url, ssl=authority.context(), auth=wrong), "refused the cred")
    assert "wrong" not in repr(error)


@pytest.mark.cluster
def test_a_client_with_a_certificate_works_on_three_nodes(
    mutual: Cluster, authority: Authority, client: tuple[Path, Path]
) -> None:
    works(mutual.url, ssl=authority.context(client))
    follower = mutual.followers()[0]
    works(follower.url, ssl=authority.context(client), auth=AUTH)


@pytest.mark.cluster
def test_the_example_of_the_docs_runs(
    mutual: Cluster, authority: Authority, client: tuple[Path, Path], tmp_path: Path
) -> None:
    [example] = re.findall(r"```python\n(.*?)```", SECURITY.read_text(encoding="utf-8"), re.DOTALL)
    names = {"ca.pem": authority.certificate, "client.crt": client[0], "client.key": client[1]}
    for name, path in names.items():
        assert f'"{name}"' in example
        example = example.replace(f'"{name}"', repr(str(path)))
    ran = run_python(tmp_path, "-c", example.replace("https://user:password@node1:4001,node2:4001", mutual.url))
    assert ran.returncode == 0, ran.stderr


@pytest.mark.cluster
@each_way
def test_without_a_certificate_it_is_said_at_once(
    mutual: Cluster, authority: Authority, way: Callable[..., object]
) -> None:
    at_once(rqfast.ConfigError, lambda: way(mutual.url, ssl=authority.context()), "wants another client certificate")


@pytest.mark.cluster
@each_way
def test_with_one_of_another_authority_too(
    mutual: Cluster, authority: Authority, other_authority: Authority, way: Callable[..., object]
) -> None:
    context = authority.context(other_authority.sign("foreign"))
    at_once(rqfast.ConfigError, lambda: way(mutual.url, ssl=context), "wants another client certificate")


@pytest.mark.cluster
@pytest.mark.parametrize("command", [["stats"], ["verify"]], ids=" ".join)
def test_the_command_takes_the_authority_from_openssls_variable(
    tls: Cluster, authority: Authority, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rqfast.connect(tls.url, ssl=authority.context()).close()
    where = [tls.url] if command == ["verify"] else ["--url", tls.url]

    def run() -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "rqfast.cli", *command, *where]
        return subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)

    if command == ["stats"]:
        refused = run()
        assert refused.returncode != 0 and "certificate was not accepted" in refused.stderr
        assert "s3cret" not in refused.stderr + refused.stdout
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    ran = run()
    assert ran.returncode == 0, ran.stderr
    assert "s3cret" not in ran.stderr + ran.stdout


# -- no way back to plain HTTP ---------------------------------------------------------------------------


@pytest.fixture
def over_tls(server: tuple[Path, Path]) -> ssl.SSLContext:
    return serving(server)


def test_plain_peers_of_an_https_node_are_asked_over_tls_or_not_at_all(
    authority: Authority, over_tls: ssl.SSLContext
) -> None:
    with Stranger(refuses) as plain:
        with Stranger(lambda path: listing(plain.url, leader=plain.url), context=over_tls) as node:
            url = f"https://{IN_URL}127.0.0.1:{node.port}"
            with pytest.raises(rqfast.RqfastError) as caught:
                rqfast.connect(url, ssl=authority.context(), **SHORT)
            hides(caught.value)
            assert node.asked and all(one.authorization for one in node.asked)
        assert plain.asked == [], "nothing that could be read came there"


def test_nor_does_a_redirect_lead_there(authority: Authority, over_tls: ssl.SSLContext) -> None:
    with Stranger(refuses) as plain:

        def answer(path: str) -> Answer:
            if path.startswith("/nodes"):
                return listing(f"https://127.0.0.1:{node.port}", plain.url, leader=f"https://127.0.0.1:{node.port}")
            return Answer(301, b"", plain.url)

        with Stranger(answer, context=over_tls) as node:
            url = f"https://{IN_URL}127.0.0.1:{node.port}"
            with pytest.raises(rqfast.RqfastError):
                rqfast.connect(url, ssl=authority.context(), **SHORT)
            assert any(one.path.startswith("/db/") for one in node.asked)
        assert plain.asked == []


@pytest.mark.parametrize("stalls", [False, True])
def test_one_bad_certificate_among_good_nodes_does_not_stop_a_client(
    authority: Authority, other_authority: Authority, over_tls: ssl.SSLContext, stalls: bool
) -> None:
    goes_on = threading.Event()

    bad = serving(other_authority.sign("bad"))

    def answer(path: str) -> Answer:
        good = f"https://127.0.0.1:{node.port}"
        if path.startswith("/nodes"):
            return listing(good, leader=good)
        if stalls:
            goes_on.wait(30)
        return Answer(503, b"leader not found")

    with Stranger(answer, context=over_tls) as node, Stranger(refuses, context=bad) as broken:
        url = f"https://{IN_URL}127.0.0.1:{broken.port},127.0.0.1:{node.port}"
        with pytest.raises(rqfast.Unavailable):
            rqfast.connect(url, ssl=authority.context(), connect_retries=1, retry_delay=1.5)
        goes_on.set()
        assert broken.asked == [] and any(one.path.startswith("/db/") for one in node.asked)


@pytest.mark.parametrize("scheme", ["http", "rqlite"])
@pytest.mark.parametrize("kind", [rqfast.connect, rqfast.connect_async, rqfast.AsyncRqliteTransport])
def test_a_context_beside_a_plain_url_is_refused(scheme: str, kind: Callable[..., Any]) -> None:
    async def use() -> None:
        made = kind(f"{scheme}://127.0.0.1:1", ssl=ssl.create_default_context())
        if kind is rqfast.connect_async:
            await made

    with pytest.raises(rqfast.ConfigError, match="write https://"):
        asyncio.run(use())


@pytest.mark.parametrize("value", [False, True, "ca.pem", 0, ssl.CERT_NONE])
def test_no_short_word_turns_verification_off(value: Any) -> None:
    with pytest.raises(rqfast.ConfigError, match="SSLContext"):
        rqfast.connect("https://127.0.0.1:1", ssl=value)


def test_a_node_that_goes_away_in_the_handshake_is_only_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def close_each() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    listening.accept()[0].close()

        listening.settimeout(0.1)
        closing = threading.Thread(target=close_each)
        closing.start()
        try:
            with pytest.raises(rqfast.Unavailable):
                rqfast.connect(f"https://127.0.0.1:{listening.getsockname()[1]}", **SHORT)
        finally:
            ended.set()
            closing.join(15)
