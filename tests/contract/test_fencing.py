"""Fencing: a settlement is tested on the pair of seq and token, once, and its verdict is obeyed (rule 5)."""

import logging
from collections.abc import Callable

import pytest

from rqfast import Lease as MadeLease
from rqfast import LeaseLost
from tests.contract.views import Clock, Lease, Queue, Row, View

Settle = Callable[[View, Lease], object]
SettleMany = Callable[[View, list[Lease]], list[Lease]]

SETTLE: dict[str, Settle] = {
    "ack": lambda view, lease: view.ack(lease),
    "nack": lambda view, lease: view.nack(lease),
    "park": lambda view, lease: view.nack(lease, 50),
    "defer": lambda view, lease: view.defer(lease, 50),
    "defer by 0": lambda view, lease: view.defer(lease, 0),
    "extend": lambda view, lease: view.extend(lease, 500),
    "dead letter": lambda view, lease: view.dead_letter(lease, "why"),
}
SETTLE_MANY: dict[str, SettleMany] = {
    "ack": lambda view, leases: view.ack_many(leases),
    "nack": lambda view, leases: view.nack_many(leases),
    "park": lambda view, leases: view.nack_many(leases, 50),
    "defer": lambda view, leases: view.defer_many(leases, 50),
    "extend": lambda view, leases: view.extend_many(leases, 500),
    "dead letter": lambda view, leases: view.dead_letter_many(leases, "why"),
}
SPENDING = [how for how in SETTLE if how != "extend"]
each_settlement = pytest.mark.parametrize("how", SETTLE)
each_settlement_of_many = pytest.mark.parametrize("how", SETTLE_MANY)


def take(view: View, visibility: float = 30.0) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def rows(q: Queue) -> list[Row]:
    """All that a settlement could have changed of the messages."""
    columns = "seq, group_id, event, locked_by, lock_expiry"
    return q.sql(f"SELECT {columns} FROM {q.table('messages')} ORDER BY seq")


@each_settlement
def test_a_stale_settlement_is_refused_and_harmless(q: Queue, clock: Clock, how: str) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", "a")
    view.publish("g", "b")
    stale = take(view, 10)
    clock.advance(11)
    holder = take(other, 100)
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, stale)
    assert rows(q) == before
    assert view.claim("w") is None
    other.ack(holder)
    lease = take(view)
    assert (lease.event, lease.attempts) == ("b", 1)


@each_settlement
def test_a_stale_settlement_is_refused_after_the_new_owner_has_finished(q: Queue, clock: Clock, how: str) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", "a")
    view.publish("g", "b")
    stale = take(view, 10)
    clock.advance(11)
    other.ack(take(other))
    held = take(other, 100)
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, stale)
    assert rows(q) == before
    other.ack(held)


@each_settlement
def test_a_stale_settlement_is_refused_after_the_new_owner_gave_back(q: Queue, clock: Clock, how: str) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", "a")
    stale = take(view, 10)
    clock.advance(11)
    other.nack(take(other))
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, stale)
    assert rows(q) == before
    assert take(other).attempts == 3


@each_settlement
def test_a_lapsed_lease_that_nobody_claimed_still_settles(q: Queue, clock: Clock, how: str) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    lease = take(view, 10)
    clock.advance(11)
    SETTLE[how](view, lease)
    if how in ("ack", "dead letter"):
        assert rows(q) == []
    elif how.startswith(("nack", "defer by 0")):
        assert take(view).attempts == 2
    else:
        assert view.claim("w") is None
        clock.advance(600)
        assert take(view).attempts == 2


@pytest.mark.parametrize("first", SPENDING)
def test_a_lease_is_spent_by_its_first_settlement(q: Queue, first: str) -> None:
    view = q.open()
    view.publish("g", "a")
    lease = take(view)
    SETTLE[first](view, lease)
    before = rows(q)
    for settle in SETTLE.values():
        with pytest.raises(LeaseLost):
            settle(view, lease)
        assert rows(q) == before


@each_settlement_of_many
def test_a_lease_twice_in_one_batch_is_lost_once(q: Queue, clock: Clock, how: str) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a")
    view.publish("h", "b")
    lease = take(view)
    lost = SETTLE_MANY[how](view, [lease, lease])
    assert lost == ([] if how == "extend" else [lease])
    assert len(rows(q)) == (1 if how in ("ack", "dead letter") else 2)


@each_settlement_of_many
def test_the_pair_is_tested_within_one_batch(q: Queue, clock: Clock, how: str) -> None:
    """Seq 1 was claimed again beside seq 2, under one token: its old lease must not pass with that of 2."""
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g1", 1)
    view.publish("g1", "next")
    stale = take(view, 10)
    view.publish("g2", 2)
    clock.advance(11)
    leases = {lease.group_id: lease for lease in other.claim_many("w", 100, 2)}
    assert set(leases) == {"g1", "g2"}
    before = rows(q)[:2]
    assert SETTLE_MANY[how](other, [stale, leases["g2"]]) == [stale]
    assert rows(q)[:2] == before
    assert view.claim_many("w", 30, 5) == [] or how == "nack"
    other.ack(leases["g1"])
    assert take(view).event in ("next", 2)


@each_settlement_of_many
def test_many_lost_among_many_good(q: Queue, clock: Clock, how: str) -> None:
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish_many([(f"g{n:02}", n) for n in range(20)])
    stale = view.claim_many("w", 10, 10)
    clock.advance(11)
    fresh = other.claim_many("w", 100, 20)
    assert len(fresh) == 20
    again = {lease.seq for lease in stale}
    good = [lease for lease in fresh if lease.seq not in again]
    mixed = [lease for pair in zip(stale, good, strict=True) for lease in pair]
    assert SETTLE_MANY[how](view, mixed) == stale
    held = [lease for lease in fresh if lease.seq in again]
    assert other.ack_many(held) == []


@each_settlement
def test_the_token_of_another_message_owns_nothing(q: Queue, how: str) -> None:
    view = q.open()
    view.publish("g1", 1)
    view.publish("g2", 2)
    one, two = take(view), take(view)
    before = rows(q)
    forged = MadeLease(one.seq, one.group_id, one.event, two.token + "x")
    with pytest.raises(LeaseLost):
        SETTLE[how](view, forged)
    if one.token != two.token:
        with pytest.raises(LeaseLost):
            SETTLE[how](view, MadeLease(one.seq, one.group_id, one.event, two.token))
    assert rows(q) == before


@each_settlement
def test_a_wrong_group_owns_nothing(q: Queue, how: str) -> None:
    view = q.open()
    view.publish("g1", 1)
    view.publish("g2", 2)
    one = take(view)
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, MadeLease(one.seq, "g2", one.event, one.token))
    assert rows(q) == before
    assert take(view).group_id == "g2"
    assert view.claim("w") is None
    view.ack(one)


@each_settlement
def test_an_empty_token_owns_nothing(q: Queue, how: str) -> None:
    view = q.open()
    seq = view.publish("g", 1)
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, MadeLease(seq, "g", 1))
    with pytest.raises(LeaseLost):
        SETTLE[how](view, MadeLease(seq, "g", 1, ""))
    assert rows(q) == before
    assert take(view).attempts == 1


@each_settlement
def test_nobody_owns_a_parked_message(q: Queue, clock: Clock, how: str) -> None:
    """The mark of a parked message stands where tokens stand: it is not one."""
    view = q.open(clock=clock)
    seq = view.publish("g", 1)
    view.nack(take(view), 50)
    before = rows(q)
    with pytest.raises(LeaseLost):
        SETTLE[how](view, MadeLease(seq, "g", 1, "__parked__"))
    assert rows(q) == before


@each_settlement
def test_a_message_that_never_was_is_lost(q: Queue, how: str) -> None:
    view = q.open()
    with pytest.raises(LeaseLost):
        SETTLE[how](view, MadeLease(2**40, "g", 1, "~w:0"))


def group_gone_on(q: Queue, clock: Clock) -> tuple[View, View, Lease, Lease]:
    """A lease lapsed, then another message of its group, of a smaller rank, was claimed."""
    view, other = q.open(clock=clock), q.open(clock=clock)
    view.publish("g", "lapsed")
    lapsed = take(view, 10)
    clock.advance(11)
    view.publish("g", "urgent", rank=-1)
    holder = take(other, 1000)
    assert holder.event == "urgent"
    return view, other, lapsed, holder


def test_extend_is_refused_while_another_message_of_the_group_is_in_work(q: Queue, clock: Clock) -> None:
    view, other, lapsed, holder = group_gone_on(q, clock)
    before = rows(q)
    with pytest.raises(LeaseLost):
        view.extend(lapsed, 100)
    assert view.extend_many([lapsed], 100) == [lapsed]
    assert rows(q) == before
    other.ack(holder)
    assert take(view).event == "lapsed"


@pytest.mark.parametrize("how", SPENDING)
def test_other_settlements_of_a_lapsed_lease_pass_beside_another_in_work(q: Queue, clock: Clock, how: str) -> None:
    view, other, lapsed, holder = group_gone_on(q, clock)
    SETTLE[how](view, lapsed)
    assert view.claim("w") is None, "the group is in work still"
    other.ack(holder)
    clock.advance(60)
    following = view.claim("w")
    if how in ("ack", "dead letter"):
        assert following is None
    else:
        assert following is not None and following.event == "lapsed"


def test_extend_is_accepted_once_the_other_message_is_done(q: Queue, clock: Clock) -> None:
    view, other, lapsed, holder = group_gone_on(q, clock)
    other.ack(holder)
    view.extend(lapsed, 100)
    assert view.claim("w") is None
    view.ack(lapsed)


def test_extend_is_obeyed_beside_the_settlements_of_its_batch(q: Queue, clock: Clock) -> None:
    """Two lapsed leases of one group are extended at once: each looks as if the group were free."""
    view = q.open(clock=clock)
    view.publish("g", "one")
    one = take(view, 10)
    clock.advance(11)
    view.publish("g", "two", rank=-1)
    two = take(view, 10)
    clock.advance(11)
    lost = view.extend_many([one, two], 100)
    live = [row for row in rows(q) if row[3] is not None and row[4] > clock()]
    assert len(live) <= 1, "two live leases in one group"
    assert len(live) + len(lost) == 2


@each_settlement
def test_a_lost_lease_only_warns_where_that_was_asked_for(
    q: Queue, clock: Clock, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    view, other = q.open(clock=clock, lost="warn"), q.open(clock=clock)
    view.publish("g", "a")
    stale = take(view, 10)
    clock.advance(11)
    holder = take(other, 1000)
    before = rows(q)
    with caplog.at_level(logging.WARNING, logger="rqfast"):
        SETTLE[how](view, stale)
    assert [record.levelname for record in caplog.records if record.name.startswith("rqfast")] == ["WARNING"]
    assert rows(q) == before
    other.ack(holder)


def test_a_lost_lease_tells_which(q: Queue) -> None:
    view = q.open()
    seq = view.publish("g", 1)
    lease = take(view)
    view.ack(lease)
    with pytest.raises(LeaseLost, match=str(seq)):
        view.ack(lease)


def test_settling_many_of_nothing_is_nothing(q: Queue) -> None:
    view = q.open()
    for settle in SETTLE_MANY.values():
        assert settle(view, []) == []
