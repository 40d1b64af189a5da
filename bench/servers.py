"""The servers of a run: rqlited where it is found, else rqfast's own development server, which measures little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.cluster import Cluster, Node, find_rqlited, free_port, run_servers_on, wait_until
from tests.contract.conftest import ClusterDatabase
from tests.devserver import DevDatabase, ask

from .machine import cores

COUNTED = ("executions", "queries", "requests")


class Counters(NamedTuple):
    """What a server has seen so far; `requests` -1 where it does not tell."""

    entries: int
    requests: int
    reads: int


class Server:
    """A cluster (or dev server) as the sides of a comparison need it."""

    def __init__(self, name: str, database: Cluster | DevDatabase, folder: Path) -> None:
        self.name, self.database, self.folder = name, database, folder

    @property
    def url(self) -> str:
        """As `rqfast.connect` takes it: all nodes."""
        return self.database.url

    @property
    def leader_url(self) -> str:
        """Of the node that leads."""
        return self.database.leader().url if isinstance(self.database, Cluster) else self.database.url

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of one read."""
        return self.database.query(sql, *parameters)

    def execute(self, sql: str, *parameters: object) -> None:
        """One write, past rqfast."""
        self.database.execute(sql, *parameters)

    def drop(self, queue: str | None) -> None:
        """Remove the tables of a queue."""
        ClusterDatabase(self.database).drop(queue)

    @staticmethod
    def _leader(cluster: Cluster) -> Node:
        """Asked of /status, which the servers do not count."""
        return next(node for node in cluster.nodes if node.raft()["state"] == "Leader")

    def snapshot(self) -> None:
        """Let the leader make one now; it may refuse when nothing is new."""
        if isinstance(self.database, Cluster):
            self.database.leader().request("POST", "/snapshot")

    def counters(self) -> Counters:
        """Of the leader: Raft entries, requests, and those of them that were plain reads."""
        if isinstance(self.database, DevDatabase):
            return Counters(self.database.raft_entries(), -1, -1)
        leader = self._leader(self.database)
        entries = int(leader.raft()["last_log_index"])
        body = leader.request("GET", "/debug/vars")[1]
        http = json.loads(body)["http"]
        return Counters(entries, sum(int(http[name]) for name in COUNTED), int(http["queries"]))


@contextmanager
def running(nodes: int, args: Sequence[str] = ()) -> Iterator[Server]:
    """A server of so many nodes with nothing in it, on the servers' core."""
    if find_rqlited() is None:
        with _dev_server() as server:
            yield server
        return
    pins = cores()
    if pins is not None:
        # Go then runs as many threads at a time as there are cores in the set, as it would on a machine of that size.
        run_servers_on(pins[0])
    with Cluster(nodes, args=args) as cluster:
        name = "1 node" if nodes == 1 else f"{nodes} nodes"
        yield Server(name, cluster, cluster.nodes[0].folder)


@contextmanager
def _dev_server() -> Iterator[Server]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="rqfast-bench-") as folder:
        command = [sys.executable, "-m", "rqfast.cli", "dev", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--file", str(Path(folder) / "queue.db")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            pins = cores()
            if pins is not None:
                os.sched_setaffinity(process.pid, pins[0])
            url = f"http://127.0.0.1:{port}"
            wait_until("the dev server to answer", lambda: _answers(url, process))
            yield Server("dev server", DevDatabase(_Address(url)), Path(folder))  # type: ignore[arg-type]
        finally:
            process.terminate()
            process.wait(timeout=20)


class _Address:
    """What `DevDatabase` wants to know of a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname, parts.port


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the dev server ended before it answered"
    parts = urlsplit(url)
    try:
        return ask(str(parts.hostname), int(parts.port or 0), "GET", "/readyz").status == 200
    except OSError:
        return False
