"""Faults of the network between clients and servers, made in the proxy before one server."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.cluster import Node
from tests.proxy import Exchange, Match, Proxy, ProxyError, Rule, is_write
from tests.soak.site import Site

MANY = 10
WAIT_SECONDS = 3.0
NOT_LEADER = b"leader not found"
AMBIGUOUS = b"leadership lost while committing log"


class Seen(NamedTuple):
    """What a fault has hit.

    Attributes:
        hits: requests or connections.
        applied: of lost replies, those of requests that the server had applied.
        not_applied: those of requests that it had not.
        election: how long the cluster had no leader (seconds), None: it had one.
        since: when the fault began (of `time.monotonic`), None: when it was asked for.
    """

    hits: int
    applied: int = 0
    not_applied: int = 0
    election: float | None = None
    since: float | None = None


Act = Callable[[Site, Node | None], Seen]


def is_applied(exchange: Exchange) -> bool:
    """Whether the server has applied a request, as its answer said that the client did not get.

    A second copy of a request that was applied is refused by one of its statements: it changes nothing.
    """
    if not exchange.delivered or exchange.status != 200:
        return False
    try:
        reply = json.loads(exchange.reply)
        return not reply.get("error") and not any("error" in result for result in reply.get("results", ()))
    except (ValueError, AttributeError, TypeError):
        return False


def lost(rule: Rule, proxy: Proxy, seconds: float = WAIT_SECONDS, count: int = MANY) -> Seen:
    """Wait until the rule has hit so many requests, or the time is over; of whose replies none came."""
    wait_hits(rule, proxy, seconds, count)
    hits = list(rule.hits)
    writes = [exchange for exchange in hits if is_write(exchange)]
    applied = sum(map(is_applied, writes))
    return Seen(len(hits), applied, sum(not exchange.delivered for exchange in writes))


def wait_hits(rule: Rule, proxy: Proxy, seconds: float, count: int) -> None:
    """Wait until the rule has hit so many, or the time is over; it is removed then."""
    with contextlib.suppress(ProxyError):
        proxy.wait_for(lambda: len(rule.hits) >= count, "hits", seconds)
    rule.remove()


def matching(site: Site, node: Node | None) -> Match:
    """Before the leader writes are hit; before others, where no writes go, all there is."""
    return is_write if node is site.leader() else _any


def cut_after(site: Site, node: Node | None) -> Seen:
    """The server has the request, the client gets no reply."""
    proxy = site.proxy_of(node)
    return lost(proxy.cut_after(matching(site, node), count=MANY), proxy)


def cut_before(site: Site, node: Node | None) -> Seen:
    """The server never sees the request."""
    proxy = site.proxy_of(node)
    return lost(proxy.cut_before(matching(site, node), count=MANY), proxy)


def cut_half(site: Site, node: Node | None) -> Seen:
    """The client gets half of the reply."""
    proxy = site.proxy_of(node)
    return lost(proxy.cut_half(matching(site, node), count=MANY), proxy)


def late(site: Site, node: Node | None) -> Seen:
    """The client sees a cut connection, and the server gets the request some seconds later: a second copy, mostly."""
    proxy = site.proxy_of(node)
    rule = proxy.hold_request(matching(site, node), count=3)
    wait_hits(rule, proxy, WAIT_SECONDS, 3)
    time.sleep(site.dice.uniform(0.2, 2.0))
    if rule.hits:
        with contextlib.suppress(OSError, EOFError):
            rule.deliver()
    # Whichever copy comes first is applied, so it is not said of these whether they were.
    return Seen(len(rule.hits))


def delays(site: Site, node: Node | None) -> Seen:
    """Requests come late, replies as well."""
    proxy, match = site.proxy_of(node), matching(site, node)
    requests = proxy.delay(site.dice.uniform(0.1, 0.8), match, count=2 * MANY)
    replies = proxy.delay(site.dice.uniform(0.1, 0.8), match, reply=True, count=2 * MANY)
    wait_hits(requests, proxy, WAIT_SECONDS, 2 * MANY)
    wait_hits(replies, proxy, WAIT_SECONDS, 2 * MANY)
    return Seen(len(requests.hits) + len(replies.hits))


def stall(site: Site, node: Node | None) -> Seen:
    """No answer, the connection stays open; in the end it is cut."""
    proxy = site.proxy_of(node)
    seconds = site.dice.choice((2.0, 4.0, 9.0))
    rule = proxy.stall(matching(site, node), delivered=site.dice.random() < 0.5, count=3)
    wait_hits(rule, proxy, WAIT_SECONDS, 3)
    if rule.hits:
        time.sleep(seconds)
    rule.release()
    writes = [exchange for exchange in rule.hits if is_write(exchange)]
    return Seen(len(rule.hits), sum(map(is_applied, writes)), sum(not exchange.delivered for exchange in writes))


def close_idle(site: Site, node: Node | None) -> Seen:
    """Connections that have no request in them are closed, again and again."""
    proxy = site.proxy_of(node)
    closed = 0
    for _ in range(MANY):
        closed += proxy.close_idle()
        time.sleep(0.05)
    return Seen(closed)


def answer_500(site: Site, node: Node | None) -> Seen:
    """500 in the server's place; with a text that may mean that the request was applied, it sometimes was."""
    proxy = site.proxy_of(node)
    delivered = site.dice.random() < 0.5
    body = AMBIGUOUS if delivered else site.dice.choice((AMBIGUOUS, NOT_LEADER, b"no"))
    return lost(proxy.answer(500, body, matching(site, node), delivered=delivered, count=MANY), proxy)


def answer_503(site: Site, node: Node | None) -> Seen:
    """503 in the server's place."""
    proxy = site.proxy_of(node)
    return lost(proxy.answer(503, NOT_LEADER, matching(site, node), count=MANY), proxy)


def answer_301(site: Site, node: Node | None) -> Seen:
    """Another server is said to lead: one of the others, or one that is not there."""
    proxy = site.proxy_of(node)
    others = [one.url for one in site.proxies if one is not proxy] + ["http://127.0.0.1:1"]
    location = f"{site.dice.choice(others)}/db/execute"
    rule = proxy.answer(301, b"", matching(site, node), headers=[("Location", location)], count=MANY)
    wait_hits(rule, proxy, WAIT_SECONDS, MANY)
    return Seen(len(rule.hits))


def garbage(site: Site, node: Node | None) -> Seen:
    """What is no reply of rqlite, with status 200; the server has the request or not."""
    proxy = site.proxy_of(node)
    body = site.dice.choice(
        (b"", b"\x00\xff\xfe", b"<html>Hello</html>", b'{"results":[{"rows', b'{"results":17}', b"[]")
    )
    delivered = site.dice.random() < 0.5
    return lost(proxy.answer(200, body, matching(site, node), delivered=delivered, count=MANY), proxy)


def _any(exchange: Exchange) -> bool:
    return True


FAULTS: dict[str, Act] = {
    "reply cut": cut_after,
    "request cut": cut_before,
    "reply cut half-way": cut_half,
    "request delivered late": late,
    "delays": delays,
    "stall": stall,
    "idle connections closed": close_idle,
    "answer 500": answer_500,
    "answer 503": answer_503,
    "answer 301": answer_301,
    "garbage": garbage,
}
