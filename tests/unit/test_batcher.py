"""Which calls go together: order within a group, bounds, deadlines."""

from typing import Any

from rqfast import Lease
from rqfast._core import ACK, NACK, Batcher, Call, Claim, Operate, Publish, Settle, give_back, make_publish


class Slot:
    """The least that the core calls a future."""

    def __init__(self) -> None:
        self.outcome: Any = None

    def done(self) -> bool:
        return self.outcome is not None

    def set_result(self, value: Any) -> None:
        self.outcome = value

    def set_exception(self, error: Exception) -> None:
        self.outcome = error


def publish(group: str, event: Any = 1, *, dedup_id: str | None = None, deadline: float = 1e9) -> Publish:
    call = make_publish(group, event, 0, 0.0, 0, None, dedup_id, None)
    call.future, call.deadline = Slot(), deadline
    return call


def settle(group: str, seq: int, op: int = ACK, deadline: float = 1e9) -> Settle:
    call = Settle(Lease(seq, group, None, "~w:1"), op)
    call.future, call.deadline = Slot(), deadline
    return call


def test_a_large_call_that_waits_is_not_overtaken_by_a_small_one_of_its_group() -> None:
    batcher = Batcher(3, 100, 1000)
    batcher.add(publish("a", dedup_id="1"))
    batcher.add(publish("b", dedup_id="2"))
    ids = batcher.take(2)
    assert ids is not None
    # Both wait for their dedup ids, then the batch is full: the small one stays where no lane has it yet.
    ahead, large, small = publish("c", "x" * 500, dedup_id="1"), publish("g", "x" * 600, dedup_id="2"), publish("g")
    for call in (ahead, large, publish("d", "x" * 970), small):
        batcher.add(call)
    filler = batcher.take(1)
    assert filler is not None
    batcher.finish(ids)
    batcher.finish(filler)
    order = []
    while (batch := batcher.take(1)) is not None:
        order += batch.calls()
        batcher.finish(batch)
    assert order == [ahead, large, small]


def test_a_lease_given_back_does_not_keep_calls_behind_it_from_expiring() -> None:
    batcher = Batcher(1, 100, 1000)
    back, ack, later = give_back(Lease(1, "g", None, "~w:1")), settle("h", 2, deadline=5.0), settle("i", 3)
    for call in (back, ack, later):
        batcher.add(call)
    assert batcher.expire(6.0) == [ack]
    batch = batcher.take(0)
    assert batch is not None
    assert batch.calls() == [later, back]


def test_a_group_stays_in_its_lane_while_anything_is_in_flight() -> None:
    batcher = Batcher(3, 100, 1000)
    batcher.add(publish("g"))
    in_flight = batcher.take(1)
    assert in_flight is not None
    second, ack = publish("g"), settle("g", 7)
    batcher.add(second)
    batcher.add(ack)
    assert batcher.take(0) is None
    assert batcher.take(2) is None
    batcher.finish(in_flight)
    following = batcher.take(1)
    assert following is not None
    # The ack was made after the publish; within one batch it would be before it.
    assert following.calls() == [second]
    batcher.finish(following)
    last = batcher.take(1)
    assert last is not None
    assert last.calls() == [ack]
    batcher.finish(last)
    batcher.add(publish("g"))
    assert batcher.take(2) is not None


def test_one_settlement_of_a_lease_in_a_batch() -> None:
    batcher = Batcher(1, 100, 1000)
    first, second = settle("g", 1), settle("g", 1, NACK)
    batcher.add(first)
    batcher.add(second)
    batch = batcher.take(0)
    assert batch is not None
    assert batch.calls() == [first]


def test_a_call_larger_than_the_bound_goes_alone() -> None:
    batcher = Batcher(1, 100, 1000)
    small, huge, after = publish("a"), publish("b", "x" * 5000), publish("c")
    for call in (small, huge, after):
        batcher.add(call)
    batches = []
    while (batch := batcher.take(0)) is not None:
        batches.append(batch.calls())
        batcher.finish(batch)
    assert batches == [[small], [huge], [after]]


# -- operating calls -------------------------------------------------------------------------------


def operate(operation: str = "purge_queue", deadline: float = 1e9) -> Operate:
    call = Operate(operation, int)
    call.future, call.deadline = Slot(), deadline
    return call


def claim(deadline: float = 1e9) -> Claim:
    call = Claim("w", 60.0, 0, 1, False)
    call.future, call.deadline = Slot(), deadline
    return call


def taken(batcher: Batcher, lane: int = 0) -> list[Call] | None:
    batch = batcher.take(lane)
    return None if batch is None else batch.calls()


def test_an_operating_call_waits_for_all_before_it_and_holds_all_after_it() -> None:
    batcher = Batcher(3, 100, 1000)
    first, ack, asked = publish("a"), settle("b", 1), claim()
    barrier = operate()
    later, claimed = publish("c"), claim()
    for call in (first, ack, asked, barrier, later, claimed):
        batcher.add(call)
    assert batcher.waiting() == 6
    sent = batcher.take(1)
    assert sent is not None and sent.calls() == [first]
    settled = batcher.take(0)
    assert settled is not None and settled.calls() == [ack, asked]
    for lane in range(3):
        assert not batcher.has_work(lane) and batcher.take(lane) is None
    batcher.finish(settled)
    assert not batcher.has_work(0) and batcher.take(0) is None
    batcher.finish(sent)
    assert batcher.has_work(0) and not batcher.has_work(1)
    alone = batcher.take(0)
    assert alone is not None and alone.calls() == [barrier] and not alone.claims_only
    assert batcher.take(0) is None and batcher.take(1) is None
    barrier.resolve(3)
    batcher.finish(alone)
    assert taken(batcher) == [later, claimed]


def test_operating_calls_keep_their_order() -> None:
    batcher = Batcher(3, 100, 1000)
    calls = [operate("pause_queue"), publish("a"), operate("resume_queue"), operate("purge_queue"), publish("a")]
    for call in calls:
        batcher.add(call)
    order: list[Call] = []
    while batcher.waiting():
        for lane in range(3):
            batch = batcher.take(lane)
            if batch is not None:
                order += batch.calls()
                for call in batch.calls():
                    call.resolve(0)
                batcher.finish(batch)
    assert order == calls


def test_an_operating_call_that_was_not_applied_comes_first_again() -> None:
    batcher = Batcher(1, 100, 1000)
    barrier, later = operate(), publish("a")
    batcher.add(barrier)
    batcher.add(later)
    batch = batcher.take(0)
    assert batch is not None
    batcher.put_back(batch)
    assert taken(batcher) == [barrier]


def test_an_operating_call_that_nobody_waits_for_holds_nobody() -> None:
    batcher = Batcher(1, 100, 1000)
    gone, later = operate(), publish("a")
    gone.resolve(1)
    batcher.add(gone)
    batcher.add(later)
    assert taken(batcher) == [later]
    assert batcher.waiting() == 0


def test_held_calls_expire_and_let_the_others_go() -> None:
    batcher = Batcher(1, 100, 1000)
    barrier, early, later = operate(deadline=5.0), publish("a", deadline=4.0), publish("b")
    for call in (barrier, early, later):
        batcher.add(call)
    assert batcher.expire(4.5) == [early]
    assert batcher.expire(5.5) == [barrier]
    assert taken(batcher) == [later]


def test_all_that_is_held_is_drained() -> None:
    batcher = Batcher(1, 100, 1000)
    calls = [publish("a"), operate(), publish("a"), claim()]
    for call in calls:
        batcher.add(call)
    assert batcher.drain() == calls
    assert batcher.waiting() == 0
    batcher.add(publish("b"))
    assert batcher.has_work(0)
