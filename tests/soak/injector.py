"""Breaks what a soak drives: a fault of the servers and one of the network in turn, each kind as often as any other."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from rqfast.soak.faults import LOST_REPLY
from tests.cluster import ServerError
from tests.soak import network, nodes
from tests.soak.network import Act, Seen
from tests.soak.site import Site

MISSED = 5
LINE = "\n"


class Deck:
    """Kinds of faults, each drawn as often as any other, in an order that chance makes.

    Args:
        faults: the kinds.
        dice: the chance.
    """

    def __init__(self, faults: Mapping[str, Act], dice: random.Random) -> None:
        self._faults = faults
        self._dice = dice
        self._left: list[str] = []
        self._put_back: set[str] = set()

    def draw(self) -> tuple[str, Act]:
        """The next one."""
        if not self._left:
            self._left = list(self._faults)
            self._dice.shuffle(self._left)
            self._put_back.clear()
        kind = self._left.pop()
        return kind, self._faults[kind]

    def put_back(self, kind: str) -> None:
        """It hit nothing: it comes once more, as the last of this round."""
        if kind not in self._put_back:
            self._put_back.add(kind)
            self._left.insert(0, kind)


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
        self._decks = [self._deck(network.FAULTS)]
        if site.cluster is not None and len(site.cluster.nodes) > 1:
            self._decks.insert(0, self._deck(nodes.FAULTS))
        elif site.cluster is None:
            self._decks.insert(0, self._deck({"server time wrong": nodes.server_time}))

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; all is healed when this returns."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._file.close()

    def _deck(self, faults: Mapping[str, Act]) -> Deck:
        self.made.update(dict.fromkeys(faults, 0))
        return Deck(faults, self._site.dice)

    def _run(self) -> None:
        began = time.monotonic()
        pause = self._every / len(self._decks)
        turn = 0
        try:
            while not self._stop.wait(max(0.0, began + turn * pause - time.monotonic())):
                if time.monotonic() > began + self._seconds:
                    break
                deck = self._decks[turn % len(self._decks)]
                turn += 1
                kind, act = deck.draw()
                if not self._inject(kind, act):
                    deck.put_back(kind)
                if len(self.failed) > MISSED:
                    break
        finally:
            self._heal()

    def _inject(self, kind: str, act: Act) -> bool:
        """One fault: two of three hit the leader of the moment, as does one that finds nothing to hit elsewhere."""
        site = self._site
        if not site.is_whole:
            self._heal()
        self._turns[kind] += 1
        on_leader = site.cluster is None or kind in nodes.LEADER_ONLY or self._turns[kind] % 3 != 0
        return (not on_leader and self._make(kind, act, on_leader=False)) or self._make(kind, act, on_leader=True)

    def _make(self, kind: str, act: Act, *, on_leader: bool) -> bool:
        """Whether it hit anything."""
        site = self._site
        try:
            node = site.leader() if on_leader else site.other()
            asked = time.monotonic()
            seen = act(site, node)
        except (ServerError, OSError) as error:
            self._missed(kind, error)
            self._heal()
            return False
        if not seen.hits:
            return False
        self.made[kind] += 1
        where = "the server" if node is None else f"node {node.node_id}"
        self._write(kind, where, on_leader=on_leader, seen=seen, at=seen.since or asked)
        return True

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
