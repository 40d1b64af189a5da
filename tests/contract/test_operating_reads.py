"""What operators see: figures, groups, messages, dead letters; taking nothing and writing nothing."""

from __future__ import annotations

import pickle
import sqlite3
from typing import Any

import orjson
import pytest

import rqfast
from rqfast import DeadLetter, GroupInfo, StoredMessage
from tests.contract.operating import take
from tests.contract.views import Clock, Queue, View


def fill(view: View, groups: int = 12) -> None:
    """Group n has n+1 messages; its head was tried some times."""
    view.publish_many((f"g{n:02}", k) for n in reversed(range(groups)) for k in range(n + 1))
    for tries in range(2):
        leases = view.claim_many("w", 60, 100)
        back = [lease for lease in leases if int(lease.group_id[1:]) % 3 > tries]
        assert view.nack_many(back) == []
        for lease in leases:
            if lease not in back:
                view.release(lease.group_id)


ORDERS = {
    "oldest": lambda of: of.head_seq,
    "depth": lambda of: (-of.depth, of.group_id),
    "attempts": lambda of: (-of.head_attempts, of.group_id),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("by", ["value", "name"])
def test_groups_come_in_order_page_by_page(q: Queue, order: str, by: str) -> None:
    view = q.open()
    fill(view)
    whole = view.groups(order=order)
    assert sorted(group.depth for group in whole) == list(range(1, 13))
    key: Any = ORDERS[order]
    assert whole == sorted(whole, key=key)
    names: list[str] = []
    page = view.groups(order=order, limit=5)
    while page:
        assert len(page) <= 5
        names += [group.group_id for group in page]
        last: Any = page[-1]
        page = view.groups(order=order, limit=5, after=last if by == "value" else last.group_id)
    assert names == [group.group_id for group in whole]


def test_a_page_of_one_state(q: Queue) -> None:
    view = q.open()
    view.publish_many((f"g{n:02}", n) for n in range(12))
    held = {lease.group_id for lease in view.claim_many("w", 60, 5)}
    free = view.groups(state="claimable", limit=4)
    free += view.groups(state="claimable", limit=4, after=free[-1])
    assert len(free) == 7 and held.isdisjoint(group.group_id for group in free)
    assert free == sorted(free, key=lambda group: group.head_seq or 0)
    assert {group.group_id for group in view.groups(state="in_work")} == held


def test_a_page_goes_on_after_a_group_that_has_gone(q: Queue) -> None:
    view = q.open()
    for n in range(4):
        view.publish(f"g{n}", n)
    page = view.groups(limit=2)
    view.purge("g1")
    assert [group.group_id for group in view.groups(after=page[-1])] == ["g2", "g3"]
    with pytest.raises(rqfast.InvalidMessage, match="that group has gone"):
        view.groups(after="g1")


def test_a_group_and_its_holder(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "a", 3)
    view.publish("g", "b")
    clock.advance(5)
    lease = view.claim("host:1 of many", 30)
    assert lease is not None
    clock.advance(2)
    assert view.groups() == [
        GroupInfo(
            group_id="g",
            state="in_work",
            until=lease.expires_at,
            depth=2,
            priority=3,
            head_seq=lease.seq,
            head_attempts=1,
            worker_id="host:1 of many",
            oldest_age=7.0,
        )
    ]


def test_figures(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish_many((f"g{n}", k) for n in range(10) for k in range(3))
    clock.advance(10)
    leases = view.claim_many("w", 60, 4)
    clock.advance(5)
    view.nack(leases[0], 60)
    view.dead_letter(leases[1], "why")
    view.publish("late", 1, delay=60)
    view.publish(leases[2].group_id, 1, delay=60)
    view.pause("g9")
    view.pause("nothing")
    stats = view.stats()
    # Waiting for 15 s: those that nobody has claimed. The dead letter left its group with a claimable message.
    assert stats == rqfast.Stats(
        messages=31,
        claimable=6,
        in_work=2,
        parked=1,
        delayed=2,
        paused=2,
        dead=1,
        groups=12,
        oldest_claimable_age=15.0,
        oldest_in_work_age=5.0,
    )
    assert stats.claimable == len(view.claim_many("w", 60, 100))


def test_the_age_of_what_is_claimable_counts_from_when_it_is_due(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", 1, delay=60)
    clock.advance(59)
    assert view.stats().oldest_claimable_age is None
    clock.advance(4)
    assert view.stats().oldest_claimable_age == 3.0


def test_peek_shows_the_order_of_claims(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", "plain", headers={"h": 1, "f": 1.5, "n": None})
    view.publish("g", "delayed", delay=60)
    view.publish("g", "first", rank=-1)
    view.publish("g", "last", rank=1)
    view.publish("h", "other")
    seen = view.peek("g")
    assert [message.event for message in seen] == ["first", "plain", "delayed", "last"]
    assert view.peek("g", 2) == seen[:2]
    assert view.peek("nobody") == []
    head, plain, delayed, _ = seen
    assert (head.rank, head.attempts, head.priority) == (-1, 0, 0)
    assert (plain.raw, plain.headers, head.headers) == ('"plain"', {"h": 1, "f": 1.5, "n": None}, {})
    assert (plain.due_at, plain.published_at, delayed.due_at) == (clock.now, clock.now, clock.now + 60)
    assert take(view).seq == head.seq
    assert [message.attempts for message in view.peek("g", 2)] == [1, 0]


def test_a_stored_message_decodes_at_the_first_look(q: Queue) -> None:
    looked: list[str] = []

    def decode(text: str) -> Any:
        looked.append(text)
        return orjson.loads(text)["n"]

    view = q.open(decode=decode)
    view.publish("g", {"n": 1})
    view.publish("g", {"m": 2})
    good, bad = view.peek("g")
    assert looked == []
    assert (good.event, good.event, looked) == (1, 1, ['{"n":1}'])
    for _ in range(2):
        with pytest.raises(KeyError):
            _ = bad.event
    assert bad.raw == '{"m":2}'
    copied: StoredMessage[Any] = pickle.loads(pickle.dumps(good))
    assert (copied, copied.event) == (good, 1)


def test_stored_messages_are_values(q: Queue) -> None:
    view = q.open()
    view.publish("g", {"secret": 1}, headers={"h": "v"})
    [one], [other] = view.peek("g"), view.peek("g")
    assert one == other and hash(one) == hash(other) and one is not other
    assert "secret" not in repr(one) and "seq=1" in repr(one)
    with pytest.raises(AttributeError):
        one.seq = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(one)) == one
    view.dead_letter(take(view), "why")
    [letter] = view.dead_letters()
    assert pickle.loads(pickle.dumps(letter)) == letter
    assert isinstance(letter, DeadLetter) and isinstance(letter, StoredMessage)


def test_a_dead_letter_tells_all(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish("g", {"n": 1}, 2, rank=3, headers={"h": "v"})
    view.nack(take(view))
    published = clock.now
    clock.advance(5)
    lease = take(view)
    clock.advance(5)
    view.dead_letter(lease, "cannot be done")
    [letter] = view.dead_letters()
    assert (letter.seq, letter.group_id, letter.event, letter.raw) == (lease.seq, "g", {"n": 1}, '{"n":1}')
    assert (letter.priority, letter.attempts, letter.rank, letter.headers) == (2, 2, 3, {"h": "v"})
    assert (letter.published_at, letter.due_at, letter.died_at) == (published, published, clock.now)
    assert (letter.reason, letter.error) == ("cannot be done", None)


def test_dead_letters_come_page_by_page(q: Queue) -> None:
    view = q.open()
    for n in range(12):
        view.publish(f"g{n % 3}", n)
    while leases := view.claim_many("w", 60, 3):
        assert view.dead_letter_many(leases[::-1], "why") == []
    first = view.dead_letters(limit=7)
    rest = view.dead_letters(limit=7, after=first[-1].seq)
    assert [letter.event for letter in first + rest] == list(range(12))
    assert [letter.event for letter in view.dead_letters("g1")] == [1, 4, 7, 10]
    assert [letter.event for letter in view.dead_letters("g1", limit=2, after=first[4].seq)] == [7, 10]
    assert view.dead_letters("nobody") == []


def test_the_queues_of_a_database(q: Queue) -> None:
    view = q.open()
    assert q.queue in view.queues()
    other = q.open(queue=f"{q.queue}_2")
    assert {q.queue, f"{q.queue}_2"} <= set(other.queues())


def test_the_default_queue_has_no_name(default_q: Queue) -> None:
    assert default_q.open().queues() == [""]


def test_looking_writes_nothing(q: Queue) -> None:
    view = q.open()
    view.publish_many((f"g{n % 3}", n) for n in range(9))
    view.dead_letter(take(view), "why")
    view.stats()  # the first certain read of a term may
    entries = q.entries()
    for _ in range(3):
        view.stats()
        view.groups()
        view.groups(order="depth", state="claimable", after="g1")
        view.queues()
        view.peek("g1")
        view.dead_letters()
    assert q.entries() == entries


def test_what_is_confirmed_is_seen(q: Queue) -> None:
    view, other = q.open(), q.open()
    for n in range(30):
        view.publish("g", n)
        assert view.stats().messages == n + 1
        assert other.stats().messages == n + 1
    assert len(view.peek("g", 100)) == 30


def test_looking_does_not_wait_for_writers(embedded_q: Queue) -> None:
    view = embedded_q.open(busy_timeout=60)
    view.publish("g", 1)
    with sqlite3.connect(embedded_q.url.removeprefix("sqlite:///"), isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute(f"DELETE FROM {embedded_q.table('messages')}")
        assert view.stats().messages == len(view.peek("g")) == len(view.groups()) == 1
        other.execute("ROLLBACK")
    other.close()


def test_a_group_with_an_odd_name(q: Queue) -> None:
    view = q.open()
    names = ["a'b", 'a"b', "a;--", "%", "~", "ä\u2028", "x'00'", "X'61'", "1", " "]
    for name in names:
        view.publish(name, name)
    assert [group.group_id for group in view.groups()] == names
    for name in names:
        assert [message.event for message in view.peek(name)] == [name]
        view.pause(name)
        assert view.groups(state="paused")[0].group_id == name
        view.resume(name)
        assert view.purge(name) == 1
    assert view.groups() == []
