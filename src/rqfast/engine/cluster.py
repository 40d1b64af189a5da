"""The nodes of a cluster and which of them leads, as far as this client knows.  No I/O."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import orjson


class Cluster:
    """What was learned of the nodes.

    Args:
        seeds: the addresses of the user, without credentials.
        discover: False: just these addresses are used (a load balancer, a tunnel), and the nodes forward.
    """

    def __init__(self, seeds: list[str], discover: bool) -> None:
        self.seeds = seeds
        self.discover = discover
        self.leader: str | None = None
        self.forwards: bool = not discover
        self._known = list(seeds)
        self._unroutable: set[str] = set()
        # The addresses that nodes told, by their ids.
        self._told: dict[str, str] = {}
        self._turn = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """All addresses that may be asked, those of the user first."""
        return tuple(self._known)

    def learn(self, body: bytes, suspect: str | None = None) -> str | None:
        """Take in a reply of /nodes; returns the leader it names, unless that is the suspect."""
        leader = None
        for name, advertised, leads, reachable in _listed(body):
            address = self.address(advertised)
            if address is not None:
                self._told[name] = address
                if address not in self._known and address not in self._unroutable:
                    self._known.append(address)
            if leads and (reachable or not advertised):
                # One that did not tell its address in the time that it was given is where it was, if anybody is there.
                leader = address or self._where_it_was(name)
        if leader is None or leader == suspect:
            return None
        return self._lead(leader)

    def _where_it_was(self, name: str) -> str | None:
        told = self._told.get(name)
        return None if told in self._unroutable else told

    @property
    def knows_all(self) -> bool:
        """Whether the nodes told their addresses before."""
        return bool(self._told)

    def redirected(self, location: str) -> None:
        """A node pointed to the leader.

        Only to one that the user named or a node listed: whoever else it is, credentials are not sent there, and the
        nodes are asked who leads.
        """
        address = self.address(location)
        if self.discover and (address in self._known or address in self._unroutable):
            assert address is not None
            self._lead(address)

    def forward_by(self, node: str) -> None:
        """No node may be asked who leads, and this one points to a stranger: it is to forward."""
        self.forwards = True
        self.leader = node

    def unreachable(self, node: str) -> None:
        """No connection could be made to the node.  If others still call it the leader, they must forward."""
        if node not in self.seeds:
            self._unroutable.add(node)
            if node in self._known:
                self._known.remove(node)
        self.lost(node)

    def lost(self, node: str) -> None:
        """The node does not lead, or does not answer."""
        if self.leader == node:
            self.leader = None

    def next_seed(self) -> str:
        """Where the user's addresses are all there is: one after the other."""
        self._turn += 1
        return self.seeds[self._turn % len(self.seeds)]

    def answered(self, node: str) -> None:
        """A forwarding node answered: stay with it."""
        if self.forwards:
            self.leader = node

    def _lead(self, address: str) -> str:
        self.forwards = address in self._unroutable
        if not self.forwards:
            self._unroutable.clear()
        self.leader = self.next_seed() if self.forwards else address
        if not self.forwards and address not in self._known:
            self._known.append(address)
        return self.leader

    def address(self, advertised: str) -> str | None:
        """Scheme, host and port of an advertised address (str); None: it is no such address.

        Where the user said https, credentials never go over http.
        """
        try:
            parts = urlsplit(advertised)
            scheme, host = parts.scheme, parts.netloc.rpartition("@")[2].lower()
            usable = scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            return None
        if not usable or any(letter.isspace() or not letter.isprintable() for letter in host):
            return None
        return f"{'https' if self.seeds[0].startswith('https:') else scheme}://{host}"


def _listed(body: bytes) -> list[tuple[str, str, bool, bool]]:
    """Of each node in a reply of /nodes: id, address ("": not told), whether it leads, whether it answers."""
    try:
        return [
            (
                str(node.get("id") or node.get("api_addr")),
                str(node.get("api_addr") or ""),
                bool(node.get("leader")),
                node.get("reachable", True),
            )
            for node in orjson.loads(body)["nodes"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def parse_url(url: str) -> tuple[list[str], tuple[str, str] | None]:
    """Part `http(s)://user:pass@host:port,host:port` (or rqlite(s)://) into node addresses and credentials.

    Raises ValueError with a text that shows no password.
    """
    scheme, separator, rest = url.partition("://")
    scheme = {"rqlite": "http", "rqlites": "https"}.get(scheme.lower(), scheme.lower())
    if not separator or scheme not in ("http", "https"):
        raise ValueError("the URL begins with http://, https://, rqlite:// or rqlites://")
    userinfo, at, hosts = rest.rpartition("@")
    hosts, _, path = hosts.partition("/")
    if path or "?" in hosts or "#" in hosts:
        raise ValueError("the URL has host and port, and nothing after them")
    seeds = [_host(scheme, host) for host in hosts.split(",")]
    auth = None
    if at:
        user, _, password = userinfo.partition(":")
        auth = (unquote(user), unquote(password))
    return list(dict.fromkeys(seeds)), auth


def _host(scheme: str, host: str) -> str:
    name, port = _name_and_port(scheme, host.strip())
    if not name:
        raise ValueError("a host has no name or no valid port (is the @ after user and password missing?)")
    if ":" in name:
        name = f"[{name}]"
    return f"{scheme}://{name}:{port or 4001}"


def _name_and_port(scheme: str, host: str) -> tuple[str, int | None]:
    """The name is empty where there is none.  What urllib raises ends here: it shows what may be a password."""
    try:
        parts = urlsplit(f"{scheme}://{host}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    return ("", None) if any(c.isspace() for c in host) else (name, port)
