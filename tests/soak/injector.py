"""Breaks what a soak drives: a fault of the servers and one of the network in turn, each kind as often as any other."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from rqfast.soak.faults import LOST_REPLY
from tests.cluster import ServerError
from tests.soak import network, nodes
from tests.soak.network import Act, Seen
from tests.soak.site import Site

MISSED = 5
LINE = "\n"


class Injector:
    """A thread that breaks things until it is told to stop.

    Args:
        site: what is broken.
        path: the file for what was done, as `rqfast soak --faults` reads it.
        every: seconds between two faults of a kind of place, servers or network.
        seconds: for how long.

    Attributes:
        made: how often each kind of fault was made.
        failed: why a fault could not be made or healed, in words (list of str).
    """

    def __init__(self, site: Site, path: Path, every: float, seconds: float) -> None:
        self.made: Counter[str] = Counter()
        self.failed: list[str] = []
        self._site = site
        self._every = every
        self._seconds = seconds
        self._file: IO[str] = path.open("w", encoding="utf-8")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="injector")
        self._turns: Counter[str] = Counter()
        self._lanes = [self._deck(network.FAULTS)]
        if site.cluster is not None and len(site.cluster.nodes) > 1:
            self._lanes.insert(0, self._deck(nodes.FAULTS))
        elif site.cluster is None:
            self._lanes.insert(0, self._deck({"server time wrong": nodes.server_time}))

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; all is healed when this returns."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._file.close()

    def _deck(self, faults: Mapping[str, Act]) -> Iterator[tuple[str, Act]]:
        self.made.update(dict.fromkeys(faults, 0))
        return self._turn_over(faults)

    def _turn_over(self, faults: Mapping[str, Act]) -> Iterator[tuple[str, Act]]:
        while True:
            names = list(faults)
            self._site.dice.shuffle(names)
            yield from ((name, faults[name]) for name in names)

    def _run(self) -> None:
        began = time.monotonic()
        pause = self._every / len(self._lanes)
        turn = 0
        try:
            while not self._stop.wait(max(0.0, began + turn * pause - time.monotonic())):
                if time.monotonic() > began + self._seconds:
                    break
                kind, act = next(self._lanes[turn % len(self._lanes)])
                turn += 1
                self._inject(kind, act)
                if len(self.failed) > MISSED:
                    break
        finally:
            self._heal()

    def _inject(self, kind: str, act: Act) -> None:
        """One fault: two of three hit the leader of the moment."""
        site = self._site
        if not site.is_whole:
            self._heal()
        self._turns[kind] += 1
        try:
            on_leader = site.cluster is None or kind in nodes.LEADER_ONLY or self._turns[kind] % 3 != 0
            node = site.leader() if on_leader else site.other()
            asked = time.monotonic()
            seen = act(site, node)
        except (ServerError, OSError) as error:
            self._missed(kind, error)
            self._heal()
            return
        if not seen.hits:
            self._turns[kind] -= 1
            return
        self.made[kind] += 1
        where = "the server" if node is None else f"node {node.node_id}"
        self._write(kind, where, on_leader=on_leader, seen=seen, at=seen.since or asked)

    def _write(self, kind: str, where: str, *, on_leader: bool, seen: Seen, at: float) -> None:
        line = {"time": at, "kind": kind, "node": where, "leader": on_leader, "hits": seen.hits}
        if seen.election is not None:
            line["election"] = round(seen.election, 3)
        lines = [line]
        for applied, count in ((True, seen.applied), (False, seen.not_applied)):
            if count:
                lines.append(
                    {"time": at, "kind": LOST_REPLY, "node": where, "applied": applied, "count": count, "by": kind}
                )
        self._file.write("".join(f"{json.dumps(one)}\n" for one in lines))
        self._file.flush()

    def _heal(self) -> None:
        try:
            self._site.heal()
        except (ServerError, OSError) as error:
            self._missed("healing", error)

    def _missed(self, what: str, error: Exception) -> None:
        self.failed.append(f"{what}: {str(error).partition(LINE)[0]}")
