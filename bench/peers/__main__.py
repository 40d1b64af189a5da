"""`python -m bench.peers [--rounds N] [--quick] [--json FILE] [--only NAME]`: measures all, and prints a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sqlite3
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.cluster import Cluster, find_rqlited

from . import huey, litequeue, persist_queue, procrastinate, rqfast, rqlite_clients
from .peer import Missing, Peer
from .pinning import cores, pin_process
from .postgres import Postgres
from .rounds import Work, in_64, one_by_one, run

PEERS: tuple[type[Peer], ...] = (
    rqfast.Embedded,
    rqfast.EmbeddedApart,
    litequeue.LiteQueue,
    huey.Huey,
    persist_queue.AckQueue,
    persist_queue.CommitQueue,
    procrastinate.Procrastinate,
    rqfast.OnRqlited,
    rqlite_clients.Rqdb,
    rqlite_clients.Pyrqlite,
)
console = Console(width=150)


@dataclass
class Result:
    """One peer at one kind of work."""

    peer: str
    version: str
    what: str
    durable: str
    cannot: str
    rounds: list[float] = field(default_factory=list)

    @property
    def where(self) -> str:
        """What it may be compared with."""
        return self.durable if self.durable.startswith("SQLite") else "servers"

    @property
    def per_second(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    def as_json(self) -> dict[str, object]:
        """What docs/benchmarks.md is made of."""
        spread = [round(min(self.rounds)), round(max(self.rounds))]
        return {**asdict(self), "per_second": round(self.per_second), "spread": spread}


class Bench:
    """The servers that are there, and what was measured so far."""

    def __init__(self, servers: dict[str, tuple[str, str]]) -> None:
        self._servers = servers
        self._missing: set[type[Peer]] = set()
        self.results: dict[tuple[str, str, str], Result] = {}

    def round(self, work: Work, peers: tuple[type[Peer], ...]) -> None:
        """All peers in turn."""
        for peer in peers:
            if peer in self._missing or (peer.needs and work.synchronous != "FULL"):
                continue
            try:
                self._measure(peer, work)
            except Missing as missing:
                self._missing.add(peer)
                console.print(f"{peer.name}: skipped, {missing}")

    def _measure(self, peer: type[Peer], work: Work) -> None:
        version = peer.version()
        if peer.needs and peer.needs not in self._servers:
            raise Missing(f"no {peer.needs}")
        address, server_version = self._servers.get(peer.needs, ("", ""))
        for what, rate in run(peer, work, address).items():
            durable = peer.durable(work.synchronous)
            cannot = peer.cannot
            key = (what, durable, peer.name)
            if key not in self.results:
                full = f"{version}, {peer.needs} {server_version}" if server_version else version
                self.results[key] = Result(peer.name, full, what, durable, cannot)
            self.results[key].rounds.append(rate)


def start_servers(stack: ExitStack, pinned: tuple[int, int] | None) -> dict[str, tuple[str, str]]:
    """Address and version of each that can be had, by name."""
    servers = {}
    if find_rqlited() is not None:
        node = stack.enter_context(Cluster(1)).nodes[0]
        status = json.loads(node.request("GET", "/status")[1])
        servers["rqlited"] = (node.url, status["build"]["version"])
        if pinned is not None and node.pid is not None:
            pin_process(node.pid, pinned[0])
    try:
        postgres = stack.enter_context(Postgres())
        servers["postgres"] = (postgres.address, postgres.version)
        if pinned is not None:
            pin_process(postgres.pid, pinned[0])
    except Missing as missing:
        console.print(str(missing))
    return servers


def show(results: list[Result]) -> None:
    """A table for each kind of work and durability, the fastest first; then what each cannot do."""
    for what, where in dict.fromkeys((result.what, result.where) for result in results):
        table = Table("queue", "a second", "least to most", title=f"{what}; {where}", title_justify="left")
        rows = [result for result in results if (result.what, result.where) == (what, where)]
        for result in sorted(rows, key=lambda result: -result.per_second):
            spread = f"{min(result.rounds):,.0f} to {max(result.rounds):,.0f}"
            table.add_row(f"{result.peer} {result.version}", f"{result.per_second:,.0f}", spread)
        console.print(table)
    for peer, cannot in dict.fromkeys((result.peer, result.cannot) for result in results if result.cannot):
        console.print(f"{peer}: {cannot}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a quarter of the messages")
    parser.add_argument("--only", default="", help="peers whose name contains this, and rqfast")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    share = 4 if arguments.quick else 1
    works = (one_by_one("FULL", 1600 // share), one_by_one("NORMAL", 4000 // share), in_64(25_600 // share))
    peers = tuple(peer for peer in PEERS if arguments.only in peer.name or peer.name.startswith("rqfast"))
    pinned = cores()
    # Ended by a time-out, it still stops its servers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with ExitStack() as stack:
        servers = start_servers(stack, pinned)
        if pinned is not None:
            os.sched_setaffinity(0, {pinned[1]})
        bench = Bench(servers)
        for _ in range(arguments.rounds):
            for work in works:
                bench.round(work, peers)
    results = list(bench.results.values())
    console.print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    show(results)
    if arguments.json:
        arguments.json.write_text(json.dumps([result.as_json() for result in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
