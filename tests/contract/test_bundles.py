"""What commits together or not at all: ack(publish=), with_statements, publish_many(atomic=True)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import rqfast
from rqfast import Message
from tests.contract.views import Lease, Queue

ORDERS = "own_orders"


@pytest.fixture
def orders(q: Queue) -> Iterator[str]:
    """A table of the user's own, beside the queue."""
    name = f"{ORDERS}_{q.queue}"
    q.execute(f'CREATE TABLE "{name}"(id INTEGER PRIMARY KEY, what TEXT NOT NULL, data BLOB)')
    yield name
    q.execute(f'DROP TABLE "{name}"')


def claimed(view: Any) -> Lease:
    lease = view.claim("w", wait=10)
    assert lease is not None
    return lease  # type: ignore[no-any-return]


def rows(q: Queue, orders: str) -> list[tuple[Any, ...]]:
    return q.sql(f'SELECT id, what FROM "{orders}" ORDER BY id')


def stored(q: Queue) -> list[tuple[Any, ...]]:
    return q.sql(f"SELECT group_id, event FROM {q.table('messages')} ORDER BY seq")


def lost(q: Queue, view: Any, group: str = "g") -> Lease:
    """A lease that somebody else has taken over."""
    view.publish(group, "lost")
    lease = view.claim("w", visibility=0.02)
    assert lease is not None
    other = view.claim("w2", visibility=30, wait=10)
    assert other is not None and other.seq == lease.seq
    return lease  # type: ignore[no-any-return]


# -- publish(with_statements=) -------------------------------------------------------------------------------


def test_a_publish_commits_with_statements(q: Queue, orders: str) -> None:
    view = q.open()
    insert = f'INSERT INTO "{orders}"(id, what, data) VALUES(?, ?, ?)'
    seq = view.publish("g", {"n": 1}, with_statements=[[insert, 1, "x'00'", b"\0\xff"], [insert, 2, "b", None]])
    assert seq == 1
    assert rows(q, orders) == [(1, "x'00'"), (2, "b")]
    assert q.sql(f'SELECT typeof(what), typeof(data), hex(data) FROM "{orders}" WHERE id=1') == [
        ("text", "blob", "00FF")
    ]
    assert view.claim("w").event == {"n": 1}


@pytest.mark.parametrize(
    "bad",
    [
        ["INSERT INTO nowhere VALUES(1)"],
        ["INSERT INTO {orders}(id, nowhere) VALUES(9, 1)"],
        ["INSERT INTO {orders}(id, what) VALUES(9, NULL)"],
        ["INSRT INTO {orders}(id, what) VALUES(9, 'a')"],
        ["INSERT INTO {orders}(id, what) VALUES(1, 'taken')"],
        # On v8 a failing statement with RETURNING would not undo the others: this has none.
        ["INSERT INTO {orders}(id, what) VALUES(1, 'a returning b')"],
        ["SELECT json('{')"],
    ],
    ids=["no table", "no column", "constraint", "syntax", "key", "a word in a text", "a read"],
)
@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_a_statement_that_fails_or_does_not_prepare_leaves_nothing(
    q: Queue, orders: str, bad: list[str], first: bool
) -> None:
    view = q.open()
    view.publish("g", 0, with_statements=[[f'INSERT INTO "{orders}"(id, what) VALUES(1, ?)', "there"]])
    good = [f'INSERT INTO "{orders}"(id, what) VALUES(2, ?)', "good"]
    broken = [bad[0].replace("{orders}", f'"{orders}"')]
    with pytest.raises(rqfast.StatementError, match="nothing was applied") as caught:
        view.publish("g", 1, with_statements=[broken, good] if first else [good, broken])
    assert "with_statements[" in str(caught.value)
    assert rows(q, orders) == [(1, "there")]
    assert stored(q) == [("g", "0")]
    # And the transport goes on.
    assert view.publish("g", 2, with_statements=[good]) > 1
    assert view.publish("g", 3) > 2
    assert [event for _, event in stored(q)] == ["0", "2", "3"]


def test_one_caller_fails_alone(q: Queue, orders: str) -> None:
    view = q.open()
    errors: list[BaseException] = []
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'

    def work(n: int) -> None:
        for turn in range(5):
            try:
                if n % 2:
                    view.publish(f"g{n}", turn, with_statements=[[insert, 1, None]])
                else:
                    view.publish(f"g{n}", turn)
            except rqfast.StatementError as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(errors) == 15
    assert len(stored(q)) == 15
    assert rows(q, orders) == []


def test_order_holds_in_a_group(q: Queue, orders: str) -> None:
    view = q.open()
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    for n in range(0, 12, 3):
        view.publish_soon("g", n)
        view.publish_soon("g", n + 1)
        view.publish("g", n + 2, with_statements=[[insert, n, "o"]])
    view.flush()
    assert [int(event) for _, event in stored(q)] == list(range(12))


def test_a_dedup_id_holds_for_the_statements_too(q: Queue, orders: str) -> None:
    """They commit with the message or not at all: whoever publishes again after `OutcomeUnknown` has them once."""
    view = q.open()
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    first = view.publish("g", 1, dedup_id="d", with_statements=[[insert, 1, "a"]])
    assert view.publish("g", 1, dedup_id="d", with_statements=[[insert, 1, "a"]]) == first
    assert view.publish("other", 2, dedup_id="d", with_statements=[[insert, 2, "b"]]) == first
    assert stored(q) == [("g", "1")]
    assert rows(q, orders) == [(1, "a")]
    assert claimed(view).seq == first
    assert view.publish("g", 3, dedup_id="e", with_statements=[[insert, 3, "c"]]) > first
    assert view.publish("g", 4, with_statements=[[insert, 4, "d"]]) > first
    assert [number for number, _ in rows(q, orders)] == [1, 3, 4]


def test_statements_go_with_a_dedup_id_whose_window_has_passed(q: Queue, orders: str) -> None:
    view = q.open(dedup_window=0.05)
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    first = view.publish("g", 1, dedup_id="d", with_statements=[[insert, 1, "a"]])
    time.sleep(0.1)
    assert view.publish("g", 2, dedup_id="d", with_statements=[[insert, 2, "b"]]) > first
    assert rows(q, orders) == [(1, "a"), (2, "b")]


def test_the_statements_of_an_ack_are_the_acks_whatever_it_hands_on(q: Queue, orders: str) -> None:
    view = q.open()
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    view.publish("next", 1, dedup_id="d")
    view.publish("g", 1, 1)
    lease = view.claim("w", min_priority=1, wait=10)
    view.ack(lease, publish=[Message("next", 2, dedup_id="d")], with_statements=[[insert, 1, "a"]])
    assert stored(q) == [("next", "1")]
    assert rows(q, orders) == [(1, "a")]


# -- ack(publish=, with_statements=) --------------------------------------------------------------------------


def test_an_ack_hands_on(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = claimed(view)
    view.ack(lease, publish=[("h", 2), Message("g", 3, rank=-1, headers={"a": 1}), ("g", 4)])
    assert stored(q) == [("h", "2"), ("g", "3"), ("g", "4")]
    events = []
    while (lease := view.claim("w")) is not None:
        events.append((lease.group_id, lease.event))
        view.ack(lease)
    assert [event for group, event in events if group == "g"] == [3, 4]
    assert ("h", 2) in events


def test_an_ack_that_is_lost_hands_on_nothing(q: Queue, orders: str) -> None:
    view = q.open()
    gone = lost(q, view)
    before = stored(q)
    with pytest.raises(rqfast.LeaseLost):
        view.ack(gone, publish=[("h", 2), Message("i", 3, dedup_id="d")])
    with pytest.raises(rqfast.LeaseLost):
        view.ack(gone, with_statements=[[f'INSERT INTO "{orders}"(id, what) VALUES(1, ?)', "a"]])
    with pytest.raises(rqfast.LeaseLost):
        view.ack(gone, publish=[("h", 2)], with_statements=[[f'INSERT INTO "{orders}"(id, what) VALUES(1, ?)', "a"]])
    assert stored(q) == before
    assert rows(q, orders) == []
    assert q.sql(f"SELECT group_id FROM {q.table('groups')}") == [("g",)]
    # The id was not taken by what was not published.
    assert view.publish("i", 4, dedup_id="d") > 1


def test_an_ack_with_statements(q: Queue, orders: str) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = claimed(view)
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    with pytest.raises(rqfast.StatementError):
        view.ack(lease, publish=[("h", 2)], with_statements=[[insert, 1, None]])
    assert stored(q) == [("g", "1")]
    # The lease stands.
    view.ack(lease, publish=[("h", 2)], with_statements=[[insert, 1, "a"]])
    assert stored(q) == [("h", "2")]
    assert rows(q, orders) == [(1, "a")]
    with pytest.raises(rqfast.LeaseLost):
        view.ack(lease)


def test_lost_and_warn(q: Queue) -> None:
    view = q.open(lost="warn")
    gone = lost(q, view)
    before = stored(q)
    assert view.ack(gone, publish=[("h", 2)]) is None
    assert view.ack(gone, with_statements=[["DELETE FROM nothing_here_at_all WHERE 1=0"]]) is None
    assert stored(q) == before


def test_ack_many_is_one_transaction(q: Queue, orders: str) -> None:
    view = q.open()
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    for group in ("a", "b", "c"):
        view.publish(group, group)
    leases = view.claim_many("w", limit=3)
    assert view.ack_many(leases, publish=[("h", 1)], with_statements=[[insert, 1, "a"]]) == []
    assert stored(q) == [("h", "1")]
    assert rows(q, orders) == [(1, "a")]


def test_ack_many_with_one_lost_does_nothing(q: Queue, orders: str) -> None:
    view = q.open()
    gone = lost(q, view)
    view.publish("h", 1)
    good = claimed(view)
    before = stored(q)
    insert = f'INSERT INTO "{orders}"(id, what) VALUES(?, ?)'
    assert view.ack_many([good, gone], publish=[("i", 1)], with_statements=[[insert, 1, "a"]]) == [gone]
    assert stored(q) == before
    assert rows(q, orders) == []
    assert view.ack_many([good], publish=[("i", 1)]) == []
    assert ("i", "1") in stored(q)


def test_many_at_once_share_requests_and_only_the_lost_ones_do_nothing(q: Queue) -> None:
    view = q.open()
    for n in range(12):
        view.publish(f"g{n:02}", n)
    leases = view.claim_many("w", limit=12)
    for lease in leases[:4]:
        view.ack(lease)
    outcomes: dict[int, BaseException | None] = {}

    def work(lease: Lease) -> None:
        try:
            view.ack(lease, publish=[("out", lease.event), (lease.group_id, "next")])
            outcomes[lease.event] = None
        except rqfast.LeaseLost as error:
            outcomes[lease.event] = error

    threads = [threading.Thread(target=work, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert {n for n, error in outcomes.items() if error is not None} == {lease.event for lease in leases[:4]}
    there = stored(q)
    assert sorted(int(event) for group, event in there if group == "out") == sorted(lease.event for lease in leases[4:])
    assert len(there) == 16


def test_what_cannot_be_bundled_is_refused(q: Queue) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = claimed(view)
    for kwargs, error in (
        ({"publish": "g"}, TypeError),
        ({"publish": [("g",)]}, rqfast.InvalidMessage),
        ({"publish": [("", 1)]}, rqfast.InvalidMessage),
        ({"publish": 7}, TypeError),
        ({"with_statements": "DELETE FROM x"}, TypeError),
        ({"with_statements": [["COMMIT"]]}, rqfast.InvalidMessage),
        ({"with_statements": [[""]]}, rqfast.InvalidMessage),
        ({"with_statements": [["DELETE FROM x WHERE a=?"]]}, rqfast.InvalidMessage),
        ({"with_statements": [["DELETE FROM x RETURNING a"]]}, rqfast.InvalidMessage),
    ):
        with pytest.raises(error):
            view.ack(lease, **kwargs)
    with pytest.raises(rqfast.InvalidMessage):
        view.ack_many([], publish=[("g", 1)])
    with pytest.raises(rqfast.InvalidMessage):
        view.ack_many([lease, lease], publish=[("g", 1)])
    assert stored(q) == [("g", "1")]
    view.ack(lease)


def test_a_waiting_claim_wakes_for_what_was_handed_on(q: Queue) -> None:
    view = q.open(max_poll=30)
    view.publish("g", 1)
    lease = claimed(view)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(view.claim("w", wait=20)))
    waiting.start()
    view.ack(lease, publish=[("h", 2)])
    waiting.join(20)
    assert not waiting.is_alive()
    assert found[0] is not None and found[0].event == 2


# -- publish_many(atomic=True) --------------------------------------------------------------------------------


def test_atomic_is_all_or_nothing(q: Queue) -> None:
    view = q.open()
    before = q.entries()
    seqs = view.publish_many([("a", 1), ("b", 2), Message("a", 3, rank=1)], atomic=True)
    assert list(seqs) == [1, 2, 3]
    assert q.entries() == before + 1
    with pytest.raises(rqfast.InvalidMessage, match="item 1"):
        view.publish_many([("a", 4), ("", 5)], atomic=True)

    def broken() -> Iterator[Any]:
        yield ("a", 4)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        view.publish_many(broken(), atomic=True)
    assert [event for _, event in stored(q)] == ["1", "2", "3"]
    assert list(view.publish_many([], atomic=True)) == []


def test_atomic_is_refused_when_larger_than_a_request(q: Queue) -> None:
    view = q.open(max_batch=10)
    assert len(view.publish_many([("g", n) for n in range(10)], atomic=True)) == 10
    with pytest.raises(rqfast.InvalidMessage, match="max_batch"):
        view.publish_many([("g", n) for n in range(11)], atomic=True)
    with pytest.raises(rqfast.InvalidMessage):
        view.publish_many([("g", "x" * 600_000), ("h", "x" * 600_000)], atomic=True)
    assert len(stored(q)) == 10


def test_atomic_with_dedup_ids(q: Queue) -> None:
    view = q.open()
    first = view.publish("g", 0, dedup_id="a")
    seqs = view.publish_many(
        [Message("g", 1, dedup_id="b"), Message("g", 2, dedup_id="a"), Message("g", 3, dedup_id="b")], atomic=True
    )
    assert (seqs[1], seqs[2]) == (first, seqs[0])
    assert [event for _, event in stored(q)] == ["0", "1"]


def test_atomic_beside_others_keeps_the_order(q: Queue) -> None:
    view = q.open(max_batch=7)
    expected: dict[str, list[int]] = {f"g{k}": [] for k in range(5)}
    count = 0
    for turn in range(30):
        for k in range(3):
            group = f"g{(turn + k) % 5}"
            view.publish_soon(group, count)
            expected[group].append(count)
            count += 1
        items = []
        for k in range(3):
            group = f"g{(turn * 2 + k) % 5}"
            items.append((group, count))
            expected[group].append(count)
            count += 1
        view.publish_many(items, atomic=True)
    view.flush()
    there = stored(q)
    for group, events in expected.items():
        assert [int(event) for name, event in there if name == group] == events
