"""What a soak drives and the injector breaks: servers, each behind a proxy."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rqfast.devserver import DevServer
from tests.cluster import Cluster, Node, free_port
from tests.proxy import ProxiedCluster, Proxy

REMEMBERED = 200
LEADER_SECONDS = 60.0


@dataclass
class Site:
    """The servers and their proxies.

    Attributes:
        cluster: None: the dev server.
        proxies: one before each server.
        url: of all proxies, and of an address where nothing listens: a list that is out of date.
        real_url: of the servers themselves.
        dice: what is done by chance.
    """

    cluster: Cluster | None
    proxies: list[Proxy]
    url: str
    real_url: str
    dice: random.Random = field(default_factory=random.Random)

    def proxy_of(self, node: Node | None) -> Proxy:
        """The proxy before a node; of the dev server there is one."""
        return self.proxies[0] if self.cluster is None or node is None else self.proxies[self.cluster.nodes.index(node)]

    def leader(self) -> Node | None:
        """The node that leads now, None: there are no nodes."""
        return None if self.cluster is None else self.cluster.wait_leader(LEADER_SECONDS)

    def other(self) -> Node | None:
        """A node that does not lead now, None: there is none."""
        followers = [] if self.cluster is None else self.cluster.followers()
        return self.dice.choice(followers) if followers else None

    @property
    def is_whole(self) -> bool:
        """Whether all nodes run (bool)."""
        return self.cluster is None or all(node.running and not node.paused for node in self.cluster.nodes)

    def no_leader_for(self, since: float) -> float:
        """Wait until a node leads; how long none did (seconds).

        Args:
            since: when the leader was lost (of `time.monotonic`).
        """
        self.leader()
        return time.monotonic() - since

    def heal(self) -> None:
        """All servers run, all proxies pass everything."""
        for proxy in self.proxies:
            proxy.clear()
        if self.cluster is None:
            return
        for node in self.cluster.nodes:
            if node.paused:
                node.resume()
        for node in self.cluster.nodes:
            if not node.running:
                node.restart(wait=False)
        for node in self.cluster.nodes:
            node.wait_ready(LEADER_SECONDS)


@contextmanager
def site(nodes: int, seed: int) -> Iterator[Site]:
    """Start so many rqliteds (0: a dev server) and the proxies."""
    dice = random.Random(seed)
    with ExitStack() as stack:
        if nodes:
            cluster = stack.enter_context(Cluster(nodes))
            proxied = stack.enter_context(ProxiedCluster(cluster, remember=REMEMBERED))
            url = f"{proxied.url},127.0.0.1:{free_port()}"
            yield Site(cluster, proxied.proxies, url, cluster.url, dice)
        else:
            server = stack.enter_context(DevServer())
            proxy = stack.enter_context(Proxy(server.host, server.port, remember=REMEMBERED))
            yield Site(None, [proxy], f"http://{urlsplit(proxy.url).netloc}", server.url, dice)
