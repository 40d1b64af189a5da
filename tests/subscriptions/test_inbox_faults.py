"""Requests on the user's own table that the network loses: each takes effect once, and its answer is the right one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rqfast.worker.outcomes import Ack, Retry
from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase
from tests.proxy import Exchange, ProxiedCluster, Proxy, Rule, is_write
from tests.subscriptions.table import Table, nothing, soon, take

pytestmark = pytest.mark.cluster


@pytest.fixture(params=["one_node", "three_nodes"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The session's servers."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxied(cluster: Cluster) -> Iterator[ProxiedCluster]:
    """The same behind proxies."""
    with ProxiedCluster(cluster) as made:
        yield made
        made.clear()
        made.up()


@pytest.fixture
def table(cluster: Cluster) -> Iterator[Table]:
    """A table, seen past the proxies."""
    made = Table("one node", ClusterDatabase(cluster))
    made.make()
    yield made
    made.close()


def lose(proxy: Proxy, how: str, nth: int, count: int = 1) -> Rule:
    """Lose a write, and the nth only."""

    def on_table(exchange: Exchange) -> bool:
        return is_write(exchange) and exchange.path.startswith("/db/execute")

    if how == "not delivered":
        return proxy.cut_before(on_table, skip=nth, count=count)
    if how == "reply lost":
        return proxy.cut_after(on_table, skip=nth, count=count)
    return proxy.cut_half(on_table, skip=nth, count=count)


@pytest.mark.parametrize("how", ["not delivered", "reply lost", "half a reply"])
def test_each_request_lost_in_turn(table: Table, proxied: ProxiedCluster, how: str) -> None:
    async def once(nth: int) -> int:
        box = table.box()
        async with table.feed(box.groups(["a", "b"]), url=proxied.url) as feed:
            await feed.check()
            await soon(feed._transport.stats(), "the opening")
            rule = lose(proxied.leader_proxy(), how, nth)
            await soon(feed._transport.publish_to(box.group("a"), 1), "the first publish")
            await soon(feed._transport.publish_to(box.group("a"), 2), "the second publish")
            await soon(feed._transport.publish_to(box.group("b"), 3), "the third publish")
            rows = await take(feed, 2)
            assert [(row.raw, row.attempts) for row in rows] == [("1", 1), ("3", 1)]
            a, b = rows
            settled = asyncio.gather(feed.settle(a, Ack(publish=[("g", 7)])), feed.settle(b, Retry()))
            await soon(settled, "an ack that publishes, and a retry")
            rows = await take(feed, 2)
            assert sorted((row.raw, row.attempts) for row in rows) == [("2", 1), ("3", 2)]
            assert await soon(feed.extend(rows, 60.0), "an extension") == []
            acks = [feed.settle(row, Ack()) for row in rows]
            assert await soon(feed.claim_next(2), "the claim beside the last acks") == []
            await soon(asyncio.gather(*acks), "the last acks")
            rule.remove()
            await nothing(feed)
            assert table.rows() == []
            lease = await soon(feed._transport.claim(), "the claim of what was published with the ack")
            assert lease is not None
            await soon(feed._transport.ack(lease), "its ack")
            assert (await feed._transport.stats()).messages == 0
            return len(rule.hits)

    for nth in range(14):
        if not asyncio.run(once(nth)):
            assert nth >= 7
            return
    raise AssertionError("more than 14 requests")
