"""Each fault of the network, for each call on which the rules rest: one effect, and the right answer."""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import pytest

import rqfast
from tests.cluster import wait_until
from tests.contract.views import QueueUnderTest, View, queue_name
from tests.fault.calls import CALLS, GROUP, Call, empty, rows, take
from tests.fault.conftest import FaultyQueue
from tests.fault.recorded import Crew
from tests.proxy import Fault, Match, Proxy, Rule, contains, is_write

PATIENCE = 30.0  # of calls that must not fail on a busy machine
NOWHERE = [("Location", "http://127.0.0.1:9/db/execute?transaction")]

FAULTS: dict[str, Callable[[Proxy, Match], Rule]] = {
    "cut before it is delivered": lambda proxy, match: proxy.cut_before(match),
    "cut after it was delivered": lambda proxy, match: proxy.cut_after(match),
    "half a reply": lambda proxy, match: proxy.cut_half(match),
    "late request": lambda proxy, match: proxy.delay(0.2, match),
    "late reply": lambda proxy, match: proxy.delay(0.2, match, reply=True),
    "applied, never answered": lambda proxy, match: proxy.stall(match),
    "not delivered, never answered": lambda proxy, match: proxy.stall(match, delivered=False),
    "500": lambda proxy, match: proxy.answer(500, b"something never heard of", match),
    "500 of what was applied": lambda proxy, match: proxy.answer(500, b"never heard of", match, delivered=True),
    "503": lambda proxy, match: proxy.answer(503, b"leader not found", match),
    "301 to where nobody is": lambda proxy, match: proxy.answer(301, b"", match, headers=NOWHERE),
    "301 to itself": lambda proxy, match: proxy.answer(301, b"", match, headers=[("Location", proxy.url)]),
    "garbage": lambda proxy, match: proxy.answer(200, b"garbage", match),
    "garbage of what was applied": lambda proxy, match: proxy.answer(200, b'{"results":[{', match, delivered=True),
}
MADE = {call.name: call for call in CALLS}
ESSENTIAL = [MADE[name] for name in ("publish", "publish with a dedup id", "claim", "ack", "nack", "extend")]


@contextmanager
def own_queue(q: FaultyQueue) -> Iterator[QueueUnderTest]:
    """Another queue behind the same proxies; `contains(queue)` matches its writes and no others."""
    own = QueueUnderTest(q.engine, q.colour, q.database, queue_name())
    own.url = q.url
    with closing(own):
        yield own


def side_by_side(step: Callable[[Any], None], things: Iterable[Any]) -> None:
    """Do `step` for each thing in a thread of its own; the first failure is raised when all have ended."""
    things = list(things)
    with ThreadPoolExecutor(len(things)) as pool:
        for future in [pool.submit(step, thing) for thing in things]:
            future.result()


def on_all(q: FaultyQueue, fault: Callable[[Proxy, Match], Rule], match: Match) -> list[Rule]:
    return [fault(proxy, match) for proxy in q.proxied.proxies]


def removed(rules: list[Rule]) -> int:
    """Remove them, cut what they stall; how often they acted."""
    for rule in rules:
        rule.remove()
        rule.release()
    return sum(len(rule.hits) for rule in rules)


def test_each_fault_meets_each_call_once(any_q: FaultyQueue) -> None:
    def meet_all(call: Call) -> None:
        with own_queue(any_q) as q:
            view = q.open(timeout=PATIENCE)
            for name, fault in FAULTS.items():
                state = call.prepare(view)
                rules = on_all(any_q, fault, contains(str(q.queue)))
                answer = call.make(view, state)
                assert removed(rules) >= 1, f"{call.name} never met '{name}'"
                call.check(q, view, state, answer)
                empty(q)

    side_by_side(meet_all, ESSENTIAL)


def test_idle_connections_are_closed_before_each_call(any_q: FaultyQueue) -> None:
    view = any_q.open(timeout=PATIENCE)
    for call in ESSENTIAL:
        state = call.prepare(view)
        assert sum(proxy.close_idle() for proxy in any_q.proxied.proxies) >= 1
        call.check(any_q, view, state, call.make(view, state))
        empty(any_q)


# -- the server stays away past the time-out -----------------------------------------------------------------

SILENCE: dict[str, Callable[[Proxy, Match], Rule]] = {
    "replies lost": lambda proxy, match: proxy.cut_after(match, count=None),
    "requests lost": lambda proxy, match: proxy.cut_before(match, count=None),
    "applied, never answered": lambda proxy, match: proxy.stall(match, count=None),
}
TIMEOUT = 1.0
Fails = Callable[[Callable[[], Any]], None]


def publish_again(q: QueueUnderTest, view: View, fails: Fails, hasty: View) -> None:
    dedup_id = secrets.token_hex(8)
    fails(lambda: hasty.publish(GROUP, "once", dedup_id=dedup_id))
    seq = view.publish(GROUP, "once", dedup_id=dedup_id)
    assert rows(q, "seq, event") == [(seq, '"once"')]
    assert view.publish(GROUP, "once", dedup_id=dedup_id) == seq
    assert rows(q) == [(seq,)]


def claim_again(q: QueueUnderTest, view: View, fails: Fails, hasty: View) -> None:
    """What a claim took that nobody was told of comes back when its lease ends, at the latest."""
    seq = view.publish(GROUP, "once")
    fails(lambda: hasty.claim("w", 2))
    lease = view.claim("w", 60, wait=30)
    assert lease is not None and (lease.seq, lease.attempts) in [(seq, 1), (seq, 2)]
    view.ack(lease)


def settle_again(
    how: Callable[[View, Any], Any],
    q: QueueUnderTest,
    view: View,
    fails: Fails,
    hasty: View,
) -> None:
    """The second is accepted, or the first was."""
    seq = view.publish(GROUP, "once")
    lease = take(view)
    fails(lambda: how(hasty, lease))
    with suppress(rqfast.LeaseLost):
        how(view, lease)
    if rows(q):
        again = view.claim("w", 60)
        assert (again is None) == (rows(q, "locked_by")[0][0] == lease.token)
        view.ack(again or lease)
    assert rows(q) == []
    assert seq == lease.seq


AGAIN: dict[str, Callable[[QueueUnderTest, View, Fails, View], None]] = {
    "publish": publish_again,
    "claim": claim_again,
    "ack": partial(settle_again, lambda view, lease: view.ack(lease)),
    "nack": partial(settle_again, lambda view, lease: view.nack(lease)),
    "extend": partial(settle_again, lambda view, lease: view.extend(lease, 60)),
}


def test_again_after_an_outcome_that_could_not_be_told(any_q: FaultyQueue) -> None:
    """Told only when the time-out was over; and the call made again leaves one effect."""

    def meet_all(name: str) -> None:
        with own_queue(any_q) as q:
            view = q.open(timeout=PATIENCE)
            for what, silence in SILENCE.items():
                rules: list[Rule] = []

                def fails(call: Callable[[], Any], silence: Any = silence, rules: list[Rule] = rules) -> None:
                    rules += on_all(any_q, silence, contains(str(q.queue)))
                    start = time.monotonic()
                    with pytest.raises(rqfast.OutcomeUnknown):
                        call()
                    assert time.monotonic() - start > 0.9 * TIMEOUT
                    removed(rules)

                # A new one for each: its lane still asks what became of the call.
                AGAIN[name](q, view, fails, q.open(timeout=TIMEOUT))
                assert sum(len(rule.hits) for rule in rules) >= 1, f"{name} never met '{what}'"
                empty(q)

    side_by_side(meet_all, AGAIN)


# -- under load ------------------------------------------------------------------------------------------------


def test_each_fault_under_load(any_q: FaultyQueue, crew: Crew) -> None:
    """One after the other, on every request after the next few, until each has been met several times."""
    draw = random.Random(7)
    met: Counter[str] = Counter()
    crew.start(lambda: any_q.open(timeout=4))
    crew.wait_done(20)
    proxies = any_q.proxied.proxies
    hold: dict[str, Callable[[Proxy, Match], Rule]] = {"held": lambda proxy, match: proxy.hold_request(match)}
    for name, fault in [*FAULTS.items(), *hold.items()] * 2:
        rules = on_all(any_q, fault, is_write)
        for rule in rules:
            rule.left, rule.skip = draw.randrange(1, 4), draw.randrange(3)
        wait_until(f"a request that meets '{name}'", lambda rules=rules: any(rule.hits for rule in rules))
        if draw.random() < 0.3:
            draw.choice(proxies).cut_all()
        for proxy in proxies:
            proxy.close_idle()
        for rule in rules:
            rule.remove()
            rule.release()
            met[name] += len(rule.hits)
            if rule.fault is Fault.HOLD and rule.hits:
                rule.deliver()
    any_q.proxied.clear()
    crew.finish(any_q.open(timeout=PATIENCE))
    assert min(met[name] for name in FAULTS) >= 2
