"""Ctrl-C in a thread of a blocking transport: nobody else's calls suffer, and nothing is left half-done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.contract.conftest import ENGINES
from tests.contract.interrupted import HAS_TIMER, HUNG_SECONDS, STREAM, Report, run_interrupted
from tests.contract.processes import SPAWN, join_all
from tests.contract.views import Queue, queue_name

pytestmark = pytest.mark.skipif(not HAS_TIMER, reason="no timer that sends signals")

SECONDS = 2.0


@pytest.fixture(params=["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))])
def sq(request: pytest.FixtureRequest) -> Iterator[Queue]:
    q = Queue(request.param, "sync", ENGINES[request.param](request), queue_name())
    yield q
    q.close()


def report_of(q: Queue, within: float) -> Report:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=run_interrupted, args=(theirs, q.address, SECONDS, within), daemon=True)
    process.start()
    theirs.close()
    assert ours.poll(HUNG_SECONDS + SECONDS), "the process does not report"
    report: Report = ours.recv()
    join_all([process], 30)
    return report


@pytest.mark.parametrize("within", [100e-6, 2e-3], ids=["early", "late"])
def test_a_thread_is_interrupted_while_others_work(sq: Queue, within: float) -> None:
    q = sq
    report = report_of(q, within)
    assert report.errors == []
    assert report.interrupts > 10
    left = q.sql(f"SELECT group_id, event, seq, locked_by FROM {q.table('messages')} ORDER BY seq")
    # Nothing is leased but to the thread that was interrupted before it was told.
    holders = {token.partition(":")[0] for *_, token in left if token}
    assert all("main" in holder for holder in holders)
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for group, claims in report.claimed.items():
        seen[group] += claims
    for group, event, seq, _ in left:
        if (int(event), seq) not in seen[group]:
            seen[group].append((int(event), seq))
    # Nothing is there twice: a message has one seq.
    for group, found in seen.items():
        if not group.startswith("m"):
            assert len({event for event, _ in found}) == len(found), group
        assert len({event for event, _ in found}) == len(set(found)), group
    # Nothing that was confirmed is lost.
    there = {seq for *_, seq, _ in left}
    assert {*report.published.values()} <= there.union(report.acked, report.perhaps_acked)
    # The order of the other threads' messages.
    for group in ("p", "b"):
        assert [event for event, _ in seen[group]] == list(range(len(seen[group])))
    # A publish_many that was interrupted is in up to some point.
    for number in range(report.streams):
        events = [event for event, _ in seen[f"s{number}"]]
        assert events == list(range(STREAM if number in report.whole_streams else len(events)))


@pytest.mark.parametrize("place", [0, 1, 40, 41, 60, 99])
def test_an_iterable_that_is_interrupted(sq: Queue, place: int) -> None:
    def items() -> Iterator[tuple[str, int]]:
        for n in range(100):
            if n == place:
                raise KeyboardInterrupt
            yield f"g{n % 2}", n // 2

    view = sq.open(max_batch=4, max_in_flight=40)
    with pytest.raises(KeyboardInterrupt):
        view.publish_many(items())
    for group in ("g0", "g1"):
        view.publish(group, 100)
        rows = sq.sql(f"SELECT event FROM {sq.table('messages')} WHERE group_id=? ORDER BY seq", group)
        events = [int(event) for (event,) in rows]
        assert events == [*range(len(events) - 1), 100]
        assert len(events) <= place // 2 + 2
