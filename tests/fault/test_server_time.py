"""The time that a server tells is off, and another one leads: no lease ends early or lives on, no delay is cut short.

Clients whose own wall clocks are off are in tests/contract/test_time.py; here they are so under load, over elections.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from rqfast.devserver import DevServer
from tests.cluster import wait_until
from tests.contract.conftest import ClusterDatabase
from tests.contract.views import QueueUnderTest, View, queue_name
from tests.devserver import DevDatabase
from tests.fault.conftest import FaultyQueue
from tests.fault.recorded import HOUR, Crew
from tests.proxy import Change, Exchange

MINUTE = 61.0  # by up to 60 s the time may be moved, see `rqfast.engine.time.JUMP`
SHORT = 1.5
LATE = 20.0  # what a busy machine may add; far from a minute


def tells_the_time(exchange: Exchange) -> bool:
    return b"unixepoch" in exchange.body


def off_by(seconds: float) -> Change:
    """Change what a server says that its clock shows."""

    def change(body: bytes) -> bytes:
        reply = json.loads(body)
        wall = reply["results"][1]["values"][0]
        assert abs(wall[0] - time.time()) < MINUTE
        wall[0] += seconds
        return json.dumps(reply).encode()

    return change


class Held:
    """A lease and a message that must stay where they are for more than a minute, whatever servers say."""

    def __init__(self, view: View) -> None:
        self.view = view
        view.publish("held", "held")
        lease = view.claim("holder", 90)
        assert lease is not None and lease.group_id == "held"
        self.lease = lease
        view.publish("delayed", "delayed", delay=90)

    def check(self, *views: View) -> None:
        """Of all these clients, some of which have come after a server's time changed: short leases and short delays
        end when they should, the long ones do not."""
        begun: dict[str, float] = {}
        for n, view in enumerate(views):
            begun[f"lease {n}"] = time.monotonic()
            view.publish(f"lease {n}", n)
            lease = view.claim("crashes", SHORT)
            assert lease is not None and lease.group_id == f"lease {n}"
            begun[f"delay {n}"] = time.monotonic()
            view.publish(f"delay {n}", n, delay=SHORT)
        for turn in range(len(begun)):
            view = views[turn % len(views)]
            lease = view.claim("next", 60, wait=LATE)
            assert lease is not None, f"waited {LATE:g} s for one of {list(begun)}"
            assert lease.group_id in begun, f"{lease.group_id} came too early"
            lasted = time.monotonic() - begun.pop(lease.group_id)
            assert lasted > SHORT - 0.05, f"{lease.group_id} ended after {lasted:.3f} s"
            view.ack(lease)
        assert views[0].claim("thief", 60) is None
        assert self.lease.remaining() > 0

    def settle(self) -> None:
        """The lease is its holder's still."""
        self.view.extend(self.lease, 90)
        self.view.ack(self.lease)


class Moving:
    """Somebody moves the queue's time, as where there is work; a context manager."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._moves = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._move, daemon=True)

    def wait(self) -> None:
        """Wait until it was moved once more than now, by a call that began later."""
        seen = self._moves
        wait_until("somebody to move the queue's time", lambda: self._moves > seen + 1, 30)

    def _move(self) -> None:
        while not self._over.wait(0.05):
            self._view.publish("moving", 1, delay=HOUR)
            self._moves += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)


def check_each(open_view: Callable[[], View], steps: list[Callable[[], Any]]) -> None:
    """Do each step to the servers; before and after, old and new clients see the right time."""
    held = Held(open_view())
    with Moving(open_view()) as moving:
        old = open_view()
        held.check(old)
        for step in steps:
            step()
            moving.wait()
            held.check(open_view(), old)
    held.settle()


def tell(q: FaultyQueue, seconds: float) -> Callable[[], None]:
    """A step: all servers say that it is so much later."""

    def step() -> None:
        q.proxied.clear()
        for proxy in q.proxied.proxies:
            proxy.rewrite(off_by(seconds), tells_the_time, count=None)

    return step


@pytest.mark.cluster
def test_the_time_of_a_server_is_off(one: FaultyQueue, caplog: pytest.LogCaptureFixture) -> None:
    """Under a queue whose time others move."""
    with caplog.at_level(logging.WARNING, logger="rqfast"):
        check_each(lambda: one.open(timeout=30), [tell(one, off) for off in (MINUTE, HOUR, -HOUR)])
    told = [record.getMessage() for record in caplog.records if "ahead of the queue's time" in record.getMessage()]
    assert len(told) == 2 and one.proxied.proxies[0].url in told[0], told


@pytest.mark.cluster
def test_a_client_that_comes_when_nobody_could_write_counts_like_the_others(one: FaultyQueue) -> None:
    """As after an election: t stood still, the others counted on, and the server's clock is behind."""
    old = one.open(timeout=30)
    Held(old)
    old.publish("g", 1)
    time.sleep(2 * SHORT)
    tell(one, -HOUR)()

    def new_claims() -> float:
        lease = one.open(timeout=30).claim("new", SHORT)
        assert lease is not None and lease.group_id == "g"
        return time.monotonic()

    with ThreadPoolExecutor(1) as pool:
        claimed = pool.submit(new_claims)
        one.proxy.wait_for(lambda: one.proxy.rules[0].hits != [], "a client to ask for the time")
        with Moving(old):
            begun = claimed.result(30)
            lease = old.claim("next", 60, wait=LATE)
    assert lease is not None and lease.group_id == "g"
    lasted = time.monotonic() - begun
    assert lasted > SHORT / 2, f"the lease ended after {lasted:.3f} s"


@pytest.mark.cluster
@pytest.mark.timeout(180)
@pytest.mark.parametrize("offs", [(0.0, MINUTE, HOUR), (HOUR, 0.0, -HOUR)], ids=["ahead", "behind"])
def test_the_next_leader_tells_another_time(mortal: FaultyQueue, offs: tuple[float, ...]) -> None:
    def another_leads(off: float) -> Callable[[], None]:
        def step() -> None:
            leader = mortal.cluster.leader()
            leader.kill()
            tell(mortal, off)()
            mortal.cluster.wait_leader()
            leader.restart()

        return step

    tell(mortal, offs[0])()
    check_each(lambda: mortal.open(timeout=30), [another_leads(off) for off in offs[1:]])


def test_the_dev_server_comes_back_with_another_time(tmp_path: Path) -> None:
    """`--clock-skew`, on the same file and port."""
    servers = [DevServer(tmp_path / "q.db").__enter__()]
    q = QueueUnderTest("dev server", "async", ClusterDatabase(DevDatabase(servers[0])), queue_name())

    def again(off: float) -> Callable[[], None]:
        def step() -> None:
            last = servers[-1]
            last.__exit__(None, None, None)
            servers.append(DevServer(tmp_path / "q.db", last.port, clock_skew=off).__enter__())

        return step

    try:
        check_each(lambda: q.open(timeout=30), [again(off) for off in (MINUTE, HOUR, -HOUR)])
        q.close()
    finally:
        servers[-1].__exit__(None, None, None)


# -- under load ------------------------------------------------------------------------------------------------


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_all_clocks_are_wrong_under_load(mortal: FaultyQueue, crew: Crew) -> None:
    """Those of clients, an hour apart and stepped again and again, and those of servers; and the leader dies."""
    crew.start_processes(mortal.address._replace(options={**mortal.options, "timeout": 30}), (HOUR, -HOUR, MINUTE))
    crew.wait_done(30)
    for off in (HOUR, -HOUR):
        tell(mortal, off)()
        leader = mortal.cluster.leader()
        leader.kill()
        mortal.cluster.wait_leader()
        late = mortal.open(timeout=30)
        late.publish("late", 1, delay=90)
        crew.wait_done(30)
        leader.restart()
    assert late.purge("late") == 2, "none of them came"
    crew.finish(mortal.open(timeout=30))
    assert crew.unsure() == []
