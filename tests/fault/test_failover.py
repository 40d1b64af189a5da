"""Nodes that die, hang and come back: no confirmed publish lost, none twice, order kept, no lease stuck."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

import pytest

import rqfast
from tests.cluster import Cluster, Node, wait_until
from tests.fault.calls import EACH, GROUP, Call, rows, take
from tests.fault.conftest import FaultyQueue, faulty_queue, mend
from tests.fault.load import Load
from tests.proxy import Exchange, Fault

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture(params=["sync", "async"])
def q(request: pytest.FixtureRequest, mortal_nodes: Cluster) -> Iterator[FaultyQueue]:
    """A queue on three nodes, which are all up again afterwards."""
    mend(mortal_nodes)
    with faulty_queue("three nodes", request.param, mortal_nodes) as q:
        yield q
        mend(mortal_nodes)


def in_thread(step: Callable[[], Any]) -> Future[Any]:
    """Start `step` in a thread that ends with the test process at the latest."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(step())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def joined(call: Future[Any], what: str, timeout: float = 30) -> Any:
    """What the thread's call gave or raised."""
    wait([call], timeout)
    assert call.done(), f"waited {timeout:g} s for {what}"
    return call.result()


# -- the reply is lost with the leader ---------------------------------------------------------------------


@pytest.mark.parametrize("call", EACH)
def test_the_leader_hangs_after_it_applied_a_call(q: FaultyQueue, call: Call) -> None:
    """Its reply never comes; the next leader is asked, and gives the answer of the first."""
    view = q.open(timeout=25)
    state = call.prepare(view)
    leader, proxy = q.cluster.leader(), q.proxy
    rule = proxy.stall()
    making = in_thread(lambda: call.make(view, state))
    [applied] = rule.wait()
    assert applied.status == 200
    leader.pause()
    answer = joined(making, f"{call.name} after the leader hung")
    assert q.cluster.wait_leader() is not leader
    call.check(q, view, state, answer)
    leader.resume()


def test_the_leader_dies_before_it_replies(q: FaultyQueue) -> None:
    view = q.open(timeout=25)
    view.publish(GROUP, "first")
    rule = q.proxy.stall()
    call = in_thread(lambda: view.publish(GROUP, "second"))
    rule.wait()
    q.cluster.leader().kill()
    rule.release()
    seq = joined(call, "a publish after the leader died")
    assert rows(q, "seq, event")[1:] == [(seq, '"second"')]


def test_a_copy_held_by_a_hung_leader_is_refused_when_it_wakes(q: FaultyQueue) -> None:
    """The first copy lies in the socket of a stopped leader, which goes on after the second was applied."""
    view = q.open(timeout=25)
    view.publish(GROUP, "first")
    leader = q.cluster.leader()
    leader.pause()
    seq = view.publish(GROUP, "second")
    leader.resume()
    q.cluster.wait_applied()
    last = view.publish(GROUP, "third")
    assert rows(q, "seq, event")[1:] == [(seq, '"second"'), (last, '"third"')]


def test_a_hung_leader_costs_an_election_and_little_more(q: FaultyQueue) -> None:
    view = q.open(timeout=25)
    view.publish(GROUP, "first")
    q.cluster.leader().pause()
    start = time.monotonic()
    call = in_thread(lambda: view.publish(GROUP, "second"))
    q.cluster.wait_leader()
    elected = time.monotonic() - start
    joined(call, "a publish while the leader hangs")
    assert time.monotonic() - start < elected + 2.5  # 1 s is the aim; two cores also run three servers


# -- under load --------------------------------------------------------------------------------------------


def pause(node: Node) -> None:
    node.pause()


def kill(node: Node) -> None:
    node.kill()


def terminate(node: Node) -> None:
    node.terminate()


@pytest.mark.parametrize("end", [kill, pause, terminate])
def test_a_leader_ends_under_load(q: FaultyQueue, end: Callable[[Node], None]) -> None:
    load = Load(publishers=6, workers=6, count=100)
    load.start(lambda: q.open(timeout=30))
    load.wait_confirmed(load.total // 4)
    leader = q.cluster.leader()
    end(leader)
    load.wait_confirmed(load.total // 2)
    assert q.cluster.wait_leader() is not leader
    if leader.paused:
        leader.resume()
    else:
        leader.restart()
    load.finish()
    assert rows(q) == []


def test_one_leader_after_another_ends_under_load(q: FaultyQueue) -> None:
    load = Load(publishers=4, workers=4, count=150)
    load.start(lambda: q.open(timeout=30))
    for part, end in enumerate([kill, pause, terminate], 1):
        load.wait_confirmed(part * load.total // 5)
        leader = q.cluster.leader()
        end(leader)
        q.cluster.wait_leader()
        load.wait_confirmed(part * load.total // 5 + 10)
        if leader.paused:
            leader.resume()
        else:
            leader.restart()
    load.finish()
    assert rows(q) == []


def test_connections_cut_again_and_again_under_load(q: FaultyQueue) -> None:
    load = Load(publishers=4, workers=4, count=100)
    load.start(lambda: q.open(timeout=30))
    for part in range(1, 9):
        load.wait_confirmed(part * load.total // 10)
        for proxy in q.proxied.proxies:
            proxy.cut_after(skip=2, count=2)
            proxy.cut_all()
    load.finish()
    assert rows(q) == []


@pytest.mark.parametrize("seed", range(3))
def test_faults_of_all_kinds_under_load(q: FaultyQueue, seed: int) -> None:
    """The same seed draws the same faults; which requests they meet is the load's."""
    draw = random.Random(seed)
    load = Load(publishers=4, workers=4, count=75)
    load.start(lambda: q.open(timeout=40))
    for part in range(1, 21):
        load.wait_confirmed(part * load.total // 24)
        for proxy in q.proxied.proxies:
            skip, count = draw.randrange(3), draw.randrange(1, 4)
            faults: list[Callable[[], object]] = [
                partial(proxy.cut_before, skip=skip, count=count),
                partial(proxy.cut_after, skip=skip, count=count),
                partial(proxy.cut_half, on_any, skip=skip, count=count),
                partial(proxy.delay, draw.random() / 4, on_any, reply=True, skip=skip, count=count),
                partial(proxy.answer, 503, b"leader not found", skip=skip, count=count),
                partial(proxy.answer, 200, b"garbage", delivered=True, skip=skip, count=count),
                partial(proxy.hold_request, skip=skip),
                proxy.cut_all,
            ]
            draw.choice(faults)()
    for proxy in q.proxied.proxies:
        for rule in [rule for rule in proxy.rules if rule.fault is Fault.HOLD and rule.hits]:
            rule.deliver()
        proxy.clear()
    load.finish()
    assert rows(q) == []


def on_any(exchange: Exchange) -> bool:
    return True


# -- nodes come back ---------------------------------------------------------------------------------------


def test_what_was_acked_stays_acked_after_the_node_was_killed(alone: FaultyQueue) -> None:
    view = alone.open(timeout=25)
    seqs = view.publish_many([(GROUP, n) for n in range(10)])
    for _ in range(5):
        view.ack(take(view))
    held = take(view, 600)
    alone.cluster.nodes[0].kill()
    alone.cluster.nodes[0].restart()
    assert rows(alone) == [(seq,) for seq in seqs[5:]]
    assert view.claim("w") is None, "the lease is kept as well"
    view.ack(held)
    assert take(view).event == 6


def test_a_node_that_is_killed_and_comes_back_within_the_time_out(alone: FaultyQueue) -> None:
    view = alone.open(timeout=25)
    view.publish(GROUP, "first")
    node = alone.cluster.nodes[0]
    node.kill()
    call = in_thread(lambda: view.publish(GROUP, "second"))
    alone.proxied.proxies[0].wait_seen(n=2)
    node.restart()
    seq = joined(call, "a publish over the restart of the node")
    assert rows(alone, "seq, event")[1:] == [(seq, '"second"')]


def test_a_cluster_without_a_majority_and_back(q: FaultyQueue) -> None:
    """The call fails in time, as `Unavailable` or `OutcomeUnknown`, and the transport goes on afterwards."""
    view = q.open(timeout=2)
    view.publish(GROUP, "first")
    for node in q.cluster.followers():
        node.kill()
    start = time.monotonic()
    with pytest.raises((rqfast.Unavailable, rqfast.OutcomeUnknown)) as caught:
        view.publish(GROUP, "second")
    assert time.monotonic() - start < 5
    mend(q.cluster)
    wait_until("the transport to publish again", lambda: try_publish(view, "third"), 30)
    found = [event for (event,) in rows(q, "event")]
    assert (found[0], found[-1]) == ('"first"', '"third"')
    if isinstance(caught.value, rqfast.Unavailable):
        assert '"second"' not in found
    assert found.count('"second"') <= 1


def try_publish(view: Any, event: str) -> int | None:
    try:
        seq: int = view.publish(GROUP, event)
        return seq
    except rqfast.Unavailable:
        return None


def test_the_only_address_given_dies(q: FaultyQueue) -> None:
    """The other nodes were learnt from the first."""
    leader = q.cluster.leader()
    q.url = q.proxied.proxy_of(leader).url
    view = q.open(timeout=25)
    view.publish(GROUP, "first")
    leader.kill()
    seq = view.publish(GROUP, "second")
    assert rows(q, "seq, event")[1:] == [(seq, '"second"')]


def test_a_claim_that_waits_outlives_its_leader(q: FaultyQueue) -> None:
    view, other = q.open(timeout=25), q.open(timeout=25)
    call = in_thread(lambda: view.claim("w", 600, wait=40))
    q.proxied.leader_proxy().wait_seen(lambda exchange: exchange.path.startswith("/db/"))
    q.cluster.leader().kill()
    seq = other.publish(GROUP, "a")
    lease = joined(call, "a waiting claim after the leader died", 50)
    assert (lease.seq, lease.attempts) == (seq, 1)


# -- opening -----------------------------------------------------------------------------------------------


def test_connect_waits_for_a_leader(q: FaultyQueue) -> None:
    for node in q.cluster.nodes:
        node.kill()
    first, *others = q.cluster.nodes
    first.restart(wait=False)  # up, and without a majority
    call = in_thread(lambda: q.open(connect_retries=60, retry_delay=0.5))
    q.proxied.proxy_of(first).wait_seen(lambda exchange: True, n=3, timeout=30)
    for node in others:
        node.restart(wait=False)
    view = joined(call, "connect, after a majority was up again", 40)
    assert view.publish(GROUP, "a") == rows(q)[0][0]


def test_connect_gives_up_after_its_retries(alone: FaultyQueue) -> None:
    alone.proxied.down()
    start = time.monotonic()
    with pytest.raises(rqfast.Unavailable, match=r"127\.0\.0\.1"):
        alone.open(connect_retries=3, retry_delay=0.2)
    assert 0.3 < time.monotonic() - start < 5
