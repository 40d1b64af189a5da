"""Whatever comes in whatever order: each group's calls take effect in theirs, each once, and nothing waits for ever."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rqfast import Lease
from rqfast._core import ACK, NACK, Batch, Batcher, Bundle, Call, Claim, Operate, Publish, Settle, make_publish

GROUPS = "abc"
LIMIT = 500

groups = st.sampled_from(GROUPS)
dedup_ids = st.sampled_from([None, None, None, "1", "2"])
additions = st.one_of(
    st.tuples(st.just("publish"), groups, dedup_ids),
    st.tuples(st.just("publish"), groups, dedup_ids),
    st.tuples(st.just("settle"), groups, st.sampled_from([ACK, ACK, NACK])),
    st.tuples(st.just("claim")),
    st.tuples(st.just("operate")),
    st.tuples(
        st.just("bundle"), st.lists(groups, max_size=2, unique=True), st.lists(groups, max_size=3), st.booleans()
    ),
)
steps = st.lists(
    st.one_of(additions, additions, st.tuples(st.just("take"), st.integers(0, 2)), st.tuples(st.just("end"))),
    max_size=60,
)


class Run:
    """A batcher, what was put into it, and what took effect."""

    def __init__(self, lanes: int, max_rows: int, many: int, put_back: bool) -> None:
        self.batcher = Batcher(lanes, max_rows, 1 << 20, many)
        self.lanes = lanes
        self.flight: dict[int, Batch] = {}
        # By the identity of a call: when it was made, and for which groups (None: for all).
        self.made: dict[int, tuple[int, set[str] | None]] = {}
        self.calls: list[Call] = []
        self.done: list[Call] = []
        self.seqs = 0
        self._put_back = put_back

    def add(self, kind: str, *how: Any) -> None:
        call: Call
        if kind == "publish":
            call = self._publish(*how)
        elif kind == "settle":
            call = self._settle(*how)
        elif kind == "operate":
            call = self._note(Operate("pause_queue", int), None)
        elif kind == "claim":
            call = Claim("w", 30.0, 0, 1, False)
            call.deadline = 1e9
        else:
            acks = [self._settle(group, ACK) for group in how[0]]
            publishes = [self._publish(group, None) for group in how[1]]
            if not acks and not publishes:
                return
            call = Bundle(acks, publishes, [["SELECT 1"]] if how[2] else [])
            call.until(1e9)
        self.batcher.add(call)

    def _publish(self, group: str, dedup_id: str | None) -> Publish:
        call = make_publish(group, 1, 0, 0.0, 0, None, dedup_id, None)
        self._note(call, {group})
        return call

    def _settle(self, group: str, op: int) -> Settle:
        self.seqs += 1
        call = Settle(Lease(self.seqs, group, None, "~w:1"), op)
        self._note(call, {group})
        return call

    def _note(self, call: Call, names: set[str] | None) -> Call:
        call.deadline = 1e9
        self.made[id(call)] = len(self.calls), names
        self.calls.append(call)
        return call

    def take(self, lane: int) -> None:
        lane %= self.lanes
        if lane in self.flight or not self.batcher.has_work(lane):
            return
        batch = self.batcher.take(lane)
        if batch is None:
            return
        calls = batch.calls()
        if any(isinstance(call, Operate) for call in calls):
            assert len(calls) == 1 and not self.flight, "an operating call goes alone"
        if batch.alone:
            assert not any(isinstance(call, Claim) for call in calls)
        if self._put_back and self.lanes == 1 and len(self.done) % 3 == 0:
            self._put_back = False
            self.batcher.put_back(batch)
            return
        self.flight[lane] = batch

    def end(self, lane: int | None = None) -> None:
        if not self.flight:
            return
        batch = self.flight.pop(min(self.flight) if lane is None else lane)
        self.done += [call for call in batch.calls() if id(call) in self.made]
        self.batcher.finish(batch)

    def finish(self) -> None:
        for turn in range(LIMIT):
            for lane in range(self.lanes):
                self.take(lane)
            if not self.flight and not self.batcher.waiting():
                return
            self.end(max(self.flight, default=None) if turn % 2 else None)
        raise AssertionError(f"{self.batcher.waiting()} calls still wait")

    def check(self) -> None:
        assert sorted(map(id, self.done)) == sorted(map(id, self.calls)), "each takes effect once"
        for group in GROUPS:
            order = [
                made for made, names in (self.made[id(call)] for call in self.done) if names is None or group in names
            ]
            assert order == sorted(order), group


@settings(max_examples=300, deadline=None)
@given(steps, st.sampled_from([1, 3]), st.sampled_from([3, 100]), st.sampled_from([1, 3, 256]), st.booleans())
def test_each_groups_calls_keep_their_order(
    plan: list[Any], lanes: int, max_rows: int, many: int, put_back: bool
) -> None:
    run = Run(lanes, max_rows, many, put_back)
    for kind, *how in plan:
        if kind == "take":
            run.take(*how)
        elif kind == "end":
            run.end()
        else:
            run.add(kind, *how)
    run.finish()
    run.check()
