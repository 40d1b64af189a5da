"""Faults of the servers: each is over, and all nodes are back, when the function returns."""

from __future__ import annotations

import json
import time

from tests.cluster import Cluster, Node, ServerError, free_port, wait_until
from tests.proxy import Exchange, Rule
from tests.soak.network import Act, Seen
from tests.soak.site import LEADER_SECONDS, Site

HOURS, MINUTES = 3600.0, 60.0


def kill(site: Site, node: Node | None) -> Seen:
    """SIGKILL, and back after a while."""
    return _stopped(site, _known(node), "kill")


def terminate(site: Site, node: Node | None) -> Seen:
    """SIGTERM, and back after a while."""
    return _stopped(site, _known(node), "terminate")


def pause(site: Site, node: Node | None) -> Seen:
    """SIGSTOP for longer than an election, then SIGCONT."""
    node = _known(node)
    leads, since = node is site.leader(), time.monotonic()
    node.pause()
    election = site.no_leader_for(since) if leads else None
    time.sleep(site.dice.uniform(2.0, 4.0))
    node.resume()
    node.wait_ready(LEADER_SECONDS)
    return Seen(1, election=election, since=since)


def quorum(site: Site, node: Node | None) -> Seen:
    """Two of three are gone: the node, and another; mostly for less than a call waits, sometimes for longer."""
    node, cluster = _known(node), _cluster(site)
    site.leader()
    gone = [node, site.dice.choice([one for one in cluster.nodes if one is not node])]
    seconds = site.dice.choice((4.0, 6.0, 11.0))
    since = time.monotonic()
    if site.dice.random() < 0.5:
        for one in gone:
            one.kill()
        time.sleep(seconds)
        for one in gone:
            one.restart(wait=False)
    else:
        for one in gone:
            one.pause()
        time.sleep(seconds)
        for one in gone:
            one.resume()
    election = site.no_leader_for(since)
    for one in gone:
        one.wait_ready(LEADER_SECONDS)
    return Seen(1, election=election, since=since)


def step_down(site: Site, node: Node | None) -> Seen:
    """The leader hands over, in the middle of what it does."""
    node = _known(node)
    since = time.monotonic()
    status, body = node.request("POST", "/leader?wait")
    if status != 200:
        raise ServerError(f"node {node.node_id} was to step down and answered {status} {body!r}")
    return Seen(1, election=site.no_leader_for(since), since=since)


def stale_list(site: Site, node: Node | None) -> Seen:
    """A node comes back and is told to join by addresses of which most lead nowhere any more.

    (It ends when all lead nowhere, though its own folder says who its peers are.)
    """
    node = _known(node)
    kept = node.args
    others = [f"127.0.0.1:{one.raft_port}" for one in _cluster(site).nodes if one is not node]
    stale = ",".join([f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", *others])
    node.args = [*kept, "-join", stale, "-join-interval", "250ms", "-join-attempts", "100"]
    try:
        return _stopped(site, node, "kill")
    finally:
        node.args = kept


def server_time(site: Site, node: Node | None) -> Seen:
    """The time that servers tell to clients that open the queue is off by a minute or an hour; the leader is killed."""
    offset = site.dice.choice((HOURS, -HOURS, MINUTES, -MINUTES))
    rules = wrong_time(site, offset)
    seen = _stopped(site, node, "kill") if node is not None else Seen(1)
    wait_until("a client to open the queue", lambda: any(rule.hits for rule in rules) or None, 30.0)
    time.sleep(2.0)
    for rule in rules:
        rule.remove()
    return seen._replace(hits=sum(len(rule.hits) for rule in rules))


def wrong_time(site: Site, offset: float) -> list[Rule]:
    """From now on the time that servers tell is off by so much (seconds)."""

    def change(body: bytes) -> bytes:
        reply = json.loads(body)
        for slot in reply.get("results", []):
            if slot.get("columns") == ["unixepoch('subsec')"]:
                slot["values"] = [[float(value) + offset for value in row] for row in slot["values"]]
        return json.dumps(reply).encode()

    return [proxy.rewrite(change, _asks_time, count=None) for proxy in site.proxies]


def _asks_time(exchange: Exchange) -> bool:
    return b"unixepoch('subsec')" in exchange.body


def _stopped(site: Site, node: Node, how: str) -> Seen:
    leads, since = node is site.leader(), time.monotonic()
    getattr(node, how)()
    election = site.no_leader_for(since) if leads else None
    time.sleep(site.dice.uniform(0.5, 3.0))
    node.restart(wait=False)
    node.wait_ready(LEADER_SECONDS)
    return Seen(1, election=election, since=since)


def _known(node: Node | None) -> Node:
    if node is None:
        raise ServerError("there is no such node")
    return node


def _cluster(site: Site) -> Cluster:
    if site.cluster is None:
        raise ServerError("there are no nodes")
    return site.cluster


FAULTS: dict[str, Act] = {
    "SIGKILL": kill,
    "SIGTERM": terminate,
    "SIGSTOP": pause,
    "quorum lost": quorum,
    "leader steps down": step_down,
    "stale address list": stale_list,
    "server time wrong": server_time,
}
LEADER_ONLY = frozenset(("leader steps down", "server time wrong"))
