"""The dev server as tests look into it: past rqfast, by HTTP.  Standard library only."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rqfast.devserver import DevServer

JSON = {"Content-Type": "application/json"}


class Reply(NamedTuple):
    """One reply of a server."""

    status: int
    content_type: str | None
    body: str
    headers: Mapping[str, str]


def ask(
    host: str, port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = JSON
) -> Reply:
    """One request on a connection of its own."""
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=30)) as connection:
        connection.request(method, path, body, dict(headers))
        reply = connection.getresponse()
        return Reply(reply.status, reply.getheader("Content-Type"), reply.read().decode(), dict(reply.getheaders()))


class DevDatabase:
    """The database of a running dev server, asked in the words of `tests.cluster.Cluster`."""

    def __init__(self, server: DevServer) -> None:
        self.server = server
        self.url = server.url

    def ask(self, method: str, path: str, statements: object = None) -> Reply:
        """One request; `statements` become its JSON body."""
        body = None if statements is None else json.dumps(statements).encode()
        return ask(self.server.host, self.server.port, method, path, body)

    def query(self, sql: str, *params: object, level: str = "linearizable") -> list[tuple[Any, ...]]:
        """Rows of one read; adds no entry."""
        slot = self._call(f"/db/query?level={level}", [[sql, *params]])[0]
        return [tuple(row) for row in slot.get("values", [])]

    def execute(self, sql: str, *params: object) -> dict[str, Any]:
        """Write one statement; its slot of the reply."""
        return self.execute_many([[sql, *params]])[0]

    def execute_many(self, statements: Sequence[Sequence[object]]) -> list[dict[str, Any]]:
        """Write statements in one transaction."""
        return self._call("/db/execute?transaction", statements)

    def raft_entries(self) -> int:
        """Entries so far: a difference of two counts what was written in between."""
        return int(json.loads(self.ask("GET", "/status").body)["store"]["raft"]["last_log_index"])

    def _call(self, path: str, statements: Sequence[Sequence[object]]) -> list[dict[str, Any]]:
        reply = self.ask("POST", path, statements)
        found: dict[str, Any] = json.loads(reply.body) if reply.status == 200 else {"error": str(reply)}
        slots: list[dict[str, Any]] = found.get("results", [])
        bad = [slot["error"] for slot in [*slots, found] if "error" in slot]
        assert not bad, f"{bad[0]} for {statements!r:.500}"
        return slots


class DevCluster(DevDatabase):
    """The same as if it were a cluster of one node, which always leads."""

    @property
    def nodes(self) -> list[DevNode]:
        """Its one node."""
        return [DevNode(self.server.port)]

    def leader(self) -> DevNode:
        """Its one node."""
        return self.nodes[0]


class DevNode(NamedTuple):
    """A dev server as a node."""

    http_port: int
