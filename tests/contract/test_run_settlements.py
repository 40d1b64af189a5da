"""Runs that are not simply acknowledged: put back, extended, given up, lapsed, released."""

from __future__ import annotations

import pytest

import rqfast
from rqfast import LeaseLost, OutOfOrder
from tests.contract.runs import PUT_BACK, SETTLE, events, fill, left, rows, take
from tests.contract.views import Clock, Queue

# -- other settlements -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", PUT_BACK)
@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_comes_after_one_that_is_put_back_goes_back_unspent(q: Queue, clock: Clock, how: str, number: int) -> None:
    view = q.open(clock=clock)
    fill(view, 5)
    run = take(view, 4)
    PUT_BACK[how](view, run[number])
    attempts = dict(left(view))
    assert attempts == {n: int(n <= number) for n in range(5)}
    before = rows(q)
    for lease in run[number:]:
        with pytest.raises(LeaseLost):
            view.ack(lease)
    assert rows(q) == before
    # What is before it is still the worker's, and in its order.
    assert view.claim("w") is None or number == 0
    if number:
        assert view.extend(run[0], 200) == run[number - 1].expires_at
        assert view.ack_many(run[:number]) == []


@pytest.mark.parametrize("how", ["nack", "park", "defer"])
def test_a_list_that_is_put_back_is_one_commit(q: Queue, clock: Clock, how: str) -> None:
    """One attempt is spent, that of the first: the others go back with it, and are not lost by that."""
    view = q.open(clock=clock)
    fill(view, 30)
    run = take(view, 25)
    view.ack_many(run[:2])
    before = q.entries()
    if how == "defer":
        assert view.defer_many(run, 50) == run[:2]
    else:
        assert view.nack_many(run, 50 if how == "park" else 0) == run[:2]
    assert q.entries() - before <= 2
    assert view.ack_many(run) == run
    assert dict(left(view)) == {n: int(n == 2) for n in range(2, 30)}
    if how == "defer":
        assert events(view.claim_run("w", 30, 100)) == list(range(25, 30))
    clock.advance(51)
    if how != "defer":
        assert events(view.claim_run("w", 30, 100)) == list(range(2, 30))


def test_a_nack_leaves_the_order_as_it_was(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = take(view, 4)
    view.ack(run[0])
    view.nack(run[1])
    assert events(view.claim_run("w", 30, 10)) == [1, 2, 3, 4]


def test_a_deferred_message_of_a_run_moves_behind(q: Queue) -> None:
    view = q.open()
    fill(view, 4)
    run = take(view, 3)
    view.defer(run[0], 0)
    assert events(view.claim_run("w", 30, 10)) == [1, 2, 3, 0]


def test_a_parked_message_of_a_run_holds_the_group(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    fill(view, 3)
    run = take(view, 3)
    view.nack(run[1], 60)
    view.ack(run[0])
    assert view.claim_run("w", 30, 10) == []
    clock.advance(61)
    assert events(view.claim_run("w", 30, 10)) == [1, 2]


def test_a_dead_letter_leaves_the_run(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = take(view, 4)
    view.dead_letter(run[2], "why")
    view.dead_letter(run[0], "why")
    with pytest.raises(OutOfOrder):
        view.ack(run[3])
    assert view.ack_many([run[1], run[3]]) == []
    assert [letter.event for letter in view.dead_letters("g")] == [0, 2]
    assert left(view) == [(4, 0)]
    assert view.redrive() == 2
    assert events(view.claim_run("w", 30, 10)) == [0, 2, 4]


def test_dead_letters_of_one_list(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = take(view, 4)
    assert view.dead_letter_many([run[3], run[1]], "why") == []
    assert view.dead_letter_many(run[:2], "why") == [run[1]]
    assert view.ack_many(run[2:]) == [run[3]]
    assert left(view) == [(4, 0)]


def test_extend_of_one_extends_all(q: Queue, clock: Clock) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    fill(view, 4)
    run = view.claim_run("w", 10, 3)
    clock.advance(9)
    ends = view.extend(run[1], 20)
    assert {lease.expires_at for lease in run} == {ends}
    clock.advance(15)
    assert other.claim("x") is None
    # By hand, in another process.
    other.extend(rqfast.Lease(run[2].seq, "g", None, run[2].token), 20)
    clock.advance(15)
    assert other.claim("x") is None
    assert view.ack_many(run) == []


def test_extend_of_all_is_one_commit(q: Queue) -> None:
    view = q.open()
    fill(view, 21)
    run = take(view, 20)
    view.ack(run[0])
    before = q.entries()
    assert view.extend_many(run, 300) == run[:1]
    assert q.entries() - before <= 2
    assert {lease.remaining() > 200 for lease in run[1:]} == {True}
    assert q.sql(f"SELECT count(DISTINCT lock_expiry) FROM {q.table('messages')} WHERE locked_by IS NOT NULL") == [(1,)]


# -- lapsed, and lost --------------------------------------------------------------------------------------


def test_a_lapse_gives_back_all(q: Queue, clock: Clock) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    fill(view, 4)
    run = view.claim_run("w", 10, 3)
    view.ack(run[0])
    clock.advance(11)
    again = other.claim_run("x", 10, 10)
    assert [(lease.event, lease.attempts) for lease in again] == [(1, 2), (2, 2), (3, 1)]


@pytest.mark.parametrize("how", SETTLE)
def test_a_lapsed_run_that_nobody_claimed_still_settles(q: Queue, clock: Clock, how: str) -> None:
    view = q.open(clock=clock)
    fill(view, 3)
    run = view.claim_run("w", 10, 3)
    clock.advance(11)
    SETTLE[how](view, run[0])
    if how in ("ack", "extend", "dead letter"):
        assert view.ack_many(run[how != "extend" :]) == []


@pytest.mark.parametrize("how", SETTLE)
@pytest.mark.parametrize("then", ["holds", "acked", "put back", "parked"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_run_is_lost_as_a_whole_when_its_group_was_claimed_again(
    q: Queue, clock: Clock, how: str, then: str, number: int
) -> None:
    """Also what the other one did not take."""
    view, other = q.open(clock=clock), q.open(clock=clock)
    fill(view, 4)
    run = view.claim_run("w", 10, 3)
    clock.advance(11)
    lease = other.claim("x", 100)
    assert lease is not None and lease.event == 0
    if then == "acked":
        other.ack(lease)
    elif then == "put back":
        other.nack(lease)
    elif then == "parked":
        other.nack(lease, 100)
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, run[number])
    assert view.ack_many(run) == run
    assert rows(q) == before


def test_a_run_is_lost_when_a_message_ahead_of_it_was_claimed(q: Queue, clock: Clock) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    fill(view, 2)
    run = view.claim_run("w", 10, 2)
    view.publish("g", "ahead", rank=-1)
    clock.advance(11)
    lease = other.claim("x", 100)
    assert lease is not None and lease.event == "ahead"
    assert view.ack_many(run) == run
    other.ack(lease)
    assert events(view.claim_run("w", 10, 5)) == [0, 1]


@pytest.mark.parametrize(
    "wrong", [("other group", {"group_id": "h"}), ("other token", {"token": "~w:x.1.0+4"}), ("no token", {"token": ""})]
)
def test_what_is_no_lease_of_the_run(q: Queue, wrong: tuple[str, dict[str, str]]) -> None:
    view = q.open()
    fill(view, 3)
    run = take(view, 3)
    parts = {"seq": run[0].seq, "group_id": "g", "event": None, "token": run[0].token} | wrong[1]
    stranger = rqfast.Lease(**parts)  # type: ignore[arg-type]
    before = rows(q)
    for settle in SETTLE.values():
        with pytest.raises(LeaseLost):
            settle(view, stranger)
    assert rows(q) == before
    assert view.ack_many([stranger, run[0], run[1]]) == [stranger] or wrong[0] == ""


def test_each_lease_is_spent_once(q: Queue) -> None:
    view = q.open()
    fill(view, 3)
    run = take(view, 3)
    view.ack(run[0])
    before = rows(q)
    for settle in SETTLE.values():
        with pytest.raises(LeaseLost):
            settle(view, run[0])
    assert rows(q) == before
    assert view.ack_many([run[0], *run[1:]]) == [run[0]]


# -- operators ---------------------------------------------------------------------------------------------


def test_release_ends_a_run(q: Queue) -> None:
    view = q.open()
    fill(view, 3)
    run = take(view, 3)
    assert view.release("g") is True
    assert view.ack_many(run) == run
    assert [(lease.event, lease.attempts) for lease in view.claim_run("w", 30, 10)] == [(0, 2), (1, 2), (2, 2)]


def test_release_of_what_is_left_of_a_run_that_has_ended(q: Queue, clock: Clock) -> None:
    """Nobody could have settled it any more."""
    view = q.open(clock=clock)
    fill(view, 3)
    view.claim_run("w", 10, 3)
    clock.advance(11)
    lease = view.claim("x", 10)
    assert lease is not None
    view.ack(lease)
    assert view.release("g") is False


def test_what_is_in_work_is_not_deleted(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = take(view, 3)
    assert view.delete(run[1].seq) is False
    assert view.purge("g") == 2
    assert view.purge(everything=True) == 0
    assert view.ack_many(run) == []
    assert view.groups() == []


def test_what_operators_see(q: Queue) -> None:
    view = q.open()
    fill(view, 5)
    run = take(view, 3)
    stats = view.stats()
    assert (stats.messages, stats.in_work, stats.claimable, stats.groups) == (5, 3, 0, 1)
    [group] = view.groups()
    assert (group.state, group.worker_id, group.depth, group.head_seq) == ("in_work", "w", 5, run[0].seq)
    assert group.until == pytest.approx(run[0].expires_at, abs=0.01)
    view.nack(run[1])
    assert view.stats().in_work == 1
    view.ack(run[0])
    stats = view.stats()
    assert (stats.messages, stats.in_work, stats.claimable) == (4, 0, 1)
