"""What a client knows of the nodes, and how a URL names them."""

import orjson
import pytest

from rqfast.engine.cluster import Cluster, parse_url

A, B, C = (f"http://127.0.0.1:{port}" for port in (1001, 1002, 1003))


def nodes(leader: str, reachable: bool = True) -> bytes:
    return orjson.dumps(
        {
            "nodes": [
                {"id": a[-1], "api_addr": a, "leader": a == leader, "reachable": reachable or a != leader}
                for a in (A, B, C)
            ]
        }
    )


def test_learns_the_leader_and_the_other_nodes_from_any_of_them() -> None:
    cluster = Cluster([A], True)
    assert cluster.learn(nodes(C)) == C
    assert (cluster.leader, set(cluster.nodes)) == (C, {A, B, C})


def test_does_not_believe_in_a_leader_that_cannot_be_reached_or_is_suspect() -> None:
    cluster = Cluster([A, B], True)
    assert cluster.learn(nodes(C, reachable=False)) is None
    assert cluster.learn(nodes(C), suspect=C) is None
    assert cluster.leader is None


def test_a_leader_that_did_not_tell_its_address_in_time_is_where_it_was() -> None:
    silent = orjson.dumps({"nodes": [{"id": C[-1], "leader": True, "reachable": False, "error": "timed out"}]})
    cluster = Cluster([A], True)
    assert cluster.learn(silent) is None
    assert cluster.learn(nodes(A)) == A
    assert cluster.learn(silent) == C
    assert cluster.learn(silent, suspect=C) is None
    cluster.unreachable(C)
    assert cluster.learn(silent) is None, "nobody is there"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"nodes":1}', b'{"nodes":[1]}', b'{"nodes":[{"api_addr":3}]}'])
def test_a_strange_answer_teaches_nothing(body: bytes) -> None:
    assert Cluster([A], True).learn(body) is None


@pytest.mark.parametrize("named", [True, False])
def test_a_redirect_points_to_a_node_without_credentials(named: bool) -> None:
    cluster = Cluster([A, B] if named else [A], True)
    if not named:
        cluster.learn(nodes(A))
        cluster.lost(A)
    cluster.redirected("http://user:secret@127.0.0.1:1002/db/execute?transaction&redirect")
    assert cluster.leader == B


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:9999/", "http://127.0.0.1:1001@evil/", "//evil", "", "http://["]
)
def test_a_redirect_to_a_stranger_leads_nowhere(location: str) -> None:
    cluster = Cluster([A, B], True)
    cluster.redirected(location)
    assert cluster.leader is None and set(cluster.nodes) == {A, B}


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:1", "ftp://h:1", "http://", "http://h:x", "http://[::1", "http://h h:1", "//h:1", "\0"]
)
def test_what_is_no_address_is_no_node(address: str) -> None:
    cluster = Cluster([A], True)
    entry = {"api_addr": address, "leader": True, "reachable": True}
    assert cluster.learn(orjson.dumps({"nodes": [entry]})) is None
    assert cluster.nodes == (A,)


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("http://[::1]:4001/x?y", "http://[::1]:4001"),
        ("HTTP://u:p@Node:1", "http://node:1"),
        ("https://n", "https://n"),
    ],
)
def test_of_an_address_only_the_host_is_taken(address: str, taken: str) -> None:
    cluster = Cluster([A], True)
    entry = {"api_addr": address, "leader": True, "reachable": True}
    assert cluster.learn(orjson.dumps({"nodes": [entry]})) == taken


def test_a_node_that_points_to_a_stranger_forwards_until_a_leader_is_known() -> None:
    cluster = Cluster([A], True)
    cluster.forward_by(A)
    assert (cluster.leader, cluster.forwards) == (A, True)
    cluster.learn(nodes(C))
    assert (cluster.leader, cluster.forwards) == (C, False)


def test_an_advertised_address_that_cannot_be_reached_is_forwarded_to() -> None:
    cluster = Cluster([A], True)
    cluster.learn(nodes(C))
    cluster.unreachable(C)
    assert cluster.learn(nodes(C)) == A
    assert cluster.forwards
    assert cluster.learn(nodes(B)) == B
    assert not cluster.forwards


def test_https_is_never_left() -> None:
    cluster = Cluster(["https://127.0.0.1:1001"], True)
    assert cluster.learn(nodes(B)) == "https://127.0.0.1:1002"


def test_without_discovery_the_addresses_take_turns_and_forward() -> None:
    cluster = Cluster([A, B], False)
    assert cluster.forwards
    assert {cluster.next_seed(), cluster.next_seed()} == {A, B}
    cluster.redirected(C)
    assert cluster.leader is None


@pytest.mark.parametrize(
    ("url", "seeds", "auth"),
    [
        ("http://h:1", ["http://h:1"], None),
        ("rqlite://h", ["http://h:4001"], None),
        ("rqlites://h:1,i:2/", ["https://h:1", "https://i:2"], None),
        ("HTTPS://u:p%40ss%3A@h:1", ["https://h:1"], ("u", "p@ss:")),
        ("http://u:p@ss:w/rd@h:1", ["http://h:1"], ("u", "p@ss:w/rd")),
        ("http://u@h:1", ["http://h:1"], ("u", "")),
        ("http://[::1]:1", ["http://[::1]:1"], None),
        ("http://h:1,h:1", ["http://h:1"], None),
    ],
)
def test_urls(url: str, seeds: list[str], auth: tuple[str, str] | None) -> None:
    assert parse_url(url) == (seeds, auth)


@pytest.mark.parametrize(
    "url", ["h:1", "ftp://h", "http://", "http://h:x", "http://h:1/path", "http://h:1?a=b", "http://h:1,"]
)
def test_bad_urls_are_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_url(url.replace("://", "://user:secret@"))
    assert "secret" not in str(refused.value)
